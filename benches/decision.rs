//! What a decision costs: ours and biscuit-auth's on the same policy, token and facts (DESIGN §14, §19).
//!
//! `decision/ours/CASE` and `decision/biscuit/CASE`; then the cost against the number of grants, of live
//! tokens (flat) and of attenuation blocks (linear), and what compiling a program costs.

#![allow(
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench"
)]

#[path = "../tests/policy_world/mod.rs"]
mod policy_world;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use biscuit_auth::builder as oracle;
use biscuit_auth::{AuthorizerBuilder, AuthorizerLimits, Biscuit, PublicKey};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use kleis::facts::{Body, Fact, Key, RequestFacts, Term, body_nodes};
use kleis::policy::{Decision, Program, decide};
use kleis::token::VerifiedToken;
use policy_world::*;

/// What an orchestrator's task may do with its fork and the upstream: of the size that is used in earnest.
const POLICY: &str = r#"
fork($o, $n) <- repository($o, $n), task_fork($o, $n);
upstream($o, $n) <- repository($o, $n), task_upstream($o, $n);
known($o, $n) <- fork($o, $n);
known($o, $n) <- upstream($o, $n);
known($o, $n) <- created_repository($o, $n), repository($o, $n);

read_operation("fetch"); read_operation("discover"); read_operation("download"); read_operation("read");
read_operation("api_read");
reads($op) <- operation($op), read_operation($op);
may_read($o, $n) <- reads($op), known($o, $n);
may_read($o, $n) <- reads($op), repository($o, $n), repository_private(false);

writes($op) <- operation($op), task_writable(true);
ref_in($r) <- writes("push"), ref_change($r, $k), task_push_prefix($p), $r.starts_with($p);
ref_out($r) <- operation("push"), ref_change($r, $k), task_push_prefix($p), !$r.starts_with($p);
tag($r) <- ref_change($r, $k), $r.starts_with("refs/tags/");
deletes($r) <- ref_change($r, "delete");
may_push($o, $n) <- ref_in($r), fork($o, $n);
may_push($o, $n) <- operation("push_probe"), task_writable(true), fork($o, $n);
may_discover($o, $n) <- operation("discover"), discover_service("git-upload-pack"), known($o, $n);
may_discover($o, $n) <- operation("discover"), discover_service("git-receive-pack"), fork($o, $n);

label_asked($l) <- operation("add_labels"), body($p, $l), $p.length() == 2, $p.get(0) == "labels";
label_fine($l) <- label_asked($l), task_pr_labels($s), $s.contains($l);
label_fine($l) <- label_asked($l), task_label_any(true);
own_issue($i) <- issue($i), task_issue($i);
may_label($o, $n) <- label_fine($l), known($o, $n);

pr_title($t) <- operation("open_pr"), body(["title"], $t);
pr_draft($d) <- operation("open_pr"), body(["draft"], $d);
pr_base_ok($b) <- operation("open_pr"), body(["base"], $b), ["main", "master", "develop"].contains($b);
pr_head_ok($h) <- operation("open_pr"), body(["head"], $h), task_fork($o, $n), $h.starts_with($o + ":");
may_open($o, $n) <- writes("open_pr"), pr_base_ok($b), pr_head_ok($h), upstream($o, $n);
may_comment($o, $n) <- writes("comment"), own_issue($i), upstream($o, $n);
may_review($o, $n) <- writes("review_pr"), review_event($e), ["COMMENT"].contains($e), upstream($o, $n);

field($f) <- operation("graphql"), body($p, $f), $p.length() == 5, $p.get(0) == "$operations", $p.get(2) == "fields", $p.get(4) == "name";
type($t) <- operation("graphql"), body($p, $t), $p.length() == 3, $p.get(0) == "$operations", $p.get(2) == "type";
field_argument($v) <- operation("graphql"), body($p, $v), $p.length() == 7, $p.get(4) == "args", $p.get(6) == "login";
mutates($t) <- type($t), $t != "query";
may_query($f) <- field($f), ["viewer", "repository", "node", "rateLimit", "search"].contains($f);
may_create($o, $n) <- writes("create_repository"), new_repository($o, $n), task_org($o);
use_credential("hub/pat") <- operation("graphql");

check if service("hub");
check if request_scheme("https");
check all ref_change($r, $k), $r.length() < 200 or request_method($m);
reject if ref_out($r);
reject if deletes($r), tag($r);
reject if body($p, $v), $v.type() == "string", $v.contains("-----BEGIN");

deny if mutates($t);
allow if may_read($o, $n);
allow if may_push($o, $n);
allow if may_discover($o, $n);
allow if may_label($o, $n);
allow if may_open($o, $n);
allow if may_comment($o, $n) or may_review($o, $n);
allow if may_query($f);
allow if may_create($o, $n);
allow if operation("api_write"), known($o, $n), task_writable(true);
"#;

const TASK: &str = r#"
task_id("orchestra:42"); task_identity("bot"); task_fork("bot", "proj"); task_upstream("acme", "proj"); task_issue(17);
task_tool("git"); task_tool("gh"); task_tool("cargo"); task_writable(true); task_pr_labels({"orchestra", "agent"});
task_label_any(false); task_org("acme"); task_push_prefix("refs/heads/agent/");
"#;

/// The facts that are there for any request, headers included.
fn head(method: &str, path: &str) -> String {
    let mut facts = format!(
        r#"request_method("{method}"); request_scheme("https"); request_host("hub.test"); request_port(443);
        request_path("{path}"); client_ip("10.0.0.7"); request_id("0190-4a"); service("hub"); request_size(4823);
        body_present(true); body_truncated(false); body_opaque(false); body_undecodable(false);"#
    );
    for (index, segment) in path.trim_start_matches('/').split('/').enumerate() {
        let _ = write!(facts, "request_segment({index}, \"{segment}\");");
    }
    for index in 0..14 {
        let _ = write!(facts, "request_header(\"x-field-{index}\", \"value {index}\");");
    }
    facts
}

fn ask(method: &str, path: &str, items: &[&str], body: Option<Term>) -> RequestFacts {
    let mut facts = Ask::items(items).facts;
    facts.shared = fact_list(&head(method, path));
    facts.body = body.map_or(Body::Absent, Body::Decoded);
    facts
}

fn map(entries: Vec<(&str, Term)>) -> Term {
    Term::Map(std::sync::Arc::new(entries.into_iter().map(|(key, value)| (Key::Str(key.into()), value)).collect()))
}

fn array(items: Vec<Term>) -> Term {
    Term::Array(items.into())
}

fn push(refs: usize) -> RequestFacts {
    let name = |i: usize| format!("refs/heads/agent/topic-{i}");
    let update = |i: usize| {
        map(vec![
            ("ref", Term::str(name(i))),
            ("old", Term::str(format!("{i:040x}"))),
            ("new", Term::str(format!("{:040x}", i + 1000))),
            ("kind", Term::str("update")),
        ])
    };
    let items: Vec<String> = (0..refs)
        .map(|i| {
            format!("operation(\"push\"); repository(\"bot\", \"proj\"); ref_change(\"{}\", \"update\");", name(i))
        })
        .collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let body = map(vec![
        ("updates", array((0..refs).map(update).collect())),
        ("capabilities", array(["report-status", "side-band-64k"].map(Term::from).to_vec())),
    ]);
    ask("POST", "/bot/proj/git-receive-pack", &items, Some(body))
}

fn graphql() -> RequestFacts {
    let field = |name: &str| {
        map(vec![("name", Term::str(name)), ("args", map(vec![("login", Term::str("acme")), ("first", 20.into())]))])
    };
    let fields = ["viewer", "repository", "search", "node", "rateLimit", "viewer", "repository", "search", "node"];
    let operation = map(vec![
        ("type", Term::str("query")),
        ("name", Term::str("Q")),
        ("fields", array(fields.map(field).to_vec())),
    ]);
    let body = map(vec![("$operations", array(vec![operation])), ("query", Term::str("query Q { viewer { login } }"))]);
    ask("POST", "/graphql", &["operation(\"graphql\"); graphql_operation(\"query\");"], Some(body))
}

fn json() -> RequestFacts {
    let step = |i: i64| {
        map(vec![
            ("name", Term::str(format!("step {i}"))),
            ("run", Term::str(format!("cargo test --package part-{i}"))),
            ("timeout", i.into()),
            ("if", Term::from(true)),
            ("env", map(vec![("CI", Term::str("true")), ("N", Term::str(i.to_string()))])),
        ])
    };
    let body = map(vec![("steps", array((0..50).map(step).collect())), ("title", Term::str("run"))]);
    ask("POST", "/acme/proj/dispatches", &["operation(\"api_write\"); repository(\"acme\", \"proj\");"], Some(body))
}

fn cases() -> Vec<(&'static str, RequestFacts)> {
    let on = |operation: &str| format!("operation(\"{operation}\"); repository(\"acme\", \"proj\"); pull_request(17);");
    let labels = map(vec![("labels", array(vec![Term::str("orchestra"), Term::str("agent")]))]);
    let cases = vec![
        ("read", ask("GET", "/repos/acme/proj/contents/src/lib.rs", &[&on("read")], None)),
        ("push1", push(1)),
        ("labels", ask("POST", "/repos/acme/proj/issues/17/labels", &[&on("add_labels")], Some(labels))),
        ("graphql30", graphql()),
        ("json300", json()),
        ("push40", push(40)),
    ];
    let nodes = |facts: &RequestFacts| match &facts.body {
        Body::Decoded(tree) => body_nodes(tree).count(),
        _ => 0,
    };
    assert!((25..=35).contains(&nodes(&cases[3].1)), "{}", nodes(&cases[3].1));
    assert!((290..=310).contains(&nodes(&cases[4].1)), "{}", nodes(&cases[4].1));
    cases
}

fn world() -> (World, VerifiedToken) {
    let world = World::new(&[grant_text("g", POLICY, "credential = \"hub/app\"\ncredentials = [\"hub/pat\"]")], &[]);
    let token = world.token().facts(TASK).make();
    (world, token)
}

fn wanted(facts: &RequestFacts, program: &Program) -> RequestFacts {
    let mut facts = facts.clone();
    let wants = |fact: &Fact| match fact.terms.first() {
        Some(Term::Str(first)) => program.demand().wants_key(&fact.predicate, first),
        _ => program.demand().wants(&fact.predicate),
    };
    let state = |fact: &Fact| fact.predicate.starts_with("body_");
    facts.shared.retain(|fact| wants(fact) || state(fact));
    facts
}

fn ours(c: &mut Criterion) {
    let (world, token) = world();
    let program = world.compile(&token).unwrap();
    let mut group = c.benchmark_group("decision/ours");
    for (name, facts) in cases() {
        let facts = wanted(&facts, &program);
        if let Decision::Denial(denial) = decide(&program, &facts, &world.situation()) {
            panic!("{name}: {denial:#?}");
        }
        group.bench_function(name, |b| b.iter(|| decide(black_box(&program), black_box(&facts), &world.situation())));
    }
    group.finish();
}

// --- the oracle -------------------------------------------------------------------------------------

fn oracle_term(term: &Term) -> oracle::Term {
    match term {
        Term::Integer(value) => oracle::Term::Integer(*value),
        Term::Str(text) => oracle::Term::Str(text.to_string()),
        Term::Date(value) => oracle::Term::Date(*value),
        Term::Bytes(bytes) => oracle::Term::Bytes(bytes.to_vec()),
        Term::Bool(value) => oracle::Term::Bool(*value),
        Term::Null => oracle::Term::Null,
        Term::Set(items) => oracle::Term::Set(items.iter().map(oracle_term).collect()),
        Term::Array(items) => oracle::Term::Array(items.iter().map(oracle_term).collect()),
        Term::Map(entries) => oracle::Term::Map(
            entries
                .iter()
                .map(|(key, value)| {
                    let key = match key {
                        Key::Integer(key) => oracle::MapKey::Integer(*key),
                        Key::Str(key) => oracle::MapKey::Str(key.to_string()),
                    };
                    (key, oracle_term(value))
                })
                .collect(),
        ),
    }
}

fn oracle_fact(fact: &Fact) -> oracle::Fact {
    oracle::Fact::new(fact.predicate.to_string(), fact.terms.iter().map(oracle_term).collect::<Vec<_>>())
}

fn biscuit(c: &mut Criterion) {
    let (world, _) = world();
    let (_, public) = world.keys.public().remove(0);
    let claims = world.token().facts(TASK).raw();
    let public = PublicKey::from_bytes_hex(public.trim_start_matches("ed25519/"), oracle::Algorithm::Ed25519).unwrap();
    let token = Biscuit::from_base64(claims, public).unwrap();
    let limits = AuthorizerLimits { max_facts: 1_000_000, max_iterations: 10_000, max_time: Duration::from_secs(600) };
    let manifest = catalog()
        .get("hub")
        .unwrap()
        .datalog()
        .rules
        .iter()
        .fold(String::new(), |text, rule| text + &rule.text + ";\n");
    let source = format!(
        "{manifest}{POLICY}\ngrant(\"g\"); check if body_truncated(false); check if body_undecodable(false); deny if true;"
    );
    let policy = AuthorizerBuilder::new().code(source).unwrap().set_limits(limits);
    let mut group = c.benchmark_group("decision/biscuit");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let (ours, verified) = self::world();
    let program = ours.compile(&verified).unwrap();
    for (name, facts) in cases() {
        let facts = wanted(&facts, &program);
        let run = || {
            let mut builder = policy.clone();
            let items = facts.items.iter().flat_map(|item| &item.facts);
            for fact in facts.shared.iter().chain(items) {
                builder = builder.fact(oracle_fact(fact)).unwrap();
            }
            if let Body::Decoded(tree) = &facts.body {
                for (path, value) in body_nodes(tree) {
                    let terms = vec![oracle_term(&Term::Array(path.into())), oracle_term(&value)];
                    builder = builder.fact(oracle::Fact::new("body".to_owned(), terms)).unwrap();
                }
            }
            let now = oracle::Term::Date(NOW);
            let mut authorizer =
                builder.fact(oracle::Fact::new("time".to_owned(), vec![now])).unwrap().build(&token).unwrap();
            authorizer.authorize()
        };
        run().unwrap_or_else(|error| panic!("{name}: {error}"));
        group.bench_function(name, |b| b.iter(|| black_box(run())));
    }
    group.finish();
}

// --- scaling ----------------------------------------------------------------------------------------

fn scaling(c: &mut Criterion) {
    let read = cases().remove(0).1;
    let mut group = c.benchmark_group("decision/grants");
    for count in [1usize, 200] {
        let mut grants = vec![grant_text("g", POLICY, "credential = \"hub/app\"\ncredentials = [\"hub/pat\"]")];
        grants.extend((1..count).map(|i| {
            grant_text(&format!("other-{i}"), POLICY, "credential = \"hub/app\"\ncredentials = [\"hub/pat\"]")
        }));
        let world = World::new(&grants, &[]);
        let program = world.compile(&world.token().facts(TASK).make()).unwrap();
        let facts = wanted(&read, &program);
        group.bench_with_input(BenchmarkId::from_parameter(count), &count, |b, _| {
            b.iter(|| decide(&program, &facts, &world.situation()));
        });
    }
    group.finish();

    let (world, token) = world();
    let mut group = c.benchmark_group("decision/tokens");
    for count in [1usize, 1_000] {
        let programs: Vec<Program> = (0..count).map(|_| world.compile(&token).unwrap()).collect();
        let facts = wanted(&read, &programs[0]);
        let mut next = 0;
        group.bench_with_input(BenchmarkId::from_parameter(count), &count, |b, _| {
            b.iter(|| {
                next = (next + 1) % programs.len();
                decide(&programs[next], &facts, &world.situation())
            });
        });
    }
    group.finish();

    let mut group = c.benchmark_group("decision/blocks");
    for count in [0usize, 5, 10, 20] {
        let mut minting = world.token().facts(TASK);
        for i in 0..count {
            minting = minting.block(&format!(
                "check if request_method($m), $m != \"X{i}\"; check if time($t), $t < 2026-12-01T00:00:00Z;"
            ));
        }
        let program = world.compile(&minting.make()).unwrap();
        let facts = wanted(&read, &program);
        group.bench_with_input(BenchmarkId::from_parameter(count), &count, |b, _| {
            b.iter(|| decide(&program, &facts, &world.situation()));
        });
    }
    group.finish();

    c.bench_function("compile/orchestra", |b| b.iter(|| world.compile(&token).unwrap()));
}

criterion_group!(benches, ours, scaling, biscuit);
criterion_main!(benches);
