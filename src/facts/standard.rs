//! The facts that are always there (DESIGN §6), made only where somebody reads them.

use std::sync::{Arc, LazyLock};

use super::{Body, Demand, Fact, Path, Query, RequestView, Term};
use crate::words::{Host, ServiceName};

/// Which fields never become facts: credentials of the client that are stripped, and whatever injection
/// fills. Names of headers are lower-case.
#[derive(Clone, Copy)]
pub struct Hidden<'a> {
    /// Whether the header of that name is hidden.
    pub header: &'a dyn Fn(&str) -> bool,
    /// Whether the query key of that name is hidden.
    pub query: &'a dyn Fn(&str) -> bool,
}

impl Hidden<'_> {
    /// Hides nothing: for tests, and where the caller has removed all credentials before.
    pub const NOTHING: Hidden<'static> = Hidden { header: &|_| false, query: &|_| false };
}

/// Headers that carry a client's credential to some hop. Never a fact, whatever the manifest says.
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "proxy-authorization", "x-kleis-token"];

/// The facts that DESIGN §6 lists, but for `request_body` and `body`, which the engine makes from the
/// tree. The four facts about the body's state are made whether anybody asks or not: the authorizer's own
/// checks read them.
///
/// A `request_header` value is a string. Bytes that are not visible text are escaped losslessly: see
/// [`visible`].
pub fn standard(
    view: &RequestView<'_>,
    path: &Path,
    query: &Query,
    body: &Body,
    service: Option<&ServiceName>,
    hidden: Hidden<'_>,
    demand: &Demand,
) -> Vec<Fact> {
    let mut facts = Facts { made: Vec::with_capacity(16), demand };
    target(&mut facts, view, path);
    for (key, value) in query.pairs() {
        if demand.wants_key("request_query", key) && !(hidden.query)(key) {
            facts.push(&NAMES.query, vec![Term::Str(Arc::clone(key)), Term::Str(Arc::clone(value))]);
        }
    }
    for (name, value) in view.headers {
        let secret = CREDENTIAL_HEADERS.contains(name) || (hidden.header)(name);
        if !secret && demand.wants_key("request_header", name) {
            facts.push(&NAMES.header, vec![Term::from(*name), Term::Str(visible(value))]);
        }
    }
    surroundings(&mut facts, view, service);
    state(&mut facts, body);
    facts.made
}

/// What the request-target says.
fn target(facts: &mut Facts<'_>, view: &RequestView<'_>, path: &Path) {
    let authority = view.authority;
    facts.one(&NAMES.method, || view.method.into());
    facts.one(&NAMES.scheme, || authority.scheme().as_str().into());
    facts.one(&NAMES.host, || match authority.host() {
        Host::Name(name) => Term::Str(Arc::clone(name)),
        address => Term::str(address.to_string()),
    });
    facts.one(&NAMES.port, || i64::from(authority.port()).into());
    facts.one(&NAMES.authority, || Term::str(authority.host_header()));
    facts.one(&NAMES.path, || Term::Str(Arc::clone(path.raw())));
    facts.one(&NAMES.segment_count, || count(path.segments().len()));
    if facts.demand.wants(&NAMES.segment) {
        for (index, segment) in path.segments().iter().enumerate() {
            facts.push(&NAMES.segment, vec![count(index), Term::Str(Arc::clone(segment))]);
        }
    }
}

/// What is true of the moment rather than of the request.
fn surroundings(facts: &mut Facts<'_>, view: &RequestView<'_>, service: Option<&ServiceName>) {
    if let Some(size) = view.size {
        facts.one(&NAMES.size, || i64::try_from(size).unwrap_or(i64::MAX).into());
    }
    facts.one(&NAMES.time, || Term::Date(view.time));
    if let Some(client) = view.client {
        facts.one(&NAMES.client_ip, || Term::str(client.to_string()));
    }
    facts.one(&NAMES.request_id, || view.id.into());
    if let Some(service) = service {
        facts.one(&NAMES.service, || service.as_str().into());
    }
}

/// The three states of a body, and whether there is one at all.
fn state(facts: &mut Facts<'_>, body: &Body) {
    let (present, truncated, opaque, undecodable) = match body {
        Body::Absent => (false, false, false, false),
        Body::Opaque => (true, false, true, false),
        Body::Undecodable(_) => (true, false, true, true),
        Body::Truncated => (true, true, false, false),
        Body::Decoded(_) => (true, false, false, false),
    };
    facts.push(&NAMES.present, vec![present.into()]);
    facts.push(&NAMES.truncated, vec![truncated.into()]);
    facts.push(&NAMES.opaque, vec![opaque.into()]);
    facts.push(&NAMES.undecodable, vec![undecodable.into()]);
}

fn count(number: usize) -> Term {
    Term::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A header's value as text, one text for each value (R154): visible ASCII, spaces and tabs stand for
/// themselves, a backslash is `\\`, and every other byte is `\x` and two lower-case hex digits. So two
/// different values never give one fact, and none is dropped.
pub fn visible(value: &[u8]) -> Arc<str> {
    let plain = |b: &u8| matches!(b, b'\t' | b' '..=b'~') && *b != b'\\';
    if value.iter().all(plain)
        && let Ok(text) = std::str::from_utf8(value)
    {
        return text.into();
    }
    let mut text = String::with_capacity(value.len() + 8);
    for byte in value {
        match byte {
            b'\\' => text.push_str("\\\\"),
            byte if plain(byte) => text.push(char::from(*byte)),
            byte => {
                text.push_str("\\x");
                text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or('0')));
            }
        }
    }
    text.into()
}

/// Facts in the making.
struct Facts<'a> {
    made: Vec<Fact>,
    demand: &'a Demand,
}

impl Facts<'_> {
    fn push(&mut self, predicate: &Arc<str>, terms: Vec<Term>) {
        self.made.push(Fact { predicate: Arc::clone(predicate), terms });
    }

    fn one(&mut self, predicate: &Arc<str>, term: impl FnOnce() -> Term) {
        if self.demand.wants(predicate) {
            self.push(predicate, vec![term()]);
        }
    }
}

/// Predicate names, allocated once: a fact shares them.
static NAMES: LazyLock<Names> = LazyLock::new(Names::new);

macro_rules! names {
    ($($field:ident: $name:literal,)*) => {
        struct Names { $($field: Arc<str>,)* }
        impl Names {
            fn new() -> Names {
                Names { $($field: $name.into(),)* }
            }
        }
        /// The predicates that the proxy itself writes: nobody else may state them (DESIGN §7). With those
        /// that the engine makes from a decoded body.
        pub const STANDARD_PREDICATES: &[&str] = &[
            $($name,)* "request_body", "body", "body_kind", "body_len",
        ];
    };
}

names! {
    method: "request_method",
    scheme: "request_scheme",
    host: "request_host",
    port: "request_port",
    authority: "request_authority",
    path: "request_path",
    segment: "request_segment",
    segment_count: "request_segment_count",
    query: "request_query",
    header: "request_header",
    size: "request_size",
    time: "time",
    client_ip: "client_ip",
    request_id: "request_id",
    service: "service",
    present: "body_present",
    truncated: "body_truncated",
    opaque: "body_opaque",
    undecodable: "body_undecodable",
}
