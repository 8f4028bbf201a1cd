//! Counters and histograms (Prometheus). Label values come from fixed sets: services, reasons.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::service::Service;
use crate::words::{Reason, ServiceName};

/// Totals since the start, for `kleis status` and the like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted on proxy listeners.
    pub connections: u64,
    /// `CONNECT` tunnels granted.
    pub tunnels: u64,
    /// Requests judged.
    pub requests: u64,
}

/// Every meter of the proxy. Handles are kept: looking a meter up by name and labels costs more than all
/// that is measured.
pub struct Meters {
    requests: DashMap<(Option<ServiceName>, Option<Reason>), Counter>,
    latency: Histogram,
    fuel: Histogram,
    connections: Counter,
    open: Gauge,
    tunnels: Counter,
    open_tunnels: Gauge,
    leaves: Counter,
    untrusted: Counter,
    failed_hellos: Counter,
    cut: DashMap<Reason, Counter>,
    unrecorded: Counter,
    counts: [AtomicU64; 3],
}

impl Default for Meters {
    fn default() -> Meters {
        Meters {
            requests: DashMap::new(),
            latency: histogram!("kleis_request_seconds"),
            fuel: histogram!("kleis_decision_fuel"),
            connections: counter!("kleis_connections_total"),
            open: gauge!("kleis_connections_open"),
            tunnels: counter!("kleis_tunnels_total"),
            open_tunnels: gauge!("kleis_tunnels_open"),
            leaves: counter!("kleis_handshakes_total"),
            untrusted: counter!("kleis_ca_not_trusted_total"),
            failed_hellos: counter!("kleis_tunnel_protocol_unknown_total"),
            cut: DashMap::new(),
            unrecorded: counter!("kleis_audit_unrecorded_total"),
            counts: Default::default(),
        }
    }
}

impl Meters {
    fn request(&self, service: Option<&Service>, reason: Option<Reason>) {
        let [_, _, requests] = &self.counts;
        requests.fetch_add(1, Ordering::Relaxed);
        let key = (service.map(|service| service.name().clone()), reason);
        if let Some(counter) = self.requests.get(&key) {
            return counter.increment(1);
        }
        let service = key.0.as_ref().map_or_else(String::new, ToString::to_string);
        let decision = if reason.is_some() { "deny" } else { "allow" };
        let counter = counter!(
            "kleis_requests_total", "service" => service, "decision" => decision, "reason" => reason.map_or("", Reason::code)
        );
        counter.increment(1);
        self.requests.insert(key, counter);
    }

    /// A request is refused.
    pub fn refused(&self, service: Option<&Service>, reason: Reason) {
        self.request(service, Some(reason));
    }

    /// A request is allowed; what the decision cost.
    pub fn allowed(&self, service: Option<&Service>, fuel: u64) {
        self.request(service, None);
        self.fuel(fuel);
    }

    /// What a decision cost.
    pub fn fuel(&self, fuel: u64) {
        #[allow(clippy::cast_precision_loss, reason = "fuel is far below 2^52")]
        self.fuel.record(fuel as f64);
    }

    /// An allowed request has come to its end.
    pub fn ended(&self, took: Duration, reason: Option<Reason>) {
        self.latency.record(took.as_secs_f64());
        if let Some(reason) = reason {
            let counter = self.cut.entry(reason);
            counter.or_insert_with(|| counter!("kleis_requests_failed_total", "reason" => reason.code())).increment(1);
        }
    }

    /// A decision could not be recorded, and the request went on all the same.
    pub fn unrecorded(&self) {
        self.unrecorded.increment(1);
    }

    /// A connection, until it is dropped.
    pub fn connection(self: &Arc<Meters>) -> Open {
        let [connections, ..] = &self.counts;
        connections.fetch_add(1, Ordering::Relaxed);
        self.connections.increment(1);
        Open::new(self.open.clone())
    }

    /// A tunnel, until it is dropped.
    pub fn tunnel(self: &Arc<Meters>) -> Open {
        let [_, tunnels, _] = &self.counts;
        tunnels.fetch_add(1, Ordering::Relaxed);
        self.tunnels.increment(1);
        Open::new(self.open_tunnels.clone())
    }

    /// A handshake with a client came to its end.
    pub fn handshake(&self) {
        self.leaves.increment(1);
    }

    /// A client does not trust our CA (R78).
    pub fn untrusted(&self) {
        self.untrusted.increment(1);
    }

    /// A tunnel in which neither TLS nor HTTP was spoken.
    pub fn unknown_protocol(&self) {
        self.failed_hellos.increment(1);
    }

    /// Totals since the start.
    pub fn counts(&self) -> Counts {
        let [connections, tunnels, requests] = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { connections: read(connections), tunnels: read(tunnels), requests: read(requests) }
    }
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Meters").field(&self.counts()).finish()
    }
}

/// Something that is open, until it is dropped.
pub struct Open(Gauge);

impl Open {
    fn new(gauge: Gauge) -> Open {
        gauge.increment(1.0);
        Open(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Open")
    }
}
