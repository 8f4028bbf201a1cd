//! From a text to a [`VerifiedToken`].

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use biscuit_auth::Biscuit;
use biscuit_auth::format::schema;

use super::{RevocationId, RootKeys, TokenError, VerifiedToken, form, identity, read};

/// No token that kleis makes comes near: longer texts are refused unread.
pub const MAX_TOKEN: usize = 16 * 1024;
/// Attenuations of attenuations.
pub const MAX_BLOCKS: usize = 32;

/// Base64url, read with or without padding, printed without: `=`, `+` and `/` break in proxy URLs.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Verifies every signature of a token (base64url, padded or not) and reads its blocks. Says nothing of
/// expiry and revocation.
pub fn verify(raw: &str, keys: &RootKeys) -> Result<VerifiedToken, TokenError> {
    let bytes = decode(raw)?;
    let token = Biscuit::from(bytes, keys).map_err(|error| match error {
        biscuit_auth::error::Token::Format(
            biscuit_auth::error::Format::Signature(_) | biscuit_auth::error::Format::UnknownPublicKey,
        ) => TokenError::Signature,
        _ => TokenError::Malformed,
    })?;
    let proto = token.container().to_proto();
    check_shape(&proto)?;
    let blocks = read::verified_blocks(&token)?;
    let authority = blocks.first().ok_or(TokenError::Malformed)?;
    let identity = identity::of(authority)?;
    let (expires, odd_expiry) = form::life(&blocks);
    Ok(VerifiedToken {
        identity,
        blocks: blocks.into(),
        revocation_ids: token.revocation_identifiers().iter().map(|id| RevocationId::new(id)).collect(),
        expires,
        odd_expiry,
        sealed: is_sealed(&proto),
    })
}

/// Base64url to bytes, within the cap.
pub(super) fn decode(raw: &str) -> Result<Vec<u8>, TokenError> {
    if raw.len() > MAX_TOKEN {
        return Err(TokenError::TooLong);
    }
    BASE64.decode(raw).map_err(|_| TokenError::Malformed)
}

/// Bounds that biscuit-auth doesn't set.
pub(super) fn check_shape(token: &schema::Biscuit) -> Result<(), TokenError> {
    if token.blocks.len() >= MAX_BLOCKS {
        return Err(TokenError::TooManyBlocks);
    }
    // Revocation ids are signatures. An ECDSA signature (r, s) has a twin (r, -s) that verifies as well:
    // a holder could swap a revoked block's id for its twin. Ed25519, checked strictly, has none.
    let ed25519 = schema::public_key::Algorithm::Ed25519 as i32;
    let keys = std::iter::once(&token.authority).chain(&token.blocks).map(|block| &block.next_key);
    if keys.into_iter().any(|key| key.algorithm != ed25519) {
        return Err(TokenError::Algorithm);
    }
    Ok(())
}

pub(super) fn is_sealed(token: &schema::Biscuit) -> bool {
    matches!(token.proof.content, Some(schema::proof::Content::FinalSignature(_)))
}
