//! Taking the client's own credentials off (invariant 5), before anything is made of a request.
//!
//! Two steps, with the decision between them: [`Stripped`] is what facts are made of and what is judged, and
//! the very same value goes into [`super::bind`], which only adds to it.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::percent_decode_str;

use super::inject::{fits, segment_range};
use crate::service::{Service, Target};
use crate::words::{Authority, Scheme, ServiceName};

/// The head of a request, as it was read: hop-by-hop fields are gone already.
#[derive(Debug, Clone)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// As sent: a slash and what follows, without the query; or `*`.
    pub path: String,
    /// As sent, without its question mark.
    pub query: Option<String>,
    /// The fields.
    pub headers: HeaderMap,
}

/// A head without credentials of the client's. What is judged, and what is bound.
#[derive(Debug, Clone)]
pub struct Stripped {
    pub(super) head: Head,
    pub(super) authority: Authority,
    pub(super) service: Option<ServiceName>,
    account: Option<String>,
}

impl Stripped {
    /// Takes off what the client brought for itself. On a claimed host that is every carrier of a
    /// credential that clients use, what the manifest lists, and what an injection will fill, each in any
    /// spelling and number; on others only what is meant for the proxy.
    pub fn new(head: Head, authority: &Authority, service: Option<&Service>) -> Stripped {
        let mut stripped =
            Stripped { head, authority: authority.clone(), service: service.map(|s| s.name().clone()), account: None };
        let mut account = Account::default();
        stripped.strip_headers(service, &mut account);
        if let Some(service) = service {
            stripped.strip_subprotocols();
            stripped.strip_query(service, &mut account);
            stripped.strip_path(service, &mut account);
        }
        stripped.account = account.only();
        stripped
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// The path, byte for byte as it will be sent, except for a segment that an injection fills: that has a
    /// placeholder in it.
    pub fn path(&self) -> &str {
        &self.head.path
    }

    /// The query as it will be sent, without what an injection adds.
    pub fn query(&self) -> Option<&str> {
        self.head.query.as_deref()
    }

    /// The fields that are left.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The account that the client's placeholder names: `kleis-work` where a credential would be picks
    /// `work` among several accounts of a service (DESIGN §9). `None` if there is none, or more than one.
    pub fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    fn strip_headers(&mut self, service: Option<&Service>, account: &mut Account) {
        let headers = &mut self.head.headers;
        let gone: Vec<HeaderName> = headers.keys().filter(|name| takes_off(name.as_str(), service)).cloned().collect();
        for name in gone {
            headers.get_all(&name).iter().for_each(|value| account.look_at(value));
            headers.remove(&name);
        }
    }

    /// Browsers' clients can't set headers for a WebSocket, so some put the key among the subprotocols.
    fn strip_subprotocols(&mut self) {
        let headers = &mut self.head.headers;
        let name = header::SEC_WEBSOCKET_PROTOCOL;
        let secret = |entry: &str| SECRET_SUBPROTOCOLS.iter().any(|prefix| entry.starts_with(prefix));
        let lists: Vec<&str> = headers.get_all(&name).iter().filter_map(|value| value.to_str().ok()).collect();
        let entries = || lists.iter().flat_map(|list| list.split(',')).map(str::trim);
        if !entries().any(secret) {
            return;
        }
        let left = entries().filter(|entry| !secret(entry)).collect::<Vec<_>>().join(", ");
        headers.remove(&name);
        if let Ok(value) = HeaderValue::from_str(&left)
            && !left.is_empty()
        {
            headers.insert(name, value);
        }
    }

    fn strip_query(&mut self, service: &Service, account: &mut Account) {
        let Some(query) = &self.head.query else { return };
        let spends = service.may_send_secret_to(&self.authority);
        let mut left = Vec::new();
        let mut changed = false;
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let key = decoded(key);
            let is_secret = spends && SECRET_QUERY.iter().any(|name| key.eq_ignore_ascii_case(name));
            if is_secret || service.strips_query(&self.authority, &key) {
                account.look_at_text(&decoded(value));
                changed = true;
            } else {
                left.push(pair);
            }
        }
        if changed {
            let left = left.join("&");
            self.head.query = (!left.is_empty()).then_some(left);
        }
    }

    /// A segment that an injection fills gets a placeholder, so that what the client had there is neither
    /// judged nor recorded.
    fn strip_path(&mut self, service: &Service, account: &mut Account) {
        for injection in any_injection(service, &self.authority) {
            let Target::Segment(index) = injection.target() else { continue };
            let Some(range) = segment_range(&self.head.path, *index) else { continue };
            let Some(given) = self.head.path.get(range.clone()).filter(|text| fits(injection.template(), text)) else {
                continue;
            };
            account.look_at_text(given);
            let mut placeholder = Vec::new();
            injection.template().render_into(PLACEHOLDER.as_bytes(), &mut placeholder);
            if let Ok(placeholder) = String::from_utf8(placeholder) {
                self.head.path.replace_range(range, &placeholder);
            }
        }
    }
}

/// Whether a client's field of that (lower-case) name never reaches an upstream, neither as a header nor as a
/// trailer (R40).
pub fn takes_off(name: &str, service: Option<&Service>) -> bool {
    match service {
        Some(service) => is_carrier(name) || service.strips_header(name),
        None => is_for_the_proxy(name),
    }
}

/// What could be injected at an authority for a credential of any kind, in clear text or not.
pub(super) fn any_injection<'s>(service: &'s Service, authority: &Authority) -> Vec<&'s crate::service::Injection> {
    let secure = authority.with_scheme(Scheme::Https);
    let mut all = service.injections(&secure, "api_key");
    all.extend(service.injections(&secure, "oauth"));
    all
}

const PLACEHOLDER: &str = "kleis";

/// Query keys that hold credentials wherever a credential is sent at all. On other hosts they may be
/// somebody's signed address and stay.
const SECRET_QUERY: &[&str] =
    &["access_token", "private_token", "job_token", "oauth_token", "api_key", "apikey", "client_secret"];

/// Beginnings of WebSocket subprotocols that hold a credential.
const SECRET_SUBPROTOCOLS: &[&str] = &["openai-insecure-api-key.", "base64url.bearer.authorization.k8s.io."];

/// Fields in which clients carry credentials, or say on whose behalf they act, and those which say where a
/// request came from or is meant to go: an upstream that believes these would act on something else than
/// what was judged (R61). `-` stands for `_` too.
const CARRIERS: &[&str] = &[
    "api-key",
    "apikey",
    "authorization",
    "cf-connecting-ip",
    "client-ip",
    "deploy-token",
    "forwarded",
    "fastly-client-ip",
    "job-token",
    "npm-otp",
    "private-token",
    "sudo",
    "true-client-ip",
    "via",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-email",
    "x-auth-key",
    "x-auth-token",
    "x-auth-user-service-key",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-forgejo-otp",
    "x-gitea-otp",
    "x-goog-api-key",
    "x-host",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
    "x-sentry-auth",
    "x-xet-access-token",
];

const CARRIER_PREFIXES: &[&str] = &["x-forwarded-", "impersonate-"];

/// Header names are lower-case here.
fn is_carrier(name: &str) -> bool {
    let name = dashed(name);
    is_for_the_proxy(&name)
        || CARRIERS.contains(&name.as_ref())
        || CARRIER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name == "x-forwarded"
}

/// What a client says to the proxy (R53).
fn is_for_the_proxy(name: &str) -> bool {
    let name = dashed(name);
    name.starts_with("proxy-") || name.starts_with("x-kleis-")
}

/// Servers that hand headers on as variables take `x_api_key` for `x-api-key`.
fn dashed(name: &str) -> Cow<'_, str> {
    if name.contains('_') { name.replace('_', "-").into() } else { name.into() }
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Which account the placeholders name.
#[derive(Default)]
struct Account {
    named: Vec<String>,
}

impl Account {
    /// A field's value: the placeholder itself, behind a scheme, or either half of a Basic login.
    fn look_at(&mut self, value: &HeaderValue) {
        let Ok(text) = value.to_str() else { return };
        let (scheme, rest) = text.split_once(' ').unwrap_or(("", text));
        if scheme.eq_ignore_ascii_case("basic")
            && let Some(login) = STANDARD.decode(rest.trim()).ok().and_then(|login| String::from_utf8(login).ok())
        {
            login.split(':').for_each(|half| self.look_at_text(half));
        } else {
            self.look_at_text(rest.trim());
        }
    }

    fn look_at_text(&mut self, text: &str) {
        let Some(account) = text.strip_prefix("kleis-") else { return };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = !account.is_empty() && account.len() <= 64 && account.chars().all(plain);
        if is_name && !self.named.iter().any(|named| named == account) {
            self.named.push(account.to_owned());
        }
    }

    fn only(mut self) -> Option<String> {
        if self.named.len() == 1 { self.named.pop() } else { None }
    }
}

#[cfg(test)]
pub(super) mod tests;
