//! Tokens: biscuits signed by the root key, one for each job (DESIGN §10).
//!
//! Layer 1, pure: keys, time and randomness are passed in. biscuit-auth signs, verifies and attenuates;
//! what policy evaluates is the blocks' syntax tree, never their text.

mod claims;
mod error;
mod form;
mod identity;
mod inspect;
mod keys;
mod mint;
mod print;
mod read;
mod source;
mod verified;
mod verify;

/// The syntax tree of datalog, as biscuit's own parser gives it.
pub use biscuit_parser::builder as ast;
pub use claims::{Attenuation, Claims, Minted, TokenText};
pub use error::{MintError, TokenError};
pub use form::{expiry, narrowing};
pub use inspect::{InspectedBlock, Inspection, inspect};
pub use keys::{RootKeys, RootKeysError};
pub use mint::{attenuate, mint, mint_issuer};
pub(crate) use print::is_unprintable;
pub use print::{print_check, print_fact, print_rule, print_term, printable};
pub use source::{SourceError, parse_check, parse_facts};
pub use verified::{Block, Candidates, Identity, RevocationId, VerifiedToken};
pub use verify::{MAX_BLOCKS, MAX_TOKEN, verify};

#[cfg(test)]
mod tests;
