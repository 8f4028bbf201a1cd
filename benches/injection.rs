//! Taking the client's credentials off, and having a live secret at hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests may panic"
)]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderValue, Method};
use kleis::credential::{Head, Stripped};
use kleis::service::Catalog;
use kleis::words::{Authority, Scheme};

fn head() -> Head {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("accept", "*/*"),
        ("user-agent", "git/2.43.0"),
        ("authorization", "Bearer kleis"),
        ("content-type", "application/json"),
        ("accept-encoding", "gzip"),
        ("x-request-id", "7"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Head { method: Method::GET, path: "/repos/o/r/pulls".into(), query: Some("page=2&per_page=100".into()), headers }
}

fn strip(c: &mut Criterion) {
    let catalog = Catalog::embedded().unwrap();
    let api = Authority::parse(Scheme::Https, "api.github.com").unwrap();
    let service = catalog.claim(&api).unwrap();
    c.bench_function("injection/strip", |b| {
        b.iter_batched(head, |head| Stripped::new(head, &api, Some(service)), BatchSize::SmallInput);
    });
}

criterion_group!(benches, strip);
criterion_main!(benches);
