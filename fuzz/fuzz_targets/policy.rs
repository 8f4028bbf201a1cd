//! Compile and decide: no panic, no hang, and never more work than the budgets allow.
//!
//! The first byte chooses: generated policies, facts and blocks (the generator of the comparison with
//! biscuit-auth), or texts as they are, separated by NUL: a grant's datalog, a block, facts.
#![no_main]

#[allow(dead_code)]
#[path = "../../src/policy/datalog/generate.rs"]
mod generate;

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use biscuit_auth::UnverifiedBiscuit;
use biscuit_auth::builder::BlockBuilder;
use kleis::facts::{Body, Fact, Item, Key, RequestFacts, Term};
use kleis::policy::{Accounts, Decision, Grant, Limits, Rulebook, Situation, compile, decide};
use kleis::service::{Catalog, Service};
use kleis::token::{Candidates, Claims, RootKeys, VerifiedToken, mint, parse_facts, verify};
use kleis::words::{Authority, GrantName, Scheme, ServiceName};
use libfuzzer_sys::fuzz_target;

const MANIFEST: &str = r#"
name = "hub"
hosts = ["hub.test"]
datalog = '''
ref_update($ref) <- body($p, $ref), $p.length() == 3, $p.get(0) == "updates", $p.get(2) == "ref";
'''
[credential]
hosts = ["hub.test"]
[[credential.inject]]
hosts = ["hub.test"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"
[[route]]
match = "GET hub.test /{owner}/{repo}"
emit = ['operation("read")', 'repository($owner, $repo)']
"#;

struct Fixed {
    catalog: Catalog,
    keys: RootKeys,
}

fn fixed() -> &'static Fixed {
    static FIXED: OnceLock<Fixed> = OnceLock::new();
    FIXED.get_or_init(|| Fixed {
        catalog: Catalog::new(vec![Service::parse(MANIFEST, "hub.toml").unwrap()]).unwrap(),
        keys: RootKeys::generate(&mut rand::thread_rng()),
    })
}

struct Texts {
    grant: String,
    claims: Vec<Fact>,
    blocks: Vec<String>,
    facts: Vec<Fact>,
}

fn texts(data: &[u8]) -> Option<Texts> {
    let (mode, rest) = data.split_first()?;
    let facts = |text: &str| parse_facts(text).unwrap_or_default();
    if mode % 2 == 0 {
        let case = generate::Choices::new(rest).case();
        let mut blocks = case.blocks.into_iter();
        let first = blocks.next().unwrap_or_default();
        let stated: String = first.lines().filter(|line| !line.contains("if ") && !line.contains("all ") && !line.contains("<-")).collect();
        return Some(Texts {
            grant: case.authorizer,
            claims: facts(&stated),
            blocks: std::iter::once(first).chain(blocks).filter(|block| !block.trim().is_empty()).collect(),
            facts: facts(&case.facts.concat()),
        });
    }
    let text = std::str::from_utf8(rest).ok()?;
    let mut parts = text.split('\0');
    Some(Texts {
        grant: parts.next()?.to_owned(),
        blocks: parts.next().filter(|block| !block.is_empty()).map(str::to_owned).into_iter().collect(),
        facts: facts(parts.next().unwrap_or_default()),
        claims: Vec::new(),
    })
}

fn token(texts: &Texts) -> Option<VerifiedToken> {
    let claims = Claims {
        candidates: Candidates::Grants(vec![GrantName::parse("g").ok()?]),
        bearer: "fuzz".to_owned(),
        issued_by: None,
        facts: texts.claims.clone(),
        expires: 2_000_000_000,
        narrowings: Vec::new(),
        checks: Vec::new(),
    };
    let mut raw = mint(&fixed().keys, &claims, &mut rand::thread_rng()).ok()?.token.as_str().to_owned();
    for block in &texts.blocks {
        let token = UnverifiedBiscuit::from(URL_SAFE_NO_PAD.decode(&raw).ok()?).ok()?;
        raw = URL_SAFE_NO_PAD.encode(token.append(BlockBuilder::new().code(block).ok()?).ok()?.to_vec().ok()?);
    }
    verify(&raw, &fixed().keys).ok()
}

fn body(data: &[u8]) -> Term {
    let update = |byte: &u8| {
        Term::Map(Arc::new([(Key::Str("ref".into()), Term::str(format!("refs/{byte}")))].into_iter().collect()))
    };
    let updates: Vec<Term> = data.iter().take(20).map(update).collect();
    Term::Map(Arc::new([(Key::Str("updates".into()), Term::Array(updates.into()))].into_iter().collect()))
}

fuzz_target!(|data: &[u8]| {
    let Some(texts) = texts(data) else { return };
    if texts.grant.contains("'''") {
        return;
    }
    let grant = format!("name = \"g\"\nservice = \"hub\"\nanonymous = true\ndatalog = '''\n{}\n'''\n", texts.grant);
    let Ok(grant) = Grant::parse(&grant, "g.toml") else { return };
    let limits = Limits { policy_fuel: 20_000, token_fuel: 5_000, ..Limits::default() };
    let Ok(rulebook) = Rulebook::compile(&fixed().catalog, vec![grant], Vec::new(), limits) else { return };
    let Some(token) = token(&texts) else { return };
    let service = ServiceName::parse("hub").unwrap();
    let Ok(program) = compile(&Arc::new(rulebook), &service, &token) else { return };
    let (shared, own) = texts.facts.split_at(texts.facts.len() / 2);
    let operation = Fact::new("operation", [Term::str("read")]);
    let item = Item { operation: Some("read".into()), facts: vec![operation] };
    let mut second = item.clone();
    second.facts.extend_from_slice(own);
    let mut facts = RequestFacts {
        authority: Authority::parse(Scheme::Https, "hub.test").unwrap(),
        service: Some(service),
        method: "GET".into(),
        path: "/o/r".into(),
        client: None,
        shared: shared.to_vec(),
        body: Body::Decoded(body(data)),
        items: vec![item, second],
    };
    for state in ["body_truncated", "body_undecodable"] {
        facts.shared.push(Fact::new(state, [Term::Bool(false)]));
    }
    let accounts = Accounts::default();
    let situation = Situation::at(1_800_000_000, &accounts);
    let once = decide(&program, &facts, &situation);
    let again = decide(&program, &facts, &situation);
    // the last step may go over; nothing after it
    let (fuel, same) = match (&once, &again) {
        (Decision::Permit(a), Decision::Permit(b)) => (a.fuel(), a.fuel() == b.fuel()),
        (Decision::Denial(a), Decision::Denial(b)) => (a.fuel, a.reason == b.reason && a.fuel == b.fuel),
        _ => (0, false),
    };
    assert!(same, "the same inputs gave two answers");
    assert!(fuel <= 25_000 + 100_000, "fuel {fuel}");
});
