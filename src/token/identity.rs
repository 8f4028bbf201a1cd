//! Who a token stands for: the facts of its authority block, which only a root key can have signed.

use std::sync::Arc;

use super::{Block, Candidates, Identity, TokenError};
use crate::facts::Fact;
use crate::words::{GrantName, IssuerName, SpecName};

/// The predicates that only the token room writes.
pub(super) const OWN: &[&str] = &["bearer", "issued_by", "issuer", "grant", "spec"];

/// Reads the identity. Facts of later blocks never come here: anybody can append those.
pub(super) fn of(authority: &Block) -> Result<Identity, TokenError> {
    let bearer = one(authority, "bearer")?;
    let issuer = one(authority, "issuer")?;
    let issued_by = one(authority, "issued_by")?;
    let spec = one(authority, "spec")?;
    let grants = all(authority, "grant")?;
    match (bearer, issuer) {
        (None, Some(issuer)) if issued_by.is_none() && spec.is_none() && grants.is_empty() => {
            Ok(Identity::Issuer(IssuerName::parse(issuer).map_err(|_| TokenError::Identity)?))
        }
        (Some(bearer), None) => Ok(Identity::Bearer {
            bearer: Arc::from(bearer),
            issued_by: issued_by.map(IssuerName::parse).transpose().map_err(|_| TokenError::Identity)?,
            candidates: candidates(spec, &grants)?,
        }),
        _ => Err(TokenError::Identity),
    }
}

fn candidates(spec: Option<&str>, grants: &[&str]) -> Result<Candidates, TokenError> {
    match (spec, grants) {
        (Some(spec), []) => Ok(Candidates::Spec(SpecName::parse(spec).map_err(|_| TokenError::Identity)?)),
        (None, [_, ..]) => {
            let names = grants.iter().map(|g| GrantName::parse(g)).collect::<Result<Vec<_>, _>>();
            Ok(Candidates::Grants(names.map_err(|_| TokenError::Identity)?))
        }
        _ => Err(TokenError::Identity),
    }
}

/// The one text of that predicate; two, or another type, is an error.
fn one<'a>(block: &'a Block, predicate: &str) -> Result<Option<&'a str>, TokenError> {
    match all(block, predicate)?.as_slice() {
        [] => Ok(None),
        [text] => Ok(Some(text)),
        _ => Err(TokenError::Identity),
    }
}

fn all<'a>(block: &'a Block, predicate: &str) -> Result<Vec<&'a str>, TokenError> {
    block
        .facts
        .iter()
        .filter(|f| f.predicate.as_ref() == predicate)
        .map(|f| text(f).ok_or(TokenError::Identity))
        .collect()
}

fn text(fact: &Fact) -> Option<&str> {
    match fact.terms.as_slice() {
        [term] => term.as_str().filter(|text| !text.is_empty()),
        _ => None,
    }
}
