//! What is in a token, for `kleis token inspect`.

use biscuit_auth::format::schema;
use prost::Message;

use super::print::{print_check, print_fact, print_rule, printable};
use super::verify::{check_shape, decode, is_sealed};
use super::{Block, RevocationId, RootKeys, TokenError, form, read, verify};
use crate::words::Timestamp;

/// A token, printable. It holds nothing that could be spent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

/// Reads a token with or without keys. Without keys, or when they did not sign it, what it says is what
/// its holder says.
pub fn inspect(raw: &str, keys: Option<&RootKeys>) -> Result<Inspection, TokenError> {
    let bytes = decode(raw)?;
    let token = schema::Biscuit::decode(bytes.as_slice()).map_err(|_| TokenError::Malformed)?;
    check_shape(&token)?;
    let blocks = read::unverified_blocks(&token)?;
    let (expires, odd_expiry) = form::life(&blocks);
    let signed = std::iter::once(&token.authority).chain(&token.blocks);
    Ok(Inspection {
        signed_by_us: keys.map(|keys| !matches!(verify(raw, keys), Err(TokenError::Signature | TokenError::Malformed))),
        root_key_id: token.root_key_id,
        blocks: blocks.iter().zip(signed).map(|(block, signed)| inspected(block, &signed.signature)).collect(),
        expires,
        odd_expiry,
        sealed: is_sealed(&token),
    })
}

fn inspected(block: &Block, signature: &[u8]) -> InspectedBlock {
    let plain = |check: &&super::ast::Check| form::expiry(check).is_none() && form::narrowing(check).is_none();
    InspectedBlock {
        revocation_id: RevocationId::new(signature).to_string(),
        facts: block.facts.iter().map(print_fact).collect(),
        rules: block.rules.iter().map(print_rule).collect(),
        checks: block.checks.iter().filter(plain).map(print_check).collect(),
        narrowings: block.checks.iter().filter_map(form::narrowing).map(printable).collect(),
        expires: block.checks.iter().filter_map(form::expiry).min(),
        third_party: block.third_party,
    }
}
