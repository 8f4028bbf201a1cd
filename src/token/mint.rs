//! Making tokens, and taking away from them.

use std::collections::BTreeSet;

use base64::Engine as _;
use biscuit_auth::builder::{self, BlockBuilder};
use biscuit_auth::datalog::SymbolTable;
use biscuit_auth::{Algorithm, Biscuit, BiscuitBuilder, KeyPair, UnverifiedBiscuit};
use prost::Message;
use rand::{CryptoRng, RngCore};

use super::verify::{BASE64, check_shape, decode, is_sealed};
use super::{
    Attenuation, Candidates, Claims, MAX_BLOCKS, MAX_TOKEN, MintError, Minted, RevocationId, RootKeys, TokenError,
    TokenText, ast, form, identity, read,
};
use crate::facts::{Fact, Key, Term};
use crate::words::{IssuerName, Timestamp};

/// Makes a bearer's token.
pub fn mint(keys: &RootKeys, claims: &Claims, rng: &mut (impl RngCore + CryptoRng)) -> Result<Minted, MintError> {
    let mut facts = candidate_facts(&claims.candidates)?;
    facts.push(text_fact("bearer", bearer(&claims.bearer)?));
    facts.extend(claims.issued_by.iter().map(|issuer| text_fact("issued_by", issuer.as_str())));
    for fact in &claims.facts {
        facts.push(stated(fact)?);
    }
    let checks = checks(Some(claims.expires), &claims.narrowings, &claims.checks)?;
    sign(keys, facts, checks, claims.expires, rng)
}

/// Makes an issuer's credential: it may ask for tokens, and spends nothing.
pub fn mint_issuer(
    keys: &RootKeys,
    issuer: &IssuerName,
    expires: Timestamp,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<Minted, MintError> {
    let facts = vec![text_fact("issuer", issuer.as_str())];
    sign(keys, facts, vec![form::expiry_check(expires)], expires, rng)
}

fn sign(
    keys: &RootKeys,
    facts: Vec<builder::Fact>,
    checks: Vec<ast::Check>,
    expires: Timestamp,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<Minted, MintError> {
    let (id, pair) = keys.signer().ok_or_else(|| MintError::Library("there is no root key".into()))?;
    let mut token = BiscuitBuilder::new().root_key_id(id);
    for fact in facts {
        token = token.fact(fact).map_err(library)?;
    }
    for check in checks {
        token = token.check(builder::Check::from(check)).map_err(library)?;
    }
    let token: Biscuit = token.build_with_rng(pair, SymbolTable::new(), rng).map_err(library)?;
    let bytes = token.to_vec().map_err(library)?;
    minted(&bytes, &token.revocation_identifiers(), Some(expires))
}

/// Appends a block that takes away, with no key but the token itself.
pub fn attenuate(
    raw: &str,
    attenuation: &Attenuation,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<Minted, MintError> {
    let checks = checks(attenuation.expires, &attenuation.narrowings, &attenuation.checks)?;
    if checks.is_empty() {
        return Err(MintError::Nothing);
    }
    let (parent, blocks) = open(raw)?;
    let (parent_expires, _) = form::life(&blocks);
    let mut block = BlockBuilder::new();
    for check in checks {
        block = block.check(builder::Check::from(check)).map_err(library)?;
    }
    let next = KeyPair::new_with_rng(Algorithm::Ed25519, rng);
    let token = parent.append_with_keypair(&next, block).map_err(|_| TokenError::Malformed)?;
    let expires = [parent_expires, attenuation.expires].into_iter().flatten().min();
    let bytes = token.to_vec().map_err(library)?;
    minted(&bytes, &token.revocation_identifiers(), expires)
}

/// Reads a token that will be attenuated. Its signatures are not checked: there is no key, and a token
/// that isn't one stays none.
fn open(raw: &str) -> Result<(UnverifiedBiscuit, Vec<super::Block>), TokenError> {
    let bytes = decode(raw)?;
    let proto = biscuit_auth::format::schema::Biscuit::decode(bytes.as_slice()).map_err(|_| TokenError::Malformed)?;
    check_shape(&proto)?;
    if is_sealed(&proto) {
        return Err(TokenError::Sealed);
    }
    if proto.blocks.len() + 2 > MAX_BLOCKS {
        return Err(TokenError::TooManyBlocks);
    }
    let blocks = read::unverified_blocks(&proto)?;
    let token = UnverifiedBiscuit::from(bytes).map_err(|_| TokenError::Malformed)?;
    Ok((token, blocks))
}

fn minted(bytes: &[u8], ids: &[Vec<u8>], expires: Option<Timestamp>) -> Result<Minted, MintError> {
    let text = BASE64.encode(bytes);
    if text.len() > MAX_TOKEN {
        return Err(MintError::TooLong);
    }
    let revocation_ids = ids.iter().map(|id| RevocationId::new(id)).collect();
    Ok(Minted { token: TokenText::new(text), revocation_ids, expires })
}

fn checks(
    expires: Option<Timestamp>,
    narrowings: &[String],
    further: &[ast::Check],
) -> Result<Vec<ast::Check>, MintError> {
    let mut checks: Vec<ast::Check> = expires.map(form::expiry_check).into_iter().collect();
    for line in narrowings {
        if line.trim().is_empty() || line.chars().any(char::is_control) {
            return Err(MintError::Narrowing(line.clone()));
        }
        checks.push(form::narrowing_check(line.trim()));
    }
    checks.extend(further.iter().cloned());
    Ok(checks)
}

fn candidate_facts(candidates: &Candidates) -> Result<Vec<builder::Fact>, MintError> {
    match candidates {
        Candidates::Spec(spec) => Ok(vec![text_fact("spec", spec.as_str())]),
        Candidates::Grants(grants) => {
            let mut seen = BTreeSet::new();
            if let Some(twice) = grants.iter().find(|grant| !seen.insert(*grant)) {
                return Err(MintError::GrantTwice(twice.to_string()));
            }
            if grants.is_empty() {
                return Err(MintError::NoCandidate);
            }
            Ok(grants.iter().map(|grant| text_fact("grant", grant.as_str())).collect())
        }
    }
}

fn bearer(name: &str) -> Result<&str, MintError> {
    let length = name.chars().count();
    if (1..=256).contains(&length) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(MintError::Bearer(name.to_owned()))
    }
}

fn text_fact(name: &str, text: &str) -> builder::Fact {
    builder::Fact::new(name.to_owned(), vec![builder::Term::Str(text.to_owned())])
}

/// A fact that the token's maker states, as a term and never as text: a string stays a string (R154).
fn stated(fact: &Fact) -> Result<builder::Fact, MintError> {
    let name = fact.predicate.as_ref();
    // `time` is what expiries are compared with: a token that brings its own would never end.
    if identity::OWN.contains(&name) || name == "time" {
        return Err(MintError::ReservedFact(name.to_owned()));
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.len() > 128 || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(word) {
        return Err(MintError::FactName(name.to_owned()));
    }
    let terms = fact.terms.iter().map(|term| biscuit_term(term, 0)).collect::<Option<Vec<_>>>();
    let terms = terms.filter(|terms| !terms.is_empty()).ok_or_else(|| MintError::FactTerm(name.to_owned()))?;
    Ok(builder::Fact::new(name.to_owned(), terms))
}

/// How deep a stated term may nest: the wire format is read with a bound on recursion.
const MAX_DEPTH: usize = 16;

fn biscuit_term(term: &Term, depth: usize) -> Option<builder::Term> {
    if depth > MAX_DEPTH {
        return None;
    }
    Some(match term {
        Term::Integer(number) => builder::Term::Integer(*number),
        Term::Str(text) => builder::Term::Str(text.as_ref().to_owned()),
        Term::Date(date) => builder::Term::Date(*date),
        Term::Bytes(bytes) => builder::Term::Bytes(bytes.to_vec()),
        Term::Bool(value) => builder::Term::Bool(*value),
        Term::Null => builder::Term::Null,
        Term::Set(terms) => {
            // The wire format has no sets in sets, and one type for a whole set.
            let kinds: BTreeSet<_> = terms.iter().map(kind).collect();
            if kinds.len() > 1 || terms.iter().any(|t| matches!(t, Term::Set(_))) {
                return None;
            }
            builder::Term::Set(terms.iter().map(|t| biscuit_term(t, depth + 1)).collect::<Option<_>>()?)
        }
        Term::Array(terms) => {
            builder::Term::Array(terms.iter().map(|t| biscuit_term(t, depth + 1)).collect::<Option<_>>()?)
        }
        Term::Map(entries) => builder::Term::Map(
            entries
                .iter()
                .map(|(key, term)| {
                    let key = match key {
                        Key::Integer(number) => builder::MapKey::Integer(*number),
                        Key::Str(text) => builder::MapKey::Str(text.as_ref().to_owned()),
                    };
                    Some((key, biscuit_term(term, depth + 1)?))
                })
                .collect::<Option<_>>()?,
        ),
    })
}

fn kind(term: &Term) -> u8 {
    match term {
        Term::Integer(_) => 0,
        Term::Str(_) => 1,
        Term::Date(_) => 2,
        Term::Bytes(_) => 3,
        Term::Bool(_) => 4,
        Term::Null => 5,
        Term::Set(_) => 6,
        Term::Array(_) => 7,
        Term::Map(_) => 8,
    }
}

fn library(error: impl std::fmt::Display) -> MintError {
    MintError::Library(error.to_string())
}
