//! A service, its grants and specs, tokens and requests: for tests of what the policy decides.

#![allow(dead_code, reason = "each test file uses a part")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use biscuit_auth::UnverifiedBiscuit;
use biscuit_auth::builder::BlockBuilder;
use kleis::facts::{Body, Fact, Item, RequestFacts};
use kleis::policy::{
    Accounts, Decision, Denial, Grant, Limits, Permit, Program, Rulebook, Situation, Spec, compile,
    compile_passthrough, decide,
};
use kleis::service::{Catalog, Service};
use kleis::token::{Candidates, Claims, RootKeys, VerifiedToken, mint, mint_issuer, parse_check, parse_facts, verify};
use kleis::words::{Authority, CredentialName, FileErrors, GrantName, IssuerName, Scheme, ServiceName, SpecName};

/// 2026-06-01T00:00:00Z
pub const NOW: u64 = 1_780_272_000;

/// A forge: repositories, pushes, labels.
pub const HUB: &str = r#"
name = "hub"
hosts = ["hub.test"]
resources = ["repository", "new_repository", "organization"]
datalog = '''
ref_update($ref) <- body($p, $ref), $p.length() == 3, $p.get(0) == "updates", $p.get(2) == "ref";
label_added($l) <- operation("add_labels"), body($p, $l), $p.length() == 2, $p.get(0) == "labels";
'''
[credential]
hosts = ["hub.test"]
[[credential.inject]]
hosts = ["hub.test"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"

[[route]]
match = "POST hub.test /{owner}/{repo}/push"
emit = ['operation("push")', 'repository($owner, $repo)']
[[route]]
match = "GET hub.test /{owner}/{repo}"
emit = ['operation("read")', 'repository($owner, $repo)']
[[route]]
match = "POST hub.test /{owner}/{repo}/labels"
emit = ['operation("add_labels")', 'repository($owner, $repo)']
[[route]]
match = "DELETE hub.test /{owner}/{repo}"
emit = ['operation("delete")', 'repository($owner, $repo)']

[verbs.read]
about = "read"
operations = ["read"]
[verbs.push]
about = "push"
operations = ["push"]
[verbs.label]
about = "label"
operations = ["add_labels"]
[verbs.delete]
about = "delete"
operations = ["delete"]

[selectors.repo]
about = "repository"
predicate = "repository"
ignore_case = true
[selectors.ref]
about = "ref"
predicate = "ref_update"
operations = ["push"]
"#;

/// Another one, about which no grant speaks.
pub const POST: &str = r#"
name = "post"
hosts = ["post.test"]
[credential]
hosts = ["post.test"]
[[credential.inject]]
hosts = ["post.test"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"
[[route]]
match = "GET post.test /{box}"
emit = ['operation("read_mail")', 'mailbox($box)']
[verbs.read]
about = "read"
operations = ["read_mail"]
[selectors.box]
about = "mailbox"
predicate = "mailbox"
"#;

pub fn catalog() -> Catalog {
    Catalog::new(vec![Service::parse(HUB, "hub.toml").unwrap(), Service::parse(POST, "post.toml").unwrap()]).unwrap()
}

/// A grant for the hub with this datalog and these further lines.
pub fn grant_text(name: &str, datalog: &str, more: &str) -> String {
    let credential =
        if more.contains("credential") || more.contains("anonymous") { "" } else { "credential = \"hub/app\"\n" };
    format!("name = \"{name}\"\nservice = \"hub\"\n{credential}datalog = '''\n{datalog}\n'''\n{more}\n")
}

pub fn rulebook_with(grants: &[String], specs: &[(&str, &str)], limits: Limits) -> Result<Rulebook, FileErrors> {
    let grants = grants
        .iter()
        .enumerate()
        .map(|(index, text)| Grant::parse(text, &format!("grant-{index}.toml")))
        .collect::<Result<Vec<_>, _>>()?;
    let specs = specs
        .iter()
        .map(|(name, text)| Spec::parse(SpecName::parse(name).unwrap(), text, &format!("{name}.spec")))
        .collect::<Result<Vec<_>, _>>()?;
    Rulebook::compile(&catalog(), grants, specs, limits)
}

/// Policy, keys and credentials.
pub struct World {
    pub rulebook: Arc<Rulebook>,
    pub keys: RootKeys,
    pub accounts: Accounts,
    pub account: Option<&'static str>,
    pub now: u64,
}

pub fn accounts(names: &[(&str, &str)]) -> Accounts {
    Accounts::new(
        names
            .iter()
            .map(|(service, name)| (ServiceName::parse(service).unwrap(), CredentialName::parse(name).unwrap())),
    )
}

impl World {
    pub fn new(grants: &[String], specs: &[(&str, &str)]) -> World {
        World::with_limits(grants, specs, Limits::default())
    }

    pub fn with_limits(grants: &[String], specs: &[(&str, &str)], limits: Limits) -> World {
        World {
            rulebook: Arc::new(rulebook_with(grants, specs, limits).unwrap()),
            keys: RootKeys::generate(&mut rand::thread_rng()),
            accounts: accounts(&[("hub", "hub/app"), ("post", "post/main")]),
            account: None,
            now: NOW,
        }
    }

    /// One grant named `g` with this datalog.
    pub fn of(datalog: &str) -> World {
        World::new(&[grant_text("g", datalog, "")], &[])
    }

    pub fn token(&self) -> Minting<'_> {
        Minting {
            world: self,
            claims: Claims {
                candidates: Candidates::Grants(vec![GrantName::parse("g").unwrap()]),
                bearer: "test:1".to_owned(),
                issued_by: None,
                facts: Vec::new(),
                expires: NOW + 3600,
                narrowings: Vec::new(),
                checks: Vec::new(),
            },
            blocks: Vec::new(),
        }
    }

    pub fn issuer(&self) -> VerifiedToken {
        let issuer = IssuerName::parse("factory").unwrap();
        let minted = mint_issuer(&self.keys, &issuer, NOW + 3600, &mut rand::thread_rng()).unwrap();
        verify(minted.token.as_str(), &self.keys).unwrap()
    }

    pub fn compile(&self, token: &VerifiedToken) -> Result<Program, Denial> {
        compile(&self.rulebook, &ServiceName::parse("hub").unwrap(), token)
    }

    pub fn situation(&self) -> Situation<'_> {
        Situation { now: self.now, accounts: &self.accounts, account: self.account }
    }

    pub fn decide(&self, token: &VerifiedToken, ask: &Ask) -> Decision {
        match self.compile(token) {
            Ok(program) => decide(&program, &ask.facts(), &self.situation()),
            Err(denial) => Decision::Denial(denial),
        }
    }

    pub fn pass(&self, token: &VerifiedToken, ask: &Ask) -> Decision {
        match compile_passthrough(&self.rulebook, token) {
            Ok(program) => decide(&program, &ask.facts(), &self.situation()),
            Err(denial) => Decision::Denial(denial),
        }
    }

    #[track_caller]
    pub fn permit(&self, token: &VerifiedToken, ask: &Ask) -> Permit {
        match self.decide(token, ask) {
            Decision::Permit(permit) => permit,
            other => panic!("expected a permit, got {other:#?}"),
        }
    }

    #[track_caller]
    pub fn denial(&self, token: &VerifiedToken, ask: &Ask) -> Denial {
        match self.decide(token, ask) {
            Decision::Denial(denial) => denial,
            other => panic!("expected a denial, got {other:#?}"),
        }
    }
}

/// A token in the making.
pub struct Minting<'w> {
    world: &'w World,
    claims: Claims,
    blocks: Vec<String>,
}

impl Minting<'_> {
    pub fn grants(mut self, names: &[&str]) -> Self {
        self.claims.candidates = Candidates::Grants(names.iter().map(|name| GrantName::parse(name).unwrap()).collect());
        self
    }

    pub fn spec(mut self, name: &str) -> Self {
        self.claims.candidates = Candidates::Spec(SpecName::parse(name).unwrap());
        self
    }

    pub fn facts(mut self, text: &str) -> Self {
        self.claims.facts.extend(parse_facts(text).unwrap());
        self
    }

    pub fn check(mut self, text: &str) -> Self {
        self.claims.checks.push(parse_check(text).unwrap());
        self
    }

    pub fn narrow(mut self, line: &str) -> Self {
        self.claims.narrowings.push(line.to_owned());
        self
    }

    pub fn expires(mut self, at: u64) -> Self {
        self.claims.expires = at;
        self
    }

    /// A block of any datalog, as anybody can append it.
    pub fn block(mut self, code: &str) -> Self {
        self.blocks.push(code.to_owned());
        self
    }

    pub fn make(self) -> VerifiedToken {
        let keys = &self.world.keys;
        verify(&self.raw(), keys).unwrap()
    }

    /// As its bearer holds it.
    pub fn raw(self) -> String {
        let minted = mint(&self.world.keys, &self.claims, &mut rand::thread_rng()).unwrap();
        let mut raw = minted.token.as_str().to_owned();
        for block in &self.blocks {
            let bytes = URL_SAFE_NO_PAD.decode(&raw).unwrap();
            let token = UnverifiedBiscuit::from(bytes).unwrap();
            let token = token.append(BlockBuilder::new().code(block).unwrap()).unwrap();
            raw = URL_SAFE_NO_PAD.encode(token.to_vec().unwrap());
        }
        raw
    }
}

/// A request, by its facts.
#[derive(Clone)]
pub struct Ask {
    pub facts: RequestFacts,
}

pub fn fact_list(text: &str) -> Vec<Fact> {
    if text.is_empty() {
        return Vec::new();
    }
    parse_facts(text).unwrap()
}

impl Ask {
    /// One item: an operation on `o/r`.
    pub fn to(operation: &str) -> Ask {
        Ask::items(&[&format!("operation(\"{operation}\"); repository(\"o\", \"r\");")])
    }

    /// Items by their facts.
    pub fn items(items: &[&str]) -> Ask {
        let item = |text: &&str| {
            let facts = fact_list(text);
            let operation = facts
                .iter()
                .find(|fact| &*fact.predicate == "operation")
                .and_then(|fact| fact.terms.first().and_then(|term| term.as_str()).map(Arc::from));
            Item { operation, facts }
        };
        Ask {
            facts: RequestFacts {
                authority: Authority::parse(Scheme::Https, "hub.test").unwrap(),
                service: Some(ServiceName::parse("hub").unwrap()),
                method: "POST".into(),
                path: "/o/r".into(),
                client: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                shared: fact_list(
                    "body_present(false); body_truncated(false); body_opaque(false); body_undecodable(false);",
                ),
                body: Body::Absent,
                items: items.iter().map(item).collect(),
            },
        }
    }

    pub fn with(mut self, facts: &str) -> Ask {
        self.facts.shared.extend(fact_list(facts));
        self
    }

    /// With a body, written as a datalog term.
    pub fn body(mut self, term: &str) -> Ask {
        let fact = fact_list(&format!("x({term});")).remove(0);
        self.facts.body = Body::Decoded(fact.terms.into_iter().next().unwrap());
        self
    }

    /// To a host that no service claims.
    pub fn elsewhere() -> Ask {
        let mut ask = Ask::items(&[""]);
        ask.facts.service = None;
        ask.facts.authority = Authority::parse(Scheme::Https, "example.test").unwrap();
        ask
    }

    pub fn facts(&self) -> RequestFacts {
        self.facts.clone()
    }
}
