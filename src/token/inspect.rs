//! What is in a token, for `kleis token inspect`.

use super::{RootKeys, TokenError};
use crate::words::Timestamp;

/// A token, printable. It holds nothing that could be spent.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Inspection {
    /// Whether a key of ours signed it. `None` when no keys were at hand to tell.
    pub signed_by_us: Option<bool>,
    /// Which root key it names.
    pub root_key_id: Option<u32>,
    /// The blocks, the authority block first.
    pub blocks: Vec<InspectedBlock>,
    /// The earliest plain expiry.
    pub expires: Option<Timestamp>,
    /// Whether a check looks at the time in another form.
    pub odd_expiry: bool,
    /// Whether nothing can be appended.
    pub sealed: bool,
}

/// A block, printable.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct InspectedBlock {
    /// Hex; revoking it ends this token and what was derived from it after this block.
    pub revocation_id: String,
    /// `bearer("…")`.
    pub facts: Vec<String>,
    /// Rules.
    pub rules: Vec<String>,
    /// Checks that are neither an expiry nor a narrowing.
    pub checks: Vec<String>,
    /// Allow lines.
    pub narrowings: Vec<String>,
    /// Its plain expiry.
    pub expires: Option<Timestamp>,
    /// Signed by a third party, or trusting one.
    pub third_party: bool,
}

/// Reads a token with or without keys. Without keys, what it says is what its holder says.
pub fn inspect(raw: &str, keys: Option<&RootKeys>) -> Result<Inspection, TokenError> {
    todo!("{} {keys:?}", raw.len())
}
