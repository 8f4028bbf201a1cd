//! Why a token isn't one.

use crate::words::Reason;

/// Why a text is no token of ours.
///
/// The messages are constant: what a client sent is never repeated, neither whole nor in part nor as
/// a hash (R130). Whoever debugs has `kleis token inspect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Longer than [`super::MAX_TOKEN`].
    #[error("the token is too long")]
    TooLong,
    /// No base64url, no biscuit, or a biscuit whose blocks can't be read.
    #[error("the token is not a biscuit in base64url")]
    Malformed,
    /// Signed by another key, or changed since.
    #[error("the token is not signed by a root key of this proxy")]
    Signature,
    /// More than [`super::MAX_BLOCKS`].
    #[error("the token has too many blocks")]
    TooManyBlocks,
    /// Made with an algorithm whose signatures somebody could vary, so that revoking one misses another.
    #[error("the token has a block that is not signed with Ed25519")]
    Algorithm,
    /// The authority block names nobody, or more than one.
    #[error("the token's authority block must have one `bearer` with `grant`s or one `spec`, or else one `issuer`")]
    Identity,
    /// Nothing can be appended.
    #[error("the token is sealed: nothing can be appended to it")]
    Sealed,
}

impl TokenError {
    /// The code under which it is refused.
    pub fn reason(self) -> Reason {
        Reason::TokenInvalid
    }
}

/// Why a token can't be made as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The bearer's name.
    #[error("`{0}` is not a name for a bearer: use 1 to 256 characters without control characters")]
    Bearer(String),
    /// No grant.
    #[error("a token needs a spec, or at least one grant")]
    NoCandidate,
    /// A grant twice.
    #[error("grant `{0}` is named twice")]
    GrantTwice(String),
    /// A fact that only the token room writes.
    #[error("fact `{0}` is not for a token's maker to state: kleis writes it")]
    ReservedFact(String),
    /// A fact whose name no datalog could spell.
    #[error("`{0}` is not a name for a fact: use a letter, then letters, digits and `_`")]
    FactName(String),
    /// A fact with a term that a biscuit can't hold.
    #[error("fact `{0}` has a set inside a set, or a set of different types: neither fits into a token")]
    FactTerm(String),
    /// A narrowing that is empty or holds control characters.
    #[error("`{0}` is not an allow line: use `service: only verb`, on one line")]
    Narrowing(String),
    /// Nothing to append.
    #[error("an attenuation needs an expiry, a narrowing or a check")]
    Nothing,
    /// The result wouldn't be accepted.
    #[error("the token would be longer than what is accepted: state fewer facts")]
    TooLong,
    /// What was given is no token, or can't be attenuated.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The library refused.
    #[error("the token can't be made: {0}")]
    Library(String),
}
