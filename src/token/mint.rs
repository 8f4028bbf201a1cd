//! Making tokens, and taking away from them.

use rand::{CryptoRng, RngCore};

use super::{Attenuation, Claims, MintError, Minted, RootKeys};
use crate::words::{IssuerName, Timestamp};

/// Makes a bearer's token.
pub fn mint(keys: &RootKeys, claims: &Claims, rng: &mut (impl RngCore + CryptoRng)) -> Result<Minted, MintError> {
    let _ = (keys, claims, rng);
    todo!()
}

/// Makes an issuer's credential: it may ask for tokens, and spends nothing.
pub fn mint_issuer(
    keys: &RootKeys,
    issuer: &IssuerName,
    expires: Timestamp,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<Minted, MintError> {
    let _ = (keys, issuer, expires, rng);
    todo!()
}

/// Appends a block that takes away, with no key but the token itself.
pub fn attenuate(
    raw: &str,
    attenuation: &Attenuation,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<Minted, MintError> {
    let _ = (raw, attenuation, rng);
    todo!()
}
