//! The configuration in force, and how the last reload went.

use std::sync::Arc;

use super::{Home, Snapshot};
use crate::words::{FileErrors, Timestamp};

/// The snapshot in force. Cheap to share; reading it takes no lock.
#[derive(Debug)]
pub struct Live {}

/// How a reload went, for `kleis status`, metrics and the log.
#[derive(Debug, Clone)]
pub struct Reload {
    /// When it was tried.
    pub at: Timestamp,
    /// The generation in force afterwards.
    pub generation: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a reload.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The new configuration is in force.
    InForce {
        /// Keys that were changed and take effect when the daemon is restarted.
        needs_restart: Vec<&'static str>,
    },
    /// Nothing has changed: what is in force is what was before.
    Failed(FileErrors),
}

impl Live {
    /// Loads for the first time: an error is the end of the start.
    pub fn open(home: Home) -> Result<Arc<Live>, FileErrors> {
        let _ = home;
        todo!()
    }

    /// The snapshot in force. A request takes it once and keeps it.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        todo!()
    }

    /// Loads again. A failure changes nothing and is kept for [`Live::last_reload`].
    pub fn reload(&self) -> Reload {
        todo!()
    }

    /// How the last (re)load went.
    pub fn last_reload(&self) -> Arc<Reload> {
        todo!()
    }

    /// Sees each new generation (and each failure) after it came.
    pub fn subscribe(&self) -> tokio::sync::watch::Receiver<Arc<Reload>> {
        todo!()
    }
}
