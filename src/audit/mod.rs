//! The audit: what was decided and what came of it, hash-chained (DESIGN §16).
//!
//! One writer, a thread of its own; callers hand it finished JSON and wait until `write(2)` is done.
//! Whatever has piled up meanwhile is written at once, and synced within a second.

mod entry;
mod error;
mod read;
mod verify;

use std::path::Path;

pub use entry::{DecisionEntry, EndpointEntry, OperatorEntry, OutcomeEntry, Raw};
pub use error::AuditError;
pub use read::{show, tail};
pub use verify::{Finding, Verification, verify};

use crate::store::{AuditHead, Store};

/// What to do when the record can't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// Refuse the request.
    #[default]
    Refuse,
    /// Let it through, log and count.
    Continue,
}

/// How to keep the record.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// What to do when it can't be written.
    pub on_failure: OnFailure,
    /// This node's name in the store.
    pub node: String,
    /// A new file begins when one has reached this size.
    pub rotate_bytes: u64,
    /// Continue although the record was cut or changed since the last run, with an alarm recorded.
    /// Otherwise opening fails and says what is wrong.
    pub accept_break: bool,
}

impl Default for AuditOptions {
    fn default() -> Self {
        AuditOptions {
            on_failure: OnFailure::Refuse,
            node: "local".into(),
            rotate_bytes: 64 << 20,
            accept_break: false,
        }
    }
}

/// The record's writer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Audit {}

impl Audit {
    /// Opens the record, checks its end against the head in the store, and starts the writer.
    pub async fn open(dir: &Path, store: &Store, options: AuditOptions) -> Result<Audit, AuditError> {
        todo!("{} {store:?} {options:?}", dir.display())
    }

    /// Records a decision. INVARIANT 12: wait for `Ok` before a secret is used.
    pub async fn decision(&self, entry: &DecisionEntry<'_>) -> Result<(), AuditError> {
        todo!("{entry:?}")
    }

    /// Records what came of it. Never waits; callable from anywhere, `Drop` included.
    pub fn outcome(&self, entry: &OutcomeEntry<'_>) {
        todo!("{entry:?}")
    }

    /// Records a call of an endpoint.
    pub async fn endpoint(&self, entry: &EndpointEntry<'_>) -> Result<(), AuditError> {
        todo!("{entry:?}")
    }

    /// Records a change by an operator.
    pub async fn operator(&self, entry: &OperatorEntry<'_>) -> Result<(), AuditError> {
        todo!("{entry:?}")
    }

    /// The last entry written.
    pub fn head(&self) -> Option<AuditHead> {
        todo!()
    }

    /// Waits until all that was handed over is on disk and the head is in the store.
    pub async fn flush(&self) -> Result<(), AuditError> {
        todo!()
    }
}
