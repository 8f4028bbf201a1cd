//! Tokens: biscuits signed by the root key, one for each job (DESIGN §10).
//!
//! Layer 1, pure: keys, time and randomness are passed in. biscuit-auth signs, verifies and attenuates;
//! what policy evaluates is the blocks' syntax tree, never their text.

mod verified;

/// The syntax tree of datalog, as biscuit's own parser gives it.
pub use biscuit_parser::builder as ast;
pub use verified::{Block, Candidates, Identity, RevocationId, VerifiedToken};
