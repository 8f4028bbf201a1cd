//! From a text to a [`VerifiedToken`].

use super::{RootKeys, TokenError, VerifiedToken};

/// No token that kleis makes comes near: longer texts are refused unread.
pub const MAX_TOKEN: usize = 16 * 1024;
/// Attenuations of attenuations.
pub const MAX_BLOCKS: usize = 32;

/// Verifies every signature of a token (base64url, padded or not) and reads its blocks. Says nothing of
/// expiry and revocation.
pub fn verify(raw: &str, keys: &RootKeys) -> Result<VerifiedToken, TokenError> {
    todo!("{} {keys:?}", raw.len())
}
