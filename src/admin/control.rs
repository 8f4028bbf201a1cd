//! `control.sock`: the one door, for the operator on this machine (DESIGN §15).
//!
//! Who may connect is settled by the socket's permission bits (`0600`) and, besides, by the peer's
//! credentials: our own user and root.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};

use super::status;
use crate::operator::{Command, OperatorError};
use crate::proxy::State;
use crate::proxy::reply::Reply;

/// More than any command is long: a credential's material has 64 KiB at most, facts and checks a few.
const MAX_COMMAND: usize = 4 << 20;

/// Serves the socket until the task is dropped.
pub async fn serve(listener: UnixListener, state: Arc<State>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, state.clone()));
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept on the control socket");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(stream: UnixStream, state: Arc<State>) {
    let own = rustix::process::geteuid().as_raw();
    let peer = match stream.peer_cred() {
        Ok(peer) if peer.uid() == own || peer.uid() == 0 => peer.uid(),
        Ok(peer) => return tracing::warn!(uid = peer.uid(), "another user at the control socket"),
        Err(error) => return tracing::warn!(%error, "a peer without credentials at the control socket"),
    };
    let service = service_fn(|request| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(answer(&state, peer, request).await) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a control connection ended");
    }
}

async fn answer(state: &State, uid: u32, request: Request<Incoming>) -> Response<Reply> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/v1/execute") => match execute(state, uid, request).await {
            Ok(reply) => as_json(StatusCode::OK, &reply),
            Err((status, text, reason)) => as_json(status, &json!({"error": text, "reason": reason})),
        },
        (&Method::GET, "/v1/status") => as_json(StatusCode::OK, &status::full(state)),
        _ => as_json(StatusCode::NOT_FOUND, &json!({"error": "there is no such call", "reason": "not_found"})),
    }
}

type Failed = (StatusCode, String, &'static str);

async fn execute(state: &State, uid: u32, request: Request<Incoming>) -> Result<Value, Failed> {
    let invalid = |text: String| (StatusCode::BAD_REQUEST, text, "invalid");
    let internal = |text: String| (StatusCode::INTERNAL_SERVER_ERROR, text, "internal");
    let body = Limited::new(request.into_body(), MAX_COMMAND).collect().await;
    let body = zeroize::Zeroizing::new(body.map_err(|error| invalid(error.to_string()))?.to_bytes().to_vec());
    let command: Command = serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))?;
    let reply = state.operator.execute(&format!("uid:{uid}"), command).await.map_err(|error| failed(&error))?;
    serde_json::to_value(&reply).map_err(|error| internal(error.to_string()))
}

fn failed(error: &OperatorError) -> Failed {
    let status = match error.code() {
        "invalid" | "missing" | "exists" => StatusCode::BAD_REQUEST,
        "shutting_down" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string(), error.code())
}

/// An answer in JSON.
pub(super) fn as_json(status: StatusCode, value: &Value) -> Response<Reply> {
    let mut response = Response::new(Reply::text(format!("{value}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
