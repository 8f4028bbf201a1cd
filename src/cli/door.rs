//! The one door, from the command line's side: the daemon's control socket when a daemon runs,
//! otherwise the same operator in this process, under the data directory's lock.

use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::failure::Failure;
use crate::audit::AuditOptions;
use crate::config::Home;
use crate::operator::{Command, Operator, Reply};

/// More than any answer of the daemon is long.
const MAX_ANSWER: usize = 64 << 20;

/// Where commands go.
pub enum Door {
    /// To a running daemon.
    Daemon(Control),
    /// To this process.
    Here(Operator),
}

impl Door {
    /// Finds the daemon of a home, or takes its lock.
    pub async fn open(home: &Home) -> Result<Door, Failure> {
        match Control::connect(home).await? {
            Some(control) => Ok(Door::Daemon(control)),
            None => Ok(Door::Here(Operator::open(home.data_dir(), AuditOptions::default()).await?)),
        }
    }

    /// Has it done.
    pub async fn execute(&self, command: Command) -> Result<Reply, Failure> {
        match self {
            Door::Daemon(control) => control.execute(&command).await,
            Door::Here(operator) => {
                let by = format!("uid:{}", rustix::process::getuid().as_raw());
                let reply = operator.execute(&by, command).await?;
                operator.close().await?;
                Ok(reply)
            }
        }
    }
}

/// A daemon's control socket.
pub struct Control {
    socket: PathBuf,
}

impl Control {
    /// `None` if no daemon listens. A socket file that nobody answers on is a daemon that was killed.
    pub async fn connect(home: &Home) -> Result<Option<Control>, Failure> {
        let socket = home.control_socket();
        match UnixStream::connect(&socket).await {
            Ok(_) => Ok(Some(Control { socket })),
            Err(error) => match error.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => Ok(None),
                std::io::ErrorKind::PermissionDenied => Err(Failure::Outside(format!(
                    "no permission for `{}`: run this as the user that kleisd runs as",
                    socket.display()
                ))),
                _ => Err(Failure::Outside(format!("can't reach `{}`: {error}", socket.display()))),
            },
        }
    }

    async fn execute(&self, command: &Command) -> Result<Reply, Failure> {
        let body = serde_json::to_vec(command).map_err(Failure::outside)?;
        let answer = self.call("POST", "/v1/execute", Some(body)).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| Failure::Outside(format!("the daemon's answer is unreadable: {error}")))
    }

    /// The daemon's state, as JSON.
    pub async fn status(&self) -> Result<serde_json::Value, Failure> {
        let answer = self.call("GET", "/v1/status", None).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| Failure::Outside(format!("the daemon's answer is unreadable: {error}")))
    }

    async fn call(&self, method: &str, path: &str, body: Option<Vec<u8>>) -> Result<Bytes, Failure> {
        let gone = |error: &dyn std::fmt::Display| Failure::Outside(format!("the daemon went away: {error}"));
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| gone(&error))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| gone(&error))?;
        let driving = tokio::spawn(connection);
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(Failure::outside)?;
        let response = sender.send_request(request).await.map_err(|error| gone(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| gone(&error))?;
        driving.abort();
        let body = body.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let said = serde_json::from_slice::<serde_json::Value>(&body).ok();
        let said =
            said.as_ref().and_then(|answer| answer.get("error")?.as_str()).unwrap_or("no reason given").to_owned();
        Err(if status.is_client_error() { Failure::Usage(said) } else { Failure::Outside(said) })
    }
}
