//! The manifests that are shipped: they load, and GitHub's says of requests what the vectors say.

use super::super::template::FactTemplate;
use super::super::{Catalog, Injection, RefusalContext, Service};
use super::requests::{Request, show};
use crate::facts::{Body, Demand, Fact, Item, Path};
use crate::wire::{Bounds, Decoded, decode};
use crate::words::{Authority, Scheme};

#[test]
fn they_load_without_a_warning() {
    for (file, text) in Catalog::EMBEDDED.iter().chain(Catalog::EXAMPLES) {
        match Service::parse(text, file) {
            Ok(service) => assert_eq!(service.warnings(), [], "{file}"),
            Err(errors) => panic!("{errors}"),
        }
    }
}

pub(super) fn github() -> Service {
    let (file, text) = Catalog::EMBEDDED[0];
    Service::parse(text, file).unwrap()
}

/// One `[[case]]` of the vectors.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    number: usize,
    shows: String,
    request: String,
    push: Option<Vec<String>>,
    fetch: Option<String>,
    json: Option<String>,
    text: Option<String>,
    #[serde(default)]
    opaque: bool,
    #[serde(default)]
    items: Vec<Vec<String>>,
    #[serde(default)]
    shared: Vec<String>,
    #[serde(default)]
    unreadable: bool,
    #[serde(default)]
    refused: String,
}

#[derive(serde::Deserialize)]
struct Vectors {
    case: Vec<Case>,
}

#[test]
fn github_says_of_requests_what_the_vectors_say() {
    let vectors: Vectors = toml::from_str(include_str!("github-requests.toml")).unwrap();
    let service = github();
    let mut wrong = Vec::new();
    for (index, case) in vectors.case.iter().enumerate() {
        assert_eq!(case.number, index + 1, "vectors are numbered in order");
        let (expected, got) = (case.expected(), case.got(&service));
        if expected != got {
            wrong
                .push(format!("{} {}: {}\nexpected {expected}\ngot      {got}", case.number, case.shows, case.request));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

impl Case {
    fn expected(&self) -> String {
        let items: Vec<String> = self.items.iter().map(|item| item.join("; ")).collect();
        outcome(&self.refused, self.unreadable, &items, &self.shared)
    }

    fn got(&self, service: &Service) -> String {
        let mut request = Request::new(&self.request);
        let reading = match request.reading(service) {
            Ok(reading) => reading,
            Err(refused) => return outcome(refused.reason().code(), false, &[], &[]),
        };
        if self.opaque {
            request.body = Body::Opaque;
        }
        if let Some(bytes) = self.bytes() {
            let bounds = Bounds { max_nodes: service.max_body_facts(), ..Bounds::default() };
            let media = if self.json.is_some() { "application/x-www-form-urlencoded" } else { "" };
            request.body = match decode(reading.decoder().unwrap(), media, "", &bytes, true, &bounds) {
                Decoded::Ready(term) => Body::Decoded(term),
                Decoded::Failed(why) => Body::Undecodable(why),
                other => panic!("{other:?}"),
            };
        }
        let facts = request.facts(service).unwrap();
        let standard = crate::facts::STANDARD_PREDICATES;
        let shared: Vec<String> =
            facts.shared.iter().filter(|fact| !standard.contains(&&*fact.predicate)).map(show).collect();
        let items: Vec<String> = facts.items.iter().filter(|item| **item != Item::default()).map(item_text).collect();
        outcome("", matches!(facts.body, Body::Undecodable(_)), &items, &shared)
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        let pkt = |line: &str| format!("{:04x}{line}", line.len() + 4);
        let zero = "0".repeat(40);
        if let Some(commands) = &self.push {
            let mut lines = String::new();
            for (index, command) in commands.iter().enumerate() {
                let (kind, name) = command.split_once(' ').unwrap();
                let old = if kind == "create" { zero.clone() } else { "1".repeat(40) };
                let new = if kind == "delete" { zero.clone() } else { "2".repeat(40) };
                let capabilities = if index == 0 { "\0report-status" } else { "" };
                lines += &pkt(&format!("{old} {new} {name}{capabilities}"));
            }
            return Some(format!("{lines}0000").into_bytes());
        }
        if let Some(wanted) = &self.fetch {
            return Some(format!("{}0000{}", pkt(&format!("want {wanted} ofs-delta\n")), pkt("done\n")).into_bytes());
        }
        self.json.as_ref().or(self.text.as_ref()).map(|text| text.clone().into_bytes())
    }
}

fn item_text(item: &Item) -> String {
    let facts = item.facts.iter().skip(1).map(show);
    let operation = item.operation.as_deref().unwrap_or("").to_owned();
    std::iter::once(operation).chain(facts).collect::<Vec<_>>().join("; ")
}

fn outcome(refused: &str, unreadable: bool, items: &[String], shared: &[String]) -> String {
    let mut text = format!("items {items:#?} shared {shared:?}");
    if unreadable {
        text += " unreadable";
    }
    if !refused.is_empty() {
        text = format!("refused {refused}");
    }
    text
}

/// A host of the family that gets no secret serves no writes either.
#[test]
fn r90_signed_storage_never_sees_the_credential() {
    let service = github();
    for host in [
        "codeload.github.com",
        "raw.githubusercontent.com",
        "gist.githubusercontent.com",
        "objects.githubusercontent.com",
        "release-assets.githubusercontent.com",
        "media.githubusercontent.com",
        "github-cloud.githubusercontent.com",
    ] {
        let authority = Authority::parse(Scheme::Https, host).unwrap();
        assert!(service.hosts().iter().any(|claim| claim.matches(&authority)), "{host}");
        assert!(!service.may_send_secret_to(&authority), "{host}");
        for kind in ["api_key", "oauth"] {
            assert_eq!(service.injections(&authority, kind), Vec::<&Injection>::new(), "{host}");
        }
    }
    // nothing of the family is claimed by a wildcard that could grow
    assert!(service.hosts().iter().all(|claim| claim.exact_host().is_some()));
    assert!(service.credential_hosts().iter().all(|host| host.exact_host().is_some() && host.port() == 443));
}

#[test]
fn r91_each_host_of_the_family_has_its_own_rule_and_strangers_have_none() {
    let catalog = Catalog::embedded().unwrap();
    let https = |host: &str| Authority::parse(Scheme::Https, host).unwrap();
    let rule = |host: &str| {
        let service = catalog.claim(&https(host))?;
        let rules = service.injections(&https(host), "api_key");
        let [only] = rules[..] else { return None };
        let mut text = Vec::new();
        only.template().render_into(b"S", &mut text);
        Some((only.is_basic(), String::from_utf8(text).unwrap()))
    };
    let bearer = Some((false, "Bearer S".to_owned()));
    let basic = Some((true, "x-access-token:S".to_owned()));
    assert_eq!((rule("api.github.com"), rule("uploads.github.com")), (bearer.clone(), bearer));
    assert_eq!((rule("github.com"), rule("gist.github.com")), (basic.clone(), basic));
    for stranger in ["evil.test", "api.github.com.evil.test", "ghe.api.github.com", "github.io", "github.com:8443"] {
        assert!(catalog.claim(&https(stranger)).is_none(), "{stranger}");
    }
}

#[test]
fn r55_no_secret_goes_out_in_clear_text() {
    let service = github();
    let clear = Authority::parse(Scheme::Http, "api.github.com:443").unwrap();
    assert_eq!(service.injections(&clear, "api_key"), Vec::<&Injection>::new());
}

#[test]
fn every_operation_has_one_verb_and_no_word_is_lost() {
    let service = github();
    for verb in service.verbs() {
        assert!(!verb.about().is_empty() && !verb.operations().is_empty(), "{}", verb.name());
    }
    for selector in service.selectors() {
        assert!(!selector.about().is_empty(), "{}", selector.name());
    }
    let upload = FactTemplate::parse_ground("discover_service(\"git-upload-pack\")").unwrap();
    let covering = |holds: &Fact| {
        let verbs = service.verbs().iter().filter(|verb| verb.covers("discover", |fact| fact == holds));
        verbs.map(|verb| verb.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(covering(&upload), ["read"]);
    let receive = FactTemplate::parse_ground("discover_service(\"git-receive-pack\")").unwrap();
    assert_eq!(covering(&receive), ["push"]);
}

#[test]
fn clients_are_told_no_in_words_that_they_print() {
    let service = github();
    let context = RefusalContext {
        reason: "`push` is not allowed: \"no\"",
        code: "policy_denied",
        status: 403,
        request_id: "r1",
        service: "github",
    };
    let told = |line: &str| {
        let request = Request::new(line);
        let path = Path::parse(request.path).unwrap();
        let dialect = service.refusal(request.method, &request.authority, Some(&path)).unwrap();
        (dialect.media().to_string(), dialect.render(&context).unwrap())
    };
    let (media, text) = told("POST https://github.com/o/r.git/git-receive-pack");
    assert_eq!((media.as_str(), text.as_str()), ("text/plain", "`push` is not allowed: \"no\"\n"));
    let (media, text) = told("GET https://api.github.com/user");
    assert_eq!(media, "application/json; charset=utf-8");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["message"], context.reason);
    assert!(json.get("documentation_url").is_some());
    assert_eq!(told("POST https://github.com/o/r.git/info/lfs/objects/batch").0, "application/vnd.git-lfs+json");
    // a path that could not be parsed: the host still says which dialect
    let git = Authority::parse(Scheme::Https, "github.com").unwrap();
    assert_eq!(&**service.refusal("GET", &git, None).unwrap().media(), "text/plain");
}

#[test]
fn a_fetch_is_not_read_unless_a_policy_asks_what_is_wanted() {
    let service = github();
    let wants = |line: &str, predicate: Option<&str>| {
        let mut demand = Demand::nothing();
        predicate.inspect(|predicate| demand.add(predicate));
        Request::new(line).reading(&service).unwrap().wants_body(&demand)
    };
    assert!(!wants("POST https://github.com/o/r.git/git-upload-pack", None));
    assert!(wants("POST https://github.com/o/r.git/git-upload-pack", Some("wants_object")));
    assert!(wants("POST https://github.com/o/r.git/git-receive-pack", None));
    assert!(wants("POST https://api.github.com/graphql", None));
    assert!(!wants("POST https://api.github.com/repos/o/r/git/blobs", None));
    assert!(!wants("POST https://uploads.github.com/repos/o/r/releases/5/assets", Some("asset_name")));
}

#[test]
fn a_repository_that_was_made_is_remembered_as_github_spells_it() {
    let service = github();
    let request = Request::new("POST https://api.github.com/user/repos").json(r#"{"name": "my repo"}"#);
    let reading = request.reading(&service).unwrap();
    assert!(reading.wants_response());
    let answer = super::requests::term(&serde_json::json!({"name": "my-repo", "owner": {"login": "me"}}));
    let facts = service.on_success(&reading, &request.body, Some(&answer));
    assert_eq!(facts.iter().map(show).collect::<Vec<_>>(), [r#"created_repository("me", "my-repo")"#]);
    assert_eq!(service.on_success(&reading, &request.body, None), []);
}

#[test]
fn the_example_of_the_documentation_loads() {
    let page = include_str!("../../../docs/writing-a-manifest.md");
    let (_, behind) = page.split_once("```toml\n").unwrap();
    let (text, _) = behind.split_once("```").unwrap();
    let service = Service::parse(text, "weather.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(service.warnings(), []);
}
