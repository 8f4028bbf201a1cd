//! A token's policy for one service, ready to decide.

use std::sync::Arc;

use super::{Decision, Denial, Rulebook, Situation};
use crate::facts::{Demand, RequestFacts};
use crate::token::VerifiedToken;
use crate::words::ServiceName;

/// What one token may do at one service (or through `passthrough`), compiled. Cached by the proxy by
/// token, service and generation of the configuration.
#[derive(Debug)]
pub struct Program {
    demand: Demand,
}

impl Program {
    /// Which facts a decision reads: nothing else need be made.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }
}

/// Compiles what the token may do at the service. A denial when that is nothing at all: the token is an
/// issuer's, no grant or spec line covers the service, a narrowing no longer parses, a block is outside
/// the supported subset.
pub fn compile(_rulebook: &Arc<Rulebook>, _service: &ServiceName, _token: &VerifiedToken) -> Result<Program, Denial> {
    todo!()
}

/// Compiles the token's checks for hosts that the configuration passes through.
pub fn compile_passthrough(_rulebook: &Arc<Rulebook>, _token: &VerifiedToken) -> Result<Program, Denial> {
    todo!()
}

/// Compiles the token's checks for kleis' own endpoints, where `allows` is false (DESIGN §9).
pub fn compile_endpoint(_rulebook: &Arc<Rulebook>, _token: &VerifiedToken) -> Result<Program, Denial> {
    todo!()
}

/// May this request be made? Pure: the same inputs give the same decision.
pub fn decide(_program: &Program, _facts: &RequestFacts, _situation: &Situation<'_>) -> Decision {
    todo!()
}

/// Whether the token's own checks hold at an endpoint: for issuers and bearers alike, and never a permit.
pub fn admit(_program: &Program, _facts: &RequestFacts, _situation: &Situation<'_>) -> Result<(), Denial> {
    todo!()
}
