//! What the record costs: CPU time of the whole process, threads included, for a decision and its
//! outcome (budget: 4 µs), and how long a caller waits for a decision.
//!
//! `audit/cpu/N` is CPU time with N requests in flight, measured with the process' CPU clock;
//! `audit/latency` is wall time with one.
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
use kleis::audit::{Audit, AuditOptions, DecisionEntry, OutcomeEntry};
use kleis::facts::{Fact, Term};
use kleis::policy::{Candidate, DecidedItem};
use kleis::store::Store;
use kleis::token::RevocationId;
use kleis::words::{CredentialName, GrantName, IssuerName, ServiceName};
use rustix::time::{ClockId, clock_gettime};

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap(), u32::try_from(now.tv_nsec).unwrap())
}

struct Request {
    service: ServiceName,
    credential: CredentialName,
    issuer: IssuerName,
    candidate: Candidate,
    items: Vec<DecidedItem>,
    ids: Vec<RevocationId>,
}

impl Request {
    fn new() -> Request {
        Request {
            service: ServiceName::parse("github").unwrap(),
            credential: CredentialName::parse("github/app").unwrap(),
            issuer: IssuerName::parse("orchestra").unwrap(),
            candidate: Candidate::Grant {
                name: GrantName::parse("orchestra-github").unwrap(),
                version: "0123456789abcdef".into(),
            },
            items: vec![DecidedItem {
                operation: Some("read".into()),
                resources: vec![Fact::new("repository", vec![Term::from("octo"), Term::from("project")])],
            }],
            ids: vec![RevocationId::new(&[7; 64]), RevocationId::new(&[9; 64])],
        }
    }

    async fn record(&self, audit: &Audit, id: &str) {
        let decision = DecisionEntry {
            request_id: id,
            revocation_ids: &self.ids,
            bearer: Some("orchestra:42".into()),
            issued_by: Some(&self.issuer),
            client: Some([10, 0, 0, 7].into()),
            mode: "connect",
            service: Some(&self.service),
            method: Some("GET".into()),
            authority: Some("api.github.com:443".into()),
            path: Some("/repos/octo/project/pulls".into()),
            query: Some("state=open&page=2".into()),
            items: &self.items,
            candidate: Some(&self.candidate),
            credential: Some(&self.credential),
            generation: Some(3),
            fuel: Some(120),
            took: Some(Duration::from_micros(12)),
            ..DecisionEntry::default()
        };
        audit.decision(&decision).await.unwrap();
        audit.outcome(&OutcomeEntry {
            request_id: id,
            status: Some(200),
            bytes_down: 4096,
            first_byte: Some(Duration::from_millis(80)),
            took: Some(Duration::from_millis(90)),
            ..OutcomeEntry::default()
        });
    }
}

fn bench(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let audit = runtime.block_on(async {
        let store = Store::open(&dir.path().join("kleis.db")).await.unwrap();
        Audit::open(&dir.path().join("audit"), &store, AuditOptions::default()).await.unwrap()
    });
    let mut group = criterion.benchmark_group("audit");
    for in_flight in [1u64, 16, 64, 256] {
        group.bench_function(format!("cpu/{in_flight}"), |bencher| {
            bencher.iter_custom(|count| {
                let start = cpu();
                runtime.block_on(async {
                    let tasks = (0..in_flight).map(|task| {
                        let (audit, share) = (audit.clone(), count / in_flight + u64::from(task < count % in_flight));
                        tokio::spawn(async move {
                            let request = Request::new();
                            for _ in 0..share {
                                request.record(&audit, "01HZX3J5K6M7N8P9").await;
                            }
                        })
                    });
                    for task in tasks.collect::<Vec<_>>() {
                        task.await.unwrap();
                    }
                });
                cpu() - start
            });
        });
    }
    group.bench_function("latency", |bencher| {
        bencher.iter_custom(|count| {
            runtime.block_on(async {
                let request = Request::new();
                let start = Instant::now();
                for _ in 0..count {
                    request.record(&audit, "01HZX3J5K6M7N8P9").await;
                }
                start.elapsed()
            })
        });
    });
    group.finish();
    runtime.block_on(audit.close()).unwrap();
}

criterion_group!(benches, bench);
criterion_main!(benches);
