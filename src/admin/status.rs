//! What the daemon says of itself, to its operator and to issuers.

use serde_json::{Value, json};

use crate::config::Reload;
use crate::credential;
use crate::proxy::State;

/// Where each credential stands.
fn credentials(state: &State) -> Vec<Value> {
    let described = |known: credential::Known| {
        let (word, why) = match known.state {
            credential::State::Unused => ("unused", None),
            credential::State::Ok => ("ok", None),
            credential::State::Failing { why, .. } => ("failing", Some(why)),
        };
        json!({
            "name": known.name, "service": known.service, "provider": known.provider, "kind": known.kind.as_ref(),
            "declared": known.declared, "state": word, "why": why,
        })
    };
    state.vault.list().into_iter().map(described).collect()
}

fn configuration(state: &State) -> Value {
    let reload: &Reload = &state.config.last_reload();
    json!({
        "generation": state.snapshot().generation,
        "loaded_at": reload.at,
        "error": reload.error().map(ToString::to_string),
    })
}

/// For issuers: names and states, and whether the configuration is what its files say.
pub fn brief(state: &State) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "credentials": credentials(state),
        "config": configuration(state),
    })
}

/// For the operator.
pub fn full(state: &State) -> Value {
    let counts = state.meters.counts();
    let listeners = state.listening.iter().map(|(role, address)| format!("{address} ({role})"));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started": state.started,
        "listeners": listeners.collect::<Vec<_>>(),
        "config": configuration(state),
        "warnings": state.snapshot().warnings.iter().collect::<Vec<_>>(),
        "credentials": credentials(state),
        "connections": counts.connections,
        "tunnels": counts.tunnels,
        "requests": counts.requests,
        "relays": state.watchers.len(),
        "tokens_cached": state.holders.len(),
        "revocations": state.operator.revocations().len(),
        "ca_days_left": state.ca.days_left(),
        "audit": { "seq": state.audit().head().map(|head| head.seq) },
    })
}
