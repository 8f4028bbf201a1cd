//! What it costs to read a request: its target and head into facts, its body into a tree.
//!
//! `reading/decode/CASE` is the body alone, `reading/facts/CASE` the whole of reading with every fact
//! demanded, the body's nodes among them. CASE is one of `read` (no body), `push1`, `push40`, `graphql30`
//! and `json300`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "a bench may panic"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kleis::facts::{Body, Demand, Fact, Hidden, Path, Query, RequestView, Term, body_nodes, standard};
use kleis::wire::{Bounds, Decoded, Decoder, decode};
use kleis::words::{Authority, Scheme, ServiceName};

struct Case {
    name: &'static str,
    decoder: Decoder,
    media: &'static str,
    body: Vec<u8>,
}

fn push(refs: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for index in 0..refs {
        let caps =
            if index == 0 { "\0 report-status-v2 side-band-64k object-format=sha1 agent=git/2.47.3" } else { "" };
        let line = format!("{} {} refs/heads/agent/change-{index}{caps}", "1".repeat(40), "2".repeat(40));
        body.extend(format!("{:04x}{line}", line.len() + 4).into_bytes());
    }
    body.extend(b"0000PACK\0\0\0\x02");
    body
}

fn graphql() -> Vec<u8> {
    let query = "query Q($owner: String!, $name: String!, $n: Int = 10) { repository(owner: $owner, name: $name) \
        { id pullRequests(first: $n, states: [OPEN]) { nodes { number title author { login } } } } \
        viewer { login } search(query: \"is:open\", type: ISSUE, first: $n) { issueCount } \
        a: node(id: \"x\") { id } b: node(id: \"y\") { id } rateLimit { remaining } meta { sha } }";
    let escaped = query.replace('"', "\\\"");
    format!(r#"{{"query":"{escaped}","variables":{{"owner":"acme","name":"site"}},"operationName":"Q"}}"#).into_bytes()
}

fn json() -> Vec<u8> {
    let item = |i: usize| {
        format!(
            r#"{{"id":{i},"name":"item {i}","draft":false,"labels":["bug","p{i}"],"body":"some text with \"quotes\""}}"#
        )
    };
    format!("{{\"items\":[{}]}}", (0..50).map(item).collect::<Vec<_>>().join(",")).into_bytes()
}

fn cases() -> Vec<Case> {
    let case = |name, decoder, media, body| Case { name, decoder, media, body };
    vec![
        case("read", Decoder::None, "", Vec::new()),
        case("push1", Decoder::GitReceivePack, "application/x-git-receive-pack-request", push(1)),
        case("push40", Decoder::GitReceivePack, "application/x-git-receive-pack-request", push(40)),
        case("graphql30", Decoder::Graphql, "application/json", graphql()),
        case("json300", Decoder::Json, "application/json", json()),
    ]
}

fn body(case: &Case, bounds: &Bounds) -> Body {
    match decode(&case.decoder, case.media, "", &case.body, true, bounds) {
        Decoded::Ready(tree) => Body::Decoded(tree),
        Decoded::Failed(_) if case.body.is_empty() => Body::Absent,
        other => panic!("{}: {other:?}", case.name),
    }
}

fn facts(case: &Case, authority: &Authority, service: &ServiceName, bounds: &Bounds) -> Vec<Fact> {
    let headers = [
        ("accept", &b"application/vnd.github+json"[..]),
        ("user-agent", b"git/2.47.3"),
        ("content-type", case.media.as_bytes()),
        ("accept-encoding", b"gzip"),
        ("x-github-api-version", b"2022-11-28"),
    ];
    let view = RequestView {
        id: "0123456789abcdef",
        method: "POST",
        authority,
        path: "/repos/acme/site/pulls",
        query: Some("state=open&page=2"),
        headers: &headers,
        size: Some(case.body.len() as u64),
        client: Some([10, 0, 0, 7].into()),
        time: 1_767_225_600,
    };
    let (path, query) = (Path::parse(view.path).unwrap(), Query::parse(view.query).unwrap());
    let body = body(case, bounds);
    let demand = Demand::everything();
    let mut facts = standard(&view, &path, &query, &body, Some(service), Hidden::NOTHING, &demand);
    if let Body::Decoded(tree) = &body {
        let name: std::sync::Arc<str> = "body".into();
        facts.extend(
            body_nodes(tree)
                .map(|(path, value)| Fact { predicate: name.clone(), terms: vec![Term::Array(path.into()), value] }),
        );
    }
    facts
}

fn reading(criterion: &mut Criterion) {
    let bounds = Bounds::default();
    let authority = Authority::parse(Scheme::Https, "api.github.com").unwrap();
    let service = ServiceName::parse("github").unwrap();
    let mut group = criterion.benchmark_group("reading");
    for case in cases() {
        if !case.body.is_empty() {
            group.throughput(Throughput::Bytes(case.body.len() as u64));
            group.bench_function(format!("decode/{}", case.name), |b| b.iter(|| body(&case, &bounds)));
        }
        group
            .bench_function(format!("facts/{}", case.name), |b| b.iter(|| facts(&case, &authority, &service, &bounds)));
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
