//! What it costs to find out what a request means, under the shipped manifest for GitHub.
//!
//! `service/reading/CASE` matches the head against some two hundred routes; `service/facts/CASE` makes the
//! facts and items that an orchestra-like policy demands. CASE is one of `read`, `api`, `merge`, `push40`
//! and `graphql`. `service/claim` finds the service of an authority.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "a bench may panic"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use kleis::facts::{Body, Demand, Path, Query, RequestView};
use kleis::service::{Catalog, Service};
use kleis::wire::{Bounds, Decoded, decode};
use kleis::words::{Authority, Scheme};

struct Case {
    name: &'static str,
    method: &'static str,
    host: &'static str,
    path: &'static str,
    body: Vec<u8>,
}

fn push(refs: usize) -> Vec<u8> {
    let line = |index: usize| {
        let caps = if index == 0 { "\0 report-status side-band-64k" } else { "" };
        let line = format!("{} {} refs/heads/agent/change-{index}{caps}", "1".repeat(40), "2".repeat(40));
        format!("{:04x}{line}", line.len() + 4)
    };
    ((0..refs).map(line).collect::<String>() + "0000").into_bytes()
}

fn cases() -> Vec<Case> {
    let case = |name, method, host, path, body| Case { name, method, host, path, body };
    let query = br#"{"query": "{ repository(owner: \"o\", name: \"r\") { id } viewer { login } rateLimit { cost } }"}"#;
    vec![
        case("read", "GET", "api.github.com", "/repos/o/r/issues/7", Vec::new()),
        case("api", "GET", "api.github.com", "/user", Vec::new()),
        case("merge", "PUT", "api.github.com", "/repos/o/r/pulls/7/merge", Vec::new()),
        case("push40", "POST", "github.com", "/o/r.git/git-receive-pack", push(40)),
        case("graphql", "POST", "api.github.com", "/graphql", query.to_vec()),
    ]
}

fn bench_case(c: &mut Criterion, service: &Service, case: &Case) {
    let authority = Authority::parse(Scheme::Https, case.host).expect("a host");
    let (path, query) = (Path::parse(case.path).expect("a path"), Query::default());
    let view = RequestView {
        id: "id",
        method: case.method,
        authority: &authority,
        path: case.path,
        query: None,
        headers: &[("accept", b"*/*"), ("user-agent", b"git/2.47.3")],
        size: None,
        client: None,
        time: 0,
    };
    c.bench_function(&format!("service/reading/{}", case.name), |b| b.iter(|| service.reading(&view, &path, &query)));
    let reading = service.reading(&view, &path, &query).expect("it can be read");
    let body = match reading.decoder() {
        Some(decoder) if !case.body.is_empty() => {
            let bounds = Bounds { max_nodes: service.max_body_facts(), ..Bounds::default() };
            match decode(decoder, "", "", &case.body, true, &bounds) {
                Decoded::Ready(tree) => Body::Decoded(tree),
                other => panic!("{other:?}"),
            }
        }
        _ => Body::Absent,
    };
    let mut demand = Demand::nothing();
    for predicate in ["repository_key", "creates_ref", "deletes_ref", "graphql_operation", "pull_request", "time"] {
        demand.add(predicate);
    }
    c.bench_function(&format!("service/facts/{}", case.name), |b| {
        b.iter_batched(
            || body.clone(),
            |body| service.facts(&view, &path, &query, &reading, body, &demand),
            criterion::BatchSize::SmallInput,
        );
    });
}

fn service(c: &mut Criterion) {
    let catalog = Catalog::embedded().expect("the shipped manifests load");
    let github = catalog.get("github").expect("github is shipped");
    for case in cases() {
        bench_case(c, github, &case);
    }
    let authority = Authority::parse(Scheme::Https, "api.github.com").expect("a host");
    c.bench_function("service/claim", |b| b.iter(|| catalog.claim(&authority).is_some()));
}

criterion_group!(benches, service);
criterion_main!(benches);
