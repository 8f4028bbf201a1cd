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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::words::{Authority, Scheme};

    const ODD: &[u8] = b"\"); allow if true; // \\ {param} $var\n\xff";

    fn facts_of(body: &Body, hidden: Hidden<'_>, demand: &Demand) -> Vec<String> {
        let authority = Authority::parse(Scheme::Https, "api.github.com:8443").unwrap();
        let headers = [
            ("content-type", &b"application/json"[..]),
            ("authorization", b"Bearer s3cret"),
            ("x-api-key", b"s3cret"),
            ("x-odd", ODD),
        ];
        let view = RequestView {
            id: "r1",
            method: "POST",
            authority: &authority,
            path: "/repos/o%20x/r/",
            query: Some("page=2&key=s3cret&page=3"),
            headers: &headers,
            size: Some(17),
            client: Some([10, 0, 0, 7].into()),
            time: 1_767_225_600,
        };
        let (path, query) = (Path::parse(view.path).unwrap(), Query::parse(view.query).unwrap());
        let service = ServiceName::parse("github").unwrap();
        standard(&view, &path, &query, body, Some(&service), hidden, demand)
            .iter()
            .map(|fact| format!("{}{:?}", fact.predicate, fact.terms))
            .collect()
    }

    const HIDDEN: Hidden<'static> = Hidden { header: &|name| name == "x-api-key", query: &|key| key == "key" };

    #[test]
    fn every_standard_fact_is_made_when_everything_is_demanded() {
        let facts = facts_of(&Body::Opaque, HIDDEN, &Demand::everything());
        insta::assert_snapshot!(facts.join("\n"), @r##"
        request_method[Str("POST")]
        request_scheme[Str("https")]
        request_host[Str("api.github.com")]
        request_port[Integer(8443)]
        request_authority[Str("api.github.com:8443")]
        request_path[Str("/repos/o%20x/r/")]
        request_segment_count[Integer(4)]
        request_segment[Integer(0), Str("repos")]
        request_segment[Integer(1), Str("o x")]
        request_segment[Integer(2), Str("r")]
        request_segment[Integer(3), Str("")]
        request_query[Str("page"), Str("2")]
        request_query[Str("page"), Str("3")]
        request_header[Str("content-type"), Str("application/json")]
        request_header[Str("x-odd"), Str("\"); allow if true; // \\\\ {param} $var\\x0a\\xff")]
        request_size[Integer(17)]
        time[Date(1767225600)]
        client_ip[Str("10.0.0.7")]
        request_id[Str("r1")]
        service[Str("github")]
        body_present[Bool(true)]
        body_truncated[Bool(false)]
        body_opaque[Bool(true)]
        body_undecodable[Bool(false)]
        "##);
        let made = |name: &&&str| facts.iter().any(|fact| fact.starts_with(&format!("{name}[")));
        let missing: Vec<_> = STANDARD_PREDICATES.iter().filter(|name| !made(name)).collect();
        assert_eq!(missing, [&"request_body", &"body", &"body_kind", &"body_len"]);
    }

    #[test]
    fn only_demanded_facts_are_made_and_the_body_s_state_always() {
        let mut demand = Demand::nothing();
        assert_eq!(facts_of(&Body::Absent, HIDDEN, &demand).len(), 4);
        demand.add_key("request_header", "content-type");
        demand.add_key("request_query", "page");
        demand.add("request_method");
        assert_eq!(facts_of(&Body::Absent, HIDDEN, &demand).len(), 4 + 1 + 2 + 1);
    }

    #[test]
    fn credentials_never_become_facts() {
        let facts = facts_of(&Body::Absent, HIDDEN, &Demand::everything()).join("\n");
        assert!(!facts.contains("s3cret"), "{facts}");
    }

    #[test]
    fn a_body_has_three_states() {
        let state = |body: Body| facts_of(&body, HIDDEN, &Demand::nothing()).join(" ");
        let expected = |present, truncated, opaque, undecodable| {
            format!(
                "body_present[Bool({present})] body_truncated[Bool({truncated})] body_opaque[Bool({opaque})] body_undecodable[Bool({undecodable})]"
            )
        };
        assert_eq!(state(Body::Absent), expected(false, false, false, false));
        assert_eq!(state(Body::Opaque), expected(true, false, true, false));
        assert_eq!(state(Body::Undecodable("x".into())), expected(true, false, true, true));
        assert_eq!(state(Body::Truncated), expected(true, true, false, false));
        assert_eq!(state(Body::Decoded(Term::Null)), expected(true, false, false, false));
    }

    #[test]
    fn r154_a_header_is_data_whatever_stands_in_it() {
        assert_eq!(&*visible(ODD), "\"); allow if true; // \\\\ {param} $var\\x0a\\xff");
        assert_eq!(&*visible("ü".as_bytes()), "\\xc3\\xbc");
        assert_ne!(visible(b"\xff"), visible(b"\\xff"));
        assert_eq!(visible(&vec![b'a'; 1 << 20]).len(), 1 << 20);
    }

    proptest! {
        #[test]
        fn r154_different_values_give_different_texts(a in proptest::collection::vec(any::<u8>(), 0..6), b in proptest::collection::vec(any::<u8>(), 0..6)) {
            prop_assert_eq!(visible(&a) == visible(&b), a == b);
            prop_assert!(visible(&a).bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
        }
    }
}
