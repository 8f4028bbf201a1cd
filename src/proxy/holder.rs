//! Verified tokens, and what they may do, kept ready (DESIGN §3.2, §14).
//!
//! Bounded, also for texts that are no tokens. A text is kept as a hash. What may change between two
//! requests (revocation, expiry) is not in here: it is asked each time.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::refuse::Refusal;
use crate::config::Snapshot;
use crate::policy::{self, Denial, Program};
use crate::store::Revocations;
use crate::token::{MAX_TOKEN, RootKeys, TokenError, VerifiedToken, verify};
use crate::words::{Reason, ServiceName, Timestamp};

/// Tokens that are kept verified.
const VERIFIED: u64 = 20_000;
/// Texts that are known to be none. Few: whoever sends garbage must not push others out.
const REFUSED: u64 = 2_000;
/// Programs that are kept compiled.
const PROGRAMS: u64 = 16_384;
/// Leaves that one token may have minted for names that nobody claims, so that its refusals can be read.
const MAX_LEAVES: u32 = 64;

/// Whoever holds a token: the token, and what its holder uses of this proxy at the moment.
#[derive(Debug)]
pub struct Holder {
    token: VerifiedToken,
    id: u64,
    connections: AtomicU32,
    leaves: AtomicU32,
}

impl Deref for Holder {
    type Target = VerifiedToken;
    fn deref(&self) -> &VerifiedToken {
        &self.token
    }
}

impl Holder {
    /// Takes a place among the token's connections, if there is one left.
    pub fn connect(self: &Arc<Holder>, limit: u32) -> Option<Connected> {
        if self.connections.fetch_add(1, Ordering::Relaxed) < limit {
            return Some(Connected(self.clone()));
        }
        self.connections.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Whether a leaf may be minted for a name that is not claimed, only to say no under it.
    pub fn may_mint(&self) -> bool {
        self.leaves.fetch_add(1, Ordering::Relaxed) < MAX_LEAVES
    }
}

/// One of a token's connections, until it is dropped.
#[derive(Debug)]
pub struct Connected(Arc<Holder>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

type TokenKey = [u8; 32];
/// A holder, a service (or passthrough), and a generation of the configuration.
type ProgramKey = (u64, Option<ServiceName>, u64);

/// A program, or why there is none. Shared by all requests of a token to a service.
pub type Compiled = Arc<Result<Program, Denial>>;

/// The caches.
#[derive(Debug)]
pub struct Holders {
    verified: moka::sync::Cache<TokenKey, Arc<Holder>>,
    refused: moka::sync::Cache<TokenKey, TokenError>,
    programs: moka::sync::Cache<ProgramKey, Compiled>,
    next: AtomicU64,
}

impl Default for Holders {
    fn default() -> Holders {
        Holders {
            verified: moka::sync::Cache::new(VERIFIED),
            refused: moka::sync::Cache::new(REFUSED),
            programs: moka::sync::Cache::new(PROGRAMS),
            next: AtomicU64::new(0),
        }
    }
}

impl Holders {
    /// Whose token this is, or why it is none.
    pub fn verify(&self, raw: &str, keys: &RootKeys) -> Result<Arc<Holder>, TokenError> {
        if raw.len() > MAX_TOKEN {
            return Err(TokenError::TooLong);
        }
        let key: TokenKey = Sha256::new().chain_update(keys.fingerprint()).chain_update(raw).finalize().into();
        if let Some(holder) = self.verified.get(&key) {
            return Ok(holder);
        }
        if let Some(error) = self.refused.get(&key) {
            return Err(error);
        }
        let token = verify(raw, keys).inspect_err(|error| self.refused.insert(key, *error))?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // two that verify at once get one holder: connections are counted in one place
        Ok(self.verified.get_with(key, || {
            Arc::new(Holder { token, id, connections: AtomicU32::new(0), leaves: AtomicU32::new(0) })
        }))
    }

    /// What the holder may do at a service, or through `passthrough`.
    pub fn program(&self, holder: &Holder, service: Option<&ServiceName>, snapshot: &Snapshot) -> Compiled {
        let key = (holder.id, service.cloned(), snapshot.generation);
        self.programs.get_with(key, || {
            Arc::new(match service {
                Some(service) => policy::compile(&snapshot.rulebook, service, holder),
                None => policy::compile_passthrough(&snapshot.rulebook, holder),
            })
        })
    }

    /// How many tokens are kept verified.
    pub fn len(&self) -> u64 {
        self.verified.entry_count()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether a verified token still is one: neither revoked nor expired. For every request.
pub fn still_valid(holder: &Holder, revocations: &Revocations, now: Timestamp) -> Result<(), Refusal> {
    if revocations.any_revoked(holder.revocation_ids()) {
        return Err(Reason::TokenRevoked.into());
    }
    if holder.expires().is_some_and(|expires| expires <= now) {
        return Err(Reason::TokenExpired.into());
    }
    Ok(())
}
