//! A leaf for a new name, and one from the cache (budget: 80 µs, DESIGN §19).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests may panic"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use kleis::ca::Ca;
use kleis::words::Host;

fn leaf(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let ca = Ca::load_or_make(dir.path()).unwrap();
    let mut next = 0u64;
    c.bench_function("leaf/new name", |b| {
        b.iter(|| {
            next += 1;
            ca.leaf(&Host::parse(&format!("n{next}.good.test")).unwrap()).unwrap()
        });
    });
    let host = Host::parse("api.good.test").unwrap();
    c.bench_function("leaf/cached", |b| b.iter(|| ca.leaf(&host).unwrap()));
}

criterion_group!(benches, leaf);
criterion_main!(benches);
