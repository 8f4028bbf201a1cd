//! Talking to the API: a base URL with any prefix, the headers it asks for, and its ways of saying no.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::Value;

use super::super::exchange::ExchangeBounds;
use super::super::live::Failure;
use super::super::provider::{ProviderError, Surroundings};
use crate::words::{Secret, Timestamp};

const DEFAULT_API: &str = "https://api.github.com";
const BOUNDS: ExchangeBounds = ExchangeBounds { timeout: Duration::from_secs(15), max_body: 256 * 1024 };
/// What is quoted of the API's own words.
const WORDS: usize = 300;
/// Nobody is left alone for longer, whatever it asks for.
const LONGEST_WAIT: u64 = 300;

/// The API's base URL, without a slash at its end. An enterprise server has a prefix (`/api/v3`).
pub(super) struct Api(String);

/// An answer, and what must not be quoted from it.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    response: Response<Bytes>,
    jwt: Secret,
}

impl Api {
    /// The error says what would be accepted.
    pub(super) fn parse(given: Option<&str>) -> Result<Api, &'static str> {
        const ACCEPTED: &str = "an `https://` URL, with a path or without, and nothing behind it";
        let text = given.unwrap_or(DEFAULT_API);
        let uri: http::Uri = text.parse().map_err(|_| ACCEPTED)?;
        let plain = uri.scheme() == Some(&http::uri::Scheme::HTTPS) && uri.query().is_none() && !text.contains('#');
        let user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
        if !plain || user { Err(ACCEPTED) } else { Ok(Api(text.trim_end_matches('/').to_owned())) }
    }

    pub(super) async fn get(&self, around: &Surroundings, path: &str, jwt: &Secret) -> Result<Answer, ProviderError> {
        self.call(around, Method::GET, path, jwt, Bytes::new()).await
    }

    pub(super) async fn post(
        &self,
        around: &Surroundings,
        path: &str,
        jwt: &Secret,
        body: &Value,
    ) -> Result<Answer, ProviderError> {
        self.call(around, Method::POST, path, jwt, Bytes::from(body.to_string())).await
    }

    async fn call(
        &self,
        around: &Surroundings,
        method: Method,
        path: &str,
        jwt: &Secret,
        body: Bytes,
    ) -> Result<Answer, ProviderError> {
        let broken = || Failure::Settings("the request to the API cannot be made".to_owned());
        let bearer = zeroize::Zeroizing::new([b"Bearer ", jwt.expose()].concat());
        let mut authorization = HeaderValue::from_bytes(&bearer).map_err(|_| broken())?;
        authorization.set_sensitive(true);
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.0))
            .header(header::AUTHORIZATION, authorization)
            .header(header::ACCEPT, "application/vnd.github+json")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("kleis/", env!("CARGO_PKG_VERSION")))
            .header("x-github-api-version", "2022-11-28")
            .body(body)
            .map_err(|_| broken())?;
        let response = around.exchange.call(request, BOUNDS).await;
        let response = response.map_err(|error| Failure::Provider(format!("{}: {error}", self.0)))?;
        Ok(Answer { status: response.status(), response, jwt: jwt.clone() })
    }
}

impl Answer {
    /// The body; null if it is no JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(self.response.body()).unwrap_or(Value::Null)
    }

    /// The server's clock.
    pub(super) fn date(&self) -> Option<Timestamp> {
        let text = self.text(header::DATE)?;
        let date = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc2822).ok()?;
        Timestamp::try_from(date.unix_timestamp()).ok()
    }

    fn text(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// What the API says, for the operator: short, one line, without what we sent.
    pub(super) fn words(&self) -> String {
        let body = self.json();
        let mut words = format!("{}", self.status.as_u16());
        let errors = body.get("errors").and_then(Value::as_array).into_iter().flatten();
        let details = errors.filter_map(|error| error.as_str().or_else(|| error.get("message")?.as_str()));
        for said in body.get("message").and_then(Value::as_str).into_iter().chain(details) {
            words.push(' ');
            words.extend(said.chars().map(|c| if c.is_control() { ' ' } else { c }));
        }
        let jwt = self.jwt.expose_str().unwrap_or_default();
        let words = if jwt.is_empty() { words } else { words.replace(jwt, "…") };
        words.chars().take(WORDS).collect()
    }

    /// An answer that is neither what was hoped for nor anything that the caller understands.
    pub(super) fn trouble(&self, now: Timestamp) -> ProviderError {
        let wait = self.text(header::RETRY_AFTER).and_then(|text| text.trim().parse::<u64>().ok());
        let hold = wait.map(|seconds| Duration::from_secs(seconds.min(LONGEST_WAIT)));
        let spent = self.text("x-ratelimit-remaining") == Some("0");
        let words = self.words();
        let failure = match self.status {
            StatusCode::UNAUTHORIZED => Failure::Refused(format!(
                "the API refuses the App's signature: check `app_id`, the private key and the clock{}: {words}",
                self.skew(now)
            )),
            StatusCode::FORBIDDEN if wait.is_none() && !spent && words.contains("suspended") => {
                Failure::NotHere(format!("the App's installation is suspended: resume it: {words}"))
            }
            StatusCode::FORBIDDEN if wait.is_none() && !spent => {
                Failure::Refused(format!("the API refuses the App: {words}"))
            }
            _ => Failure::Provider(format!("the API answers {words}")),
        };
        ProviderError { failure, hold }
    }

    /// How far our clock is from the server's, if that could be the trouble.
    fn skew(&self, now: Timestamp) -> String {
        match self.date() {
            Some(theirs) if now.abs_diff(theirs) > 30 => {
                let side = if now > theirs { "ahead of" } else { "behind" };
                format!(" (which is {} s {side} the API's)", now.abs_diff(theirs))
            }
            _ => String::new(),
        }
    }
}
