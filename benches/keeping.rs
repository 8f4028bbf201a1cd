//! Tokens and the store: verify, mint, attenuate; revocations loaded and looked up; inserts in groups.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests may panic"
)]

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use kleis::facts::{Fact, Term};
use kleis::store::{Revocations, Store};
use kleis::token::{Attenuation, Candidates, Claims, RevocationId, RootKeys, attenuate, mint, verify};
use kleis::words::GrantName;
use rand::rngs::OsRng;

fn claims() -> Claims {
    let fact = |name: &str, terms: &[&str]| Fact::new(name, terms.iter().map(|t| Term::from(*t)).collect::<Vec<_>>());
    Claims {
        candidates: Candidates::Grants(vec![GrantName::parse("orchestra-github").unwrap()]),
        bearer: "orchestra:42".into(),
        issued_by: None,
        facts: vec![
            fact("task_id", &["42"]),
            fact("task_fork", &["bot", "project"]),
            fact("task_upstream", &["octo", "project"]),
            fact("task_tool", &["open_pr"]),
            fact("task_tool", &["comment"]),
            fact("task_push_prefix", &["refs/heads/task-42/"]),
        ],
        expires: 1_900_000_000,
        narrowings: vec!["mail: only read".into()],
        checks: vec![],
    }
}

fn tokens(criterion: &mut Criterion) {
    let keys = RootKeys::generate(&mut OsRng);
    let token = mint(&keys, &claims(), &mut OsRng).unwrap();
    let narrower = Attenuation { narrowings: vec!["github: only read".into()], ..Attenuation::default() };
    let child = attenuate(token.token.as_str(), &narrower, &mut OsRng).unwrap();
    let mut group = criterion.benchmark_group("token");
    group.bench_function("mint", |b| b.iter(|| mint(&keys, &claims(), &mut OsRng).unwrap()));
    group.bench_function("attenuate", |b| {
        b.iter(|| attenuate(token.token.as_str(), &narrower, &mut OsRng).unwrap());
    });
    group.bench_function("verify/1", |b| b.iter(|| verify(token.token.as_str(), &keys).unwrap()));
    group.bench_function("verify/2", |b| b.iter(|| verify(child.token.as_str(), &keys).unwrap()));
    group.finish();
}

fn id(number: u64) -> RevocationId {
    let mut bytes = [0x5a; 64];
    for (to, from) in bytes.iter_mut().zip(number.to_be_bytes()) {
        *to = from;
    }
    RevocationId::new(&bytes)
}

fn store(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kleis.db");
    let revocations = runtime.block_on(async {
        let store = Store::open(&path).await.unwrap();
        let ids: Vec<_> = (0..100_000).map(id).collect();
        for chunk in ids.chunks(10_000) {
            store.revoke(chunk, 1).await.unwrap();
        }
        let revocations = Revocations::load(&store).await.unwrap();
        store.close().await;
        revocations
    });
    let mut group = criterion.benchmark_group("store");
    group.bench_function("revocations/lookup", |b| {
        let ids = [id(1 << 40), id(1 << 41)];
        b.iter(|| revocations.any_revoked(&ids));
    });
    group.sample_size(10);
    group.bench_function("revocations/open_and_load_100k", |b| {
        b.iter_custom(|count| {
            runtime.block_on(async {
                let mut taken = Duration::ZERO;
                for _ in 0..count {
                    let start = Instant::now();
                    let store = Store::open(&path).await.unwrap();
                    Revocations::load(&store).await.unwrap();
                    taken += start.elapsed();
                    store.close().await;
                }
                taken
            })
        });
    });
    let store = runtime.block_on(Store::open(&path)).unwrap();
    group.bench_function("revoke/64_in_flight", |b| {
        b.iter_custom(|count| {
            let seed: u64 = rand::random();
            let start = Instant::now();
            runtime.block_on(async {
                let tasks = (0..64u64).map(|task| {
                    let (store, share) = (store.clone(), count / 64 + u64::from(task < count % 64));
                    tokio::spawn(async move {
                        for number in 0..share {
                            store.revoke(&[id(seed ^ (task << 40) ^ number)], 1).await.unwrap();
                        }
                    })
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await.unwrap();
                }
            });
            start.elapsed()
        });
    });
    group.finish();
    runtime.block_on(store.close());
}

criterion_group!(benches, tokens, store);
criterion_main!(benches);
