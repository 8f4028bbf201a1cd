//! From an authority to a connection: resolve, check, connect, verify.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use super::address::AddressRules;
use super::config::{Timeouts, UpstreamConfig};
use super::error::{SetupError, UpstreamError};
use super::io::Io;
use super::parent::{Parent, ParentError};
use super::resolve::Resolver;
use super::tls::{Tls, server_name};
use crate::words::{Authority, Host, Reason, Scheme};

/// How long an address may take before the next one is tried beside it (RFC 8305 has 250 ms).
const STAGGER: Duration = Duration::from_millis(250);
/// Addresses tried at most: a name with hundreds must not make us a port scanner.
const TRIED: usize = 8;

/// Makes connections.
#[derive(Debug)]
pub(super) struct Dialer {
    resolver: Resolver,
    rules: AddressRules,
    overrides: HashMap<(Host, u16), SocketAddr>,
    own_addresses: Vec<SocketAddr>,
    own_names: Vec<(Host, u16)>,
    parent: Option<Parent>,
    tls: Tls,
    timeouts: Timeouts,
}

impl Dialer {
    pub(super) fn new(config: UpstreamConfig) -> Result<Dialer, SetupError> {
        Ok(Dialer {
            resolver: Resolver::new(),
            rules: AddressRules::new(config.allow_private),
            overrides: config.resolve,
            own_addresses: config.own_addresses,
            own_names: config.own_names.iter().map(|a| (a.host().clone(), a.port())).collect(),
            parent: config.proxy.as_ref().map(Parent::parse).transpose()?,
            tls: Tls::new(config.ca_file.as_deref())?,
            timeouts: config.timeouts,
        })
    }

    /// A connection that speaks HTTP: with TLS, verified, for `https`.
    pub(super) async fn dial(&self, authority: &Authority, http1_only: bool) -> Result<Io, UpstreamError> {
        let tcp = self.dial_tcp(authority).await?;
        match authority.scheme() {
            Scheme::Http => Ok(Io::plain(tcp)),
            Scheme::Https => self.handshake(authority, tcp, http1_only).await,
        }
    }

    /// A TCP connection to an authority, through the parent proxy if there is one.
    pub(super) async fn dial_tcp(&self, authority: &Authority) -> Result<TcpStream, UpstreamError> {
        let dialled = match timeout(self.timeouts.connect, self.route(authority)).await {
            Ok(dialled) => dialled,
            Err(elapsed) => Err(UpstreamError::unsent(Reason::UpstreamTimeout, elapsed)),
        };
        let outcome = match &dialled {
            Ok(_) => "ok",
            Err(error) => error.reason.code(),
        };
        metrics::counter!("kleis_upstream_dials_total", "outcome" => outcome).increment(1);
        dialled
    }

    async fn route(&self, authority: &Authority) -> Result<TcpStream, UpstreamError> {
        let (host, port) = (authority.host(), authority.port());
        // before any name is looked up: it may be one that only we know
        if self.own_names.iter().any(|own| own.0 == *host && own.1 == port) {
            return Err(looped());
        }
        if let Some(address) = self.overrides.get(&(host.clone(), port)) {
            // an operator's word, wherever it points to; but not to ourselves
            return self.connect(vec![*address]).await;
        }
        if let Some(parent) = &self.parent {
            // the parent resolves; what can be judged here is a literal
            if let Some(ip) = host.as_ip() {
                self.rules.check(ip).map_err(|f| UpstreamError::unsent(Reason::AddressForbidden, f))?;
            }
            return self.through(parent, host, port).await;
        }
        let addresses = self.resolve(host).await?;
        let mut allowed = Vec::with_capacity(addresses.len().min(TRIED));
        for ip in addresses {
            // One private answer among public ones is refused too: whoever controls the name could pick
            // which of them is reached.
            self.rules.check(ip).map_err(|f| UpstreamError::unsent(Reason::AddressForbidden, f))?;
            if allowed.len() < TRIED {
                allowed.push(SocketAddr::new(ip, port));
            }
        }
        self.connect(allowed).await
    }

    async fn resolve(&self, host: &Host) -> Result<Vec<IpAddr>, UpstreamError> {
        match host {
            Host::V4(ip) => Ok(vec![IpAddr::V4(*ip)]),
            Host::V6(ip) => Ok(vec![IpAddr::V6(*ip)]),
            Host::Name(name) => {
                let found = self.resolver.resolve(name).await;
                let found = found.map_err(|e| UpstreamError::unsent(Reason::UpstreamUnreachable, e))?;
                Ok(interleaved(&found))
            }
        }
    }

    async fn through(&self, parent: &Parent, host: &Host, port: u16) -> Result<TcpStream, UpstreamError> {
        let at = &parent.authority;
        let key = (at.host().clone(), at.port());
        let addresses = match self.overrides.get(&key) {
            Some(address) => vec![*address],
            None => self.resolve(at.host()).await?.into_iter().map(|ip| SocketAddr::new(ip, at.port())).collect(),
        };
        let mut tcp = self.connect(addresses).await?;
        match parent.connect(&mut tcp, &format!("{host}:{port}")).await {
            Ok(()) => Ok(tcp),
            Err(error @ (ParentError::Io(_) | ParentError::Refused(_) | ParentError::Malformed)) => {
                Err(UpstreamError::unsent(Reason::UpstreamUnreachable, error))
            }
        }
    }

    /// Tries addresses in turn, the next one when the last has failed or taken longer than [`STAGGER`].
    async fn connect(&self, addresses: Vec<SocketAddr>) -> Result<TcpStream, UpstreamError> {
        if addresses.iter().any(|address| self.is_own(*address)) {
            return Err(looped());
        }
        let mut waiting = addresses.into_iter();
        let mut trying = FuturesUnordered::new();
        let mut last = None;
        loop {
            if let Some(address) = waiting.next() {
                trying.push(TcpStream::connect(address));
            }
            if trying.is_empty() {
                let nothing = || UpstreamError::said(Reason::UpstreamUnreachable, "the name has no address");
                return Err(last.map_or_else(nothing, |e| UpstreamError::unsent(Reason::UpstreamUnreachable, e)));
            }
            match first(&mut trying, waiting.len() > 0).await {
                Some(Ok(tcp)) => return self.connected(tcp),
                Some(Err(error)) => last = Some(error),
                None => {}
            }
        }
    }

    fn connected(&self, tcp: TcpStream) -> Result<TcpStream, UpstreamError> {
        let unreachable = |e| UpstreamError::unsent(Reason::UpstreamUnreachable, e);
        let peer = tcp.peer_addr().map_err(unreachable)?;
        let local = tcp.local_addr().map_err(unreachable)?;
        // an address of this machine, found out by the kernel's choice of ours (R108)
        if peer.ip() == local.ip() && self.own_addresses.iter().any(|own| listens_everywhere(own, peer.port())) {
            return Err(looped());
        }
        // without it a request waits for the peer's delayed ACK
        tcp.set_nodelay(true).map_err(unreachable)?;
        keep_alive(&tcp);
        Ok(tcp)
    }

    fn is_own(&self, address: SocketAddr) -> bool {
        self.own_addresses.iter().any(|own| {
            *own == address || (listens_everywhere(own, address.port()) && canonical(address.ip()).is_loopback())
        })
    }

    async fn handshake(&self, authority: &Authority, tcp: TcpStream, http1: bool) -> Result<Io, UpstreamError> {
        let name = server_name(authority.host())
            .ok_or_else(|| UpstreamError::said(Reason::UpstreamTls, "no certificate can have such a name"))?;
        let config = if http1 { &self.tls.http1 } else { &self.tls.any };
        let shaken = match timeout(self.timeouts.tls, TlsConnector::from(config.clone()).connect(name, tcp)).await {
            Ok(Ok(stream)) => return Ok(Io::tls(stream)),
            // never again without TLS, never again without verifying (R74)
            Ok(Err(error)) => UpstreamError::unsent(Reason::UpstreamTls, error),
            Err(elapsed) => UpstreamError::unsent(Reason::UpstreamTimeout, elapsed),
        };
        metrics::counter!("kleis_upstream_tls_failures_total").increment(1);
        Err(shaken)
    }
}

fn looped() -> UpstreamError {
    UpstreamError::said(Reason::Loop, "the upstream is this proxy itself")
}

fn listens_everywhere(own: &SocketAddr, port: u16) -> bool {
    own.port() == port && own.ip().is_unspecified()
}

fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// The first attempt that ends, or `None` when it is time for the next address.
async fn first<F, T>(trying: &mut FuturesUnordered<F>, more: bool) -> Option<std::io::Result<T>>
where
    F: Future<Output = std::io::Result<T>>,
{
    if !more {
        return trying.next().await;
    }
    tokio::select! {
        ended = trying.next() => ended,
        () = sleep_until(Instant::now() + STAGGER) => None,
    }
}

/// Families in turn, beginning with the resolver's first: one of them may lead nowhere.
fn interleaved(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first_is_v4 = addresses.first().is_some_and(IpAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) = addresses.iter().copied().partition(|ip| ip.is_ipv4() == first_is_v4);
    let mut mixed = Vec::with_capacity(addresses.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        match (first.next(), second.next()) {
            (None, None) => return mixed,
            (a, b) => mixed.extend(a.into_iter().chain(b)),
        }
    }
}

/// A peer that vanished without a FIN is found out after a minute, not after the kernel's two hours.
fn keep_alive(tcp: &TcpStream) {
    use rustix::net::sockopt;
    // best effort: a connection without it still works
    let _ = sockopt::set_socket_keepalive(tcp, true);
    let _ = sockopt::set_tcp_keepidle(tcp, Duration::from_secs(30));
    let _ = sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(10));
    let _ = sockopt::set_tcp_keepcnt(tcp, 3);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(tcp, 60_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(
            interleaved(&parse(&["2001:db8::1", "2001:db8::2", "192.0.2.1"])),
            parse(&["2001:db8::1", "192.0.2.1", "2001:db8::2"])
        );
        assert_eq!(interleaved(&parse(&["192.0.2.1"])), parse(&["192.0.2.1"]));
    }
}
