//! The corporate proxy that everything may have to go through (`upstream.proxy`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::error::SetupError;
use crate::words::{Authority, Scheme, Secret};

/// No parent's answer to CONNECT is longer.
const MAX_HEAD: usize = 16 * 1024;

/// A parent proxy: an HTTP proxy that takes CONNECT, also for port 80.
#[derive(Debug, Clone)]
pub(super) struct Parent {
    /// Where it listens.
    pub(super) authority: Authority,
    /// The whole value of `Proxy-Authorization`.
    login: Option<Secret>,
}

/// Why a parent gave no tunnel.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParentError {
    #[error("the upstream proxy broke the connection: {0}")]
    Io(#[from] std::io::Error),
    #[error("the upstream proxy answered {0} to CONNECT")]
    Refused(u16),
    #[error("the upstream proxy's answer to CONNECT is no HTTP")]
    Malformed,
}

impl Parent {
    /// Parses `http://[user:password@]host:port[/]`. The credentials may be percent-encoded.
    pub(super) fn parse(url: &Secret) -> Result<Parent, SetupError> {
        let text = url.expose_str().ok_or(SetupError::Proxy)?.trim();
        let rest = text.strip_prefix("http://").ok_or(SetupError::Proxy)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (userinfo, host) = match rest.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, rest),
        };
        let authority = Authority::parse(Scheme::Http, host).map_err(|_| SetupError::Proxy)?;
        let login = userinfo.map(|userinfo| {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            let mut plain: Vec<u8> = percent_decode_str(user).collect();
            plain.push(b':');
            plain.extend(percent_decode_str(password));
            Secret::new(format!("Basic {}", STANDARD.encode(Secret::new(plain).expose())))
        });
        Ok(Parent { authority, login })
    }

    /// Asks for a tunnel on a fresh connection. What the parent says behind its head is left unread: it
    /// belongs to the tunnel, whatever `Content-Length` it claims (RFC 9110 §9.3.6, R122).
    pub(super) async fn connect(&self, tcp: &mut TcpStream, target: &str) -> Result<(), ParentError> {
        // Host also here (R42); nothing of the client's identity (R53)
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(login) = &self.login {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(login.expose());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let request = Secret::new(request);
        tcp.write_all(request.expose()).await?;
        let head = read_head(tcp).await?;
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut fields);
        match response.parse(&head) {
            Ok(httparse::Status::Complete(_)) => match response.code {
                Some(200..=299) => Ok(()),
                Some(code) => Err(ParentError::Refused(code)),
                None => Err(ParentError::Malformed),
            },
            _ => Err(ParentError::Malformed),
        }
    }
}

/// Reads to the empty line and not a byte further: what is there is looked at before it is taken.
async fn read_head(tcp: &mut TcpStream) -> Result<Vec<u8>, ParentError> {
    let mut head = Vec::new();
    let mut seen = [0u8; 2048];
    loop {
        let there = tcp.peek(&mut seen).await?;
        if there == 0 {
            return Err(ParentError::Io(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let taken = head.len();
        head.extend_from_slice(seen.get(..there).unwrap_or_default());
        let end = head.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        head.truncate(end.unwrap_or(head.len()));
        let mut take = vec![0; head.len() - taken];
        tcp.read_exact(&mut take).await?;
        if end.is_some() {
            return Ok(head);
        }
        if head.len() > MAX_HEAD {
            return Err(ParentError::Malformed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Parent, SetupError> {
        Parent::parse(&Secret::new(text))
    }

    #[test]
    fn credentials_of_the_parent_come_from_its_url_and_are_not_shown() {
        let parent = parse("http://bob:p%40ss@proxy.corp.test:3128/").unwrap();
        assert_eq!(parent.authority.to_string(), "http://proxy.corp.test:3128");
        assert_eq!(parent.login.as_ref().unwrap().expose(), b"Basic Ym9iOnBAc3M=");
        assert!(!format!("{parent:?}").contains("Ym9i"));
    }

    #[test]
    fn what_is_no_http_proxy_is_refused_without_repeating_it() {
        for wrong in ["", "proxy:3128", "https://proxy:3128", "socks5://proxy:1080", "http://", "http://a b:1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(!parse("socks5://u:hunter2@x:1").unwrap_err().to_string().contains("hunter2"));
    }
}
