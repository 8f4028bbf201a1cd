//! What `config.toml` says, with its defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::{Issuer, Listen, ListenAddress, PublicUrl};
use crate::audit::OnFailure;
use crate::policy;
use crate::upstream::{Timeouts, UpstreamConfig};
use crate::words::{Authority, Host, HostPattern, Secret, SpecName};

/// The configuration file. A missing or empty one is all defaults: it listens on loopback, and no policy
/// means that nothing is allowed.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen, and for what. Never empty.
    pub listen: Vec<Listen>,
    /// How requests may arrive, for services that leave it open.
    pub mode: ModeSetting,
    /// Hosts that no service claims and that a bearer reaches through a blind tunnel.
    pub passthrough: Vec<HostPattern>,
    /// What sandboxes reach the proxy at.
    pub public_url: Option<PublicUrl>,
    /// The spec of `kleis run` without `--spec`.
    pub default_spec: Option<SpecName>,
    /// Whether manifests may have `exec:` decoders (invariant 7).
    pub allow_exec: bool,
    /// The side of the upstreams.
    pub upstream: UpstreamSettings,
    /// Bounds.
    pub limits: Limits,
    /// Whether audit entries hold all facts.
    pub audit_facts: AuditFacts,
    /// What happens when the audit can't be written.
    pub audit_on_failure: OnFailure,
    /// `[setup.env]`: variables for every sandbox, in the order of the file.
    pub setup_env: Vec<(Arc<str>, Arc<str>)>,
    /// Who may ask for tokens.
    pub issuers: Vec<Issuer>,
}

/// `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModeSetting {
    /// Tunnels and absolute-form only.
    Connect,
    /// `/<scheme>/<host>/…` only.
    Rewrite,
    /// Both.
    #[default]
    Both,
}

impl ModeSetting {
    /// Whether tunnels and absolute-form are served.
    pub fn connect(self) -> bool {
        matches!(self, ModeSetting::Connect | ModeSetting::Both)
    }

    /// Whether `/<scheme>/<host>/…` is served.
    pub fn rewrite(self) -> bool {
        matches!(self, ModeSetting::Rewrite | ModeSetting::Both)
    }
}

/// `audit.facts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditFacts {
    /// Only what a decision was about.
    #[default]
    None,
    /// All facts, so that an entry replays.
    Full,
}

/// `[upstream]`.
#[derive(Debug, Clone, Default)]
pub struct UpstreamSettings {
    /// Roots instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A corporate proxy to go through; may hold a password.
    pub proxy: Option<Secret>,
    /// Ranges that may be dialled although they are private.
    pub allow_private: Vec<IpNet>,
    /// Host and port → address, for tests and split DNS.
    pub resolve: BTreeMap<(Host, u16), SocketAddr>,
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// For a request's head, and for a TLS hello.
    pub head_timeout: Duration,
    /// Silence in both directions of anything that is open.
    pub idle_timeout: Duration,
    /// For a connection to an upstream, and for its TLS handshake.
    pub connect_timeout: Duration,
    /// From a request's last byte to the head of its answer; models think for minutes.
    pub answer_timeout: Duration,
    /// Bytes of a head.
    pub max_head: u64,
    /// Bytes that may be read for judging; streaming has no limit.
    pub max_body: u64,
    /// Connections of clients.
    pub max_connections: u32,
    /// Connections of one token.
    pub max_connections_per_token: u32,
    /// What a decision may cost.
    pub policy: policy::Limits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(600),
            max_head: 64 << 10,
            max_body: 32 << 20,
            max_connections: 10_000,
            max_connections_per_token: 1_000,
            policy: policy::Limits::default(),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: vec![Listen::default()],
            mode: ModeSetting::default(),
            passthrough: Vec::new(),
            public_url: None,
            default_spec: None,
            allow_exec: false,
            upstream: UpstreamSettings::default(),
            limits: Limits::default(),
            audit_facts: AuditFacts::default(),
            audit_on_failure: OnFailure::default(),
            setup_env: Vec::new(),
            issuers: Vec::new(),
        }
    }
}

impl Config {
    /// Whether a bearer may be tunnelled blindly to a host that no service claims.
    pub fn passes(&self, authority: &Authority) -> bool {
        self.passthrough.iter().any(|pattern| pattern.matches(authority))
    }

    /// The issuer of that name.
    pub fn issuer(&self, name: &str) -> Option<&Issuer> {
        self.issuers.iter().find(|issuer| issuer.name.as_str() == name)
    }

    /// What the upstream side is set up with.
    pub fn upstream_config(&self) -> UpstreamConfig {
        let tcp = self.listen.iter().filter_map(|listen| match &listen.address {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        });
        let defaults = Timeouts::default();
        UpstreamConfig {
            ca_file: self.upstream.ca_file.clone(),
            proxy: self.upstream.proxy.clone(),
            allow_private: self.upstream.allow_private.clone(),
            resolve: self.upstream.resolve.iter().map(|(key, address)| (key.clone(), *address)).collect(),
            own_addresses: tcp.collect(),
            own_names: self.public_url.iter().map(|url| url.authority().clone()).collect(),
            timeouts: Timeouts {
                connect: self.limits.connect_timeout,
                tls: self.limits.connect_timeout,
                head: self.limits.answer_timeout,
                idle: self.limits.idle_timeout,
                pool_idle: defaults.pool_idle.min(self.limits.idle_timeout),
                linger: defaults.linger.min(self.limits.idle_timeout),
            },
            max_head: usize::try_from(self.limits.max_head).ok(),
        }
    }

    /// What differs from `other` in a way that a running daemon can't take over: names of keys.
    pub fn needs_restart(&self, other: &Config) -> Vec<&'static str> {
        let mut keys = Vec::new();
        if self.listen != other.listen {
            keys.push("listen");
        }
        if self.audit_on_failure != other.audit_on_failure {
            keys.push("audit.on_failure");
        }
        keys
    }
}
