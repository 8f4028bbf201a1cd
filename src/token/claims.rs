//! What a token says, before it is one.

use std::fmt;

use zeroize::Zeroizing;

use super::{Candidates, RevocationId, ast};
use crate::facts::Fact;
use crate::words::{IssuerName, Timestamp};

/// What a bearer's token is to say.
#[derive(Debug, Clone)]
pub struct Claims {
    /// What may decide its requests.
    pub candidates: Candidates,
    /// Who holds it.
    pub bearer: String,
    /// Who asked for it.
    pub issued_by: Option<IssuerName>,
    /// Further facts: `task_fork("o", "r")`.
    pub facts: Vec<Fact>,
    /// From this second on it is expired.
    pub expires: Timestamp,
    /// Allow lines that take away (DESIGN §9). Whether they parse is the caller's to find out.
    pub narrowings: Vec<String>,
    /// Further checks.
    pub checks: Vec<ast::Check>,
}

/// What an attenuation takes away.
#[derive(Debug, Clone, Default)]
pub struct Attenuation {
    /// From this second on it is expired, if the parent isn't before.
    pub expires: Option<Timestamp>,
    /// Allow lines.
    pub narrowings: Vec<String>,
    /// Checks, as [`super::parse_check`] gives them.
    pub checks: Vec<ast::Check>,
}

/// A token as its holder gets it: unpadded base64url. Wiped when dropped, never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(Zeroizing<String>);

impl TokenText {
    pub(super) fn new(text: String) -> TokenText {
        TokenText(Zeroizing::new(text))
    }

    /// The token itself: to hand it to its holder, and for nothing else.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// A token that was just made.
#[derive(Debug, Clone)]
pub struct Minted {
    /// The token.
    pub token: TokenText,
    /// One for each block; the last one is this token's own.
    pub revocation_ids: Vec<RevocationId>,
    /// The true expiry: the earliest of all blocks. `None` only for what was attenuated from a token
    /// without one.
    pub expires: Option<Timestamp>,
}
