//! What one arrival may do, looked up once for each configuration and not for each request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderName;
use http::header::AUTHORIZATION;

use super::holder::{Compiled, Holder};
use super::refuse::{Place, Refusal};
use super::state::State;
use crate::config::{ModeSetting, Snapshot};
use crate::policy::Program;
use crate::service::{Service, Target};
use crate::words::{Authority, Reason};

/// Which way a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `CONNECT`, then TLS that we end.
    Tunnel,
    /// `CONNECT`, then clear text.
    ClearTunnel,
    /// `CONNECT`, then whatever it is: passed through unread.
    Blind,
    /// `GET http://host/…` or `GET https://host/…` at the hop.
    Absolute,
    /// `/<scheme>/<host[:port]>/<path>`.
    BaseUrl,
}

impl Mode {
    /// As it stands in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Tunnel => "connect",
            Mode::ClearTunnel => "connect-clear",
            Mode::Blind => "passthrough",
            Mode::Absolute => "absolute",
            Mode::BaseUrl => "rewrite",
        }
    }

    /// Where a refusal of such a request is spoken.
    pub fn place(self) -> Place {
        match self {
            Mode::Tunnel | Mode::ClearTunnel => Place::Inside,
            Mode::Blind | Mode::Absolute => Place::Hop,
            Mode::BaseUrl => Place::BaseUrl,
        }
    }
}

/// Who wants what from where. Fixed once, whatever the mode: nothing that the client says later changes it.
#[derive(Debug)]
pub struct Arrival {
    /// The one authority.
    pub authority: Authority,
    /// The client's address, if the listener knows one.
    pub source: Option<IpAddr>,
    /// Whose token it was.
    pub holder: Arc<Holder>,
    /// The way in.
    pub mode: Mode,
    /// Why nothing will be allowed here, if that is settled already: the TLS hello named another host.
    pub settled: Option<Reason>,
    lane: Mutex<Option<Arc<Lane>>>,
}

impl Arrival {
    /// An arrival.
    pub fn new(authority: Authority, source: Option<IpAddr>, holder: Arc<Holder>, mode: Mode) -> Arrival {
        Arrival { authority, source, holder, mode, settled: None, lane: Mutex::new(None) }
    }

    /// What it may do, under the configuration in force.
    pub fn lane(&self, state: &State) -> Arc<Lane> {
        let snapshot = state.snapshot();
        let mut kept = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some(lane) if lane.snapshot.generation == snapshot.generation => lane.clone(),
            _ => kept.insert(Arc::new(Lane::new(state, snapshot, self))).clone(),
        }
    }
}

/// What an arrival may do under one configuration.
#[derive(Debug)]
pub struct Lane {
    /// The configuration.
    pub snapshot: Arc<Snapshot>,
    /// The service that claims the authority.
    pub service: Option<Arc<Service>>,
    program: Result<Compiled, Reason>,
    /// Fields that may not come as trailers.
    pub never_in_trailers: Arc<[HeaderName]>,
}

impl Lane {
    fn new(state: &State, snapshot: Arc<Snapshot>, arrival: &Arrival) -> Lane {
        let service = snapshot.catalog.claim(&arrival.authority).cloned();
        let program = match entrance(&snapshot, service.as_deref(), arrival) {
            None => {
                Ok(state.holders.program(&arrival.holder, service.as_ref().map(|service| service.name()), &snapshot))
            }
            Some(reason) => Err(reason),
        };
        let never_in_trailers = injected(service.as_deref(), &arrival.authority);
        Lane { snapshot, service, program, never_in_trailers }
    }

    /// The program that decides, or why none does.
    pub fn program(&self) -> Result<&Program, Refusal> {
        match self.program.as_ref().map(|compiled| compiled.as_ref()) {
            Ok(Ok(program)) => Ok(program),
            Ok(Err(denial)) => Err(denial.clone().into()),
            Err(reason) => Err((*reason).into()),
        }
    }

    /// The program, to be kept beyond the request.
    pub fn compiled(&self) -> Option<Compiled> {
        self.program.as_ref().ok().cloned()
    }
}

/// Why this way in is closed, if it is.
fn entrance(snapshot: &Snapshot, service: Option<&Service>, arrival: &Arrival) -> Option<Reason> {
    let by_connect = arrival.mode != Mode::BaseUrl;
    let setting: ModeSetting = snapshot.config.mode;
    let open = if by_connect { setting.connect() } else { setting.rewrite() };
    match service {
        Some(service) => {
            let modes = service.modes();
            let offered = if by_connect { modes.connect } else { modes.rewrite };
            (!open || !offered).then_some(Reason::ModeUnsupported)
        }
        // passed through, but never in base-URL mode: nobody would know what it is that is reached
        None if by_connect && snapshot.config.passes(&arrival.authority) => (!open).then_some(Reason::ModeUnsupported),
        None => Some(Reason::HostUnclaimed),
    }
}

/// The headers that an injection fills at this authority, for any kind of credential.
fn injected(service: Option<&Service>, authority: &Authority) -> Arc<[HeaderName]> {
    let kinds = ["api_key", "oauth"];
    let injections =
        service.into_iter().flat_map(|service| kinds.iter().flat_map(|kind| service.injections(authority, kind)));
    let names = injections.filter_map(|injection| match injection.target() {
        Target::Header(name) => HeaderName::from_bytes(name.as_bytes()).ok(),
        Target::Query(_) | Target::Segment(_) => None,
    });
    names.chain([AUTHORIZATION]).collect()
}
