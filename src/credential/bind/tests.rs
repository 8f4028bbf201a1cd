//! What a permit turns into.

use http::HeaderMap;

use super::super::exchange::nobody;
use super::super::live::{Declared, Source};
use super::super::seal::{Label, Seal};
use super::super::strip::tests::{head, service};
use super::*;
use crate::policy::Narrowing;
use crate::store::{CredentialRecord, CredentialState};
use crate::words::{HostPattern, Secret, ServiceName};

fn name(text: &str) -> CredentialName {
    CredentialName::parse(text).unwrap()
}

fn at(scheme: Scheme, host: &str) -> Authority {
    Authority::parse(scheme, host).unwrap()
}

struct World {
    service: Arc<Service>,
    vault: Vault,
}

/// `good/key` holds GOOD, of kind `api_key`; `good/login` holds LOGIN, `oauth`; both sealed for the
/// manifest's hosts. `good/narrow` is sealed for git only, `other/key` belongs to another service.
fn world() -> World {
    let service = Arc::new(service());
    let vault = Vault::new(Seal::from_key([7; 32]), Arc::new(nobody()));
    let manifest = service.credential_hosts().to_vec();
    vault.set_installed(vec![
        record("good/key", "good", "api_key", manifest.clone(), "GOOD"),
        record("good/login", "good", "oauth", manifest.clone(), "LOGIN"),
        record("good/odd", "good", "pat", manifest.clone(), "ODD"),
        record("good/umlaut", "good", "api_key", manifest.clone(), "gööd"),
        record("good/narrow", "good", "api_key", vec![HostPattern::parse("git.good.test").unwrap()], "GOOD"),
        record("other/key", "other", "api_key", manifest, "OTHER"),
    ]);
    World { service, vault }
}

fn record(called: &str, service: &str, kind: &str, hosts: Vec<HostPattern>, secret: &str) -> CredentialRecord {
    let mut record = CredentialRecord {
        name: name(called),
        service: ServiceName::parse(service).unwrap(),
        provider: "static".to_owned(),
        kind: kind.to_owned(),
        hosts,
        settings: "{}".to_owned(),
        generation: 5,
        seal_key_id: String::new(),
        sealed: Vec::new(),
        source: None,
        state: CredentialState::Ready,
        created: 0,
        updated: 0,
    };
    let sealed = Seal::from_key([7; 32]).seal(&Label::from(&record), &Secret::new(secret)).unwrap();
    (record.seal_key_id, record.sealed) = (sealed.key_id.to_string(), sealed.blob);
    record
}

fn permit(authority: &Authority, credential: Option<&str>) -> Permit {
    let choice = credential.map_or(CredentialChoice::Anonymous, |called| CredentialChoice::Named(name(called)));
    Permit::in_test(authority.clone(), Some(ServiceName::parse("good").unwrap()), choice, Narrowing::default())
}

impl World {
    async fn bind(&self, called: Option<&str>, authority: &Authority, head: Head) -> Result<Bound, BindError> {
        let stripped = Stripped::new(head, authority, Some(&self.service));
        bind(permit(authority, called), stripped, Some(&self.service), &self.vault).await
    }

    async fn sent(&self, called: &str, host: &str, head: Head) -> (String, HeaderMap) {
        let mut bound = self.bind(Some(called), &at(Scheme::Https, host), head).await.unwrap();
        let (key, parts) = bound.take_request().unwrap();
        assert_eq!(key.authority, at(Scheme::Https, host));
        assert!(bound.take_request().is_none(), "once");
        (parts.uri.to_string(), parts.headers)
    }

    async fn refused(&self, called: &str, authority: &Authority) -> BindError {
        self.bind(Some(called), authority, head("/", &[])).await.unwrap_err()
    }
}

fn all<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test]
async fn r51_the_upstream_gets_exactly_one_field_with_the_real_value() {
    let copies = [
        ("Authorization", "Bearer DUMMY"),
        ("AUTHORIZATION", "\tDUMMY"),
        ("authorization", ""),
        ("x-good-key", "DUMMY"),
        ("X-GOOD-KEY", "DUMMY"),
        ("accept", "*/*"),
    ];
    let (_, headers) = world().sent("good/key", "api.good.test", head("/", &copies)).await;
    assert_eq!(all(&headers, "x-good-key"), ["GOOD"]);
    assert!(headers["x-good-key"].is_sensitive() && !format!("{headers:?}").contains("GOOD"));
    assert!(!headers.contains_key("authorization"));
    assert_eq!(all(&headers, "accept"), ["*/*"]);
}

#[tokio::test]
async fn a_kind_picks_its_own_injection() {
    let (_, headers) = world().sent("good/login", "api.good.test", head("/", &[("x-good-key", "DUMMY")])).await;
    assert_eq!(all(&headers, "authorization"), ["Bearer LOGIN"]);
    assert!(!headers.contains_key("x-good-key"));
    let refused = world().refused("good/odd", &at(Scheme::Https, "api.good.test")).await;
    assert!(matches!(refused, BindError::NoPlace { .. }) && refused.reason() == Reason::CredentialMissing);
}

#[tokio::test]
async fn r55_basic_for_git_and_bearer_for_the_api_whatever_the_client_sends() {
    for client in ["Basic eC1hY2Nlc3MtdG9rZW46RFVNTVk=", "Bearer DUMMY"] {
        let own = [("authorization", client)];
        let (_, git) = world().sent("good/login", "git.good.test", head("/o/r.git/info/refs?service=x", &own)).await;
        assert_eq!(all(&git, "authorization"), ["Basic eC1hY2Nlc3MtdG9rZW46TE9HSU4="]);
        let (_, api) = world().sent("good/login", "api.good.test", head("/", &own)).await;
        assert_eq!(all(&api, "authorization"), ["Bearer LOGIN"]);
    }
}

#[tokio::test]
async fn a_secret_in_the_query_replaces_what_the_client_had_there() {
    let world = world();
    let (uri, _) = world.sent("good/key", "key.good.test", head("/x?q=1&key=DUMMY&k%65y=DUMMY", &[])).await;
    assert_eq!(uri, "/x?q=1&key=GOOD");
    assert_eq!(world.sent("good/key", "key.good.test", head("/x", &[])).await.0, "/x?key=GOOD");
    assert_eq!(world.sent("good/umlaut", "key.good.test", head("/x", &[])).await.0, "/x?key=g%C3%B6%C3%B6d");
}

#[tokio::test]
async fn a_secret_in_the_path_replaces_its_segment_and_no_other() {
    let world = world();
    let (uri, _) = world.sent("good/key", "bot.good.test", head("/botDUMMY/sendMessage?a=b", &[])).await;
    assert_eq!(uri, "/botGOOD/sendMessage?a=b");
    let (uri, _) = world.sent("good/key", "bot.good.test", head("/file/x", &[])).await;
    assert_eq!(uri, "/file/x", "no such place: no secret");
}

#[tokio::test]
async fn what_was_judged_is_what_is_sent() {
    let own = [("accept", "a"), ("x-custom", "b"), ("accept", "c")];
    let (uri, headers) = world().sent("good/key", "api.good.test", head("/a%2Fb/./x?q=%zz&q=2", &own)).await;
    assert_eq!(uri, "/a%2Fb/./x?q=%zz&q=2");
    assert_eq!((all(&headers, "accept"), all(&headers, "x-custom")), (vec!["a", "c"], vec!["b"]));
}

#[tokio::test]
async fn a_claimed_host_without_a_credential_is_reached_without_one() {
    let world = world();
    let store = at(Scheme::Https, "store.good.test");
    let mut bound = world.bind(Some("good/key"), &store, head("/signed?X-Amz-Signature=s", &[])).await.unwrap();
    assert!(bound.spent().is_none());
    let (key, parts) = bound.take_request().unwrap();
    assert_eq!(key.partition, Partition::anonymous());
    assert!(parts.headers.is_empty() && parts.uri == "/signed?X-Amz-Signature=s");
}

#[tokio::test]
async fn an_anonymous_permit_strips_and_spends_nothing() {
    let api = at(Scheme::Https, "api.good.test");
    let mut bound = world().bind(None, &api, head("/", &[("authorization", "Bearer DUMMY")])).await.unwrap();
    assert!(bound.spent().is_none() && bound.take_request().unwrap().1.headers.is_empty());
}

#[tokio::test]
async fn invariant_2_a_credential_goes_only_where_it_was_sealed_for() {
    let world = world();
    assert!(world.bind(Some("good/narrow"), &at(Scheme::Https, "git.good.test"), head("/", &[])).await.is_ok());
    let refused = world.refused("good/narrow", &at(Scheme::Https, "api.good.test")).await;
    assert!(matches!(refused, BindError::NotSealedFor { .. }), "{refused}");
    let refused = world.refused("other/key", &at(Scheme::Https, "api.good.test")).await;
    assert!(matches!(refused, BindError::OtherService { .. }), "{refused}");
}

#[tokio::test]
async fn r16_no_secret_in_clear_text_unless_the_manifest_says_so() {
    let world = world();
    for host in ["api.good.test", "api.good.test:443"] {
        let refused = world.refused("good/key", &at(Scheme::Http, host)).await;
        assert_eq!(refused.reason(), Reason::CleartextCredential, "{refused}");
    }
    let plain = at(Scheme::Http, "plain.good.test");
    assert!(world.bind(Some("good/key"), &plain, head("/", &[])).await.unwrap().spent().is_some());
    assert!(!format!("{:?}", world.vault).contains("GOOD"));
}

#[tokio::test]
async fn r59_a_secret_outside_ascii_is_sent_only_where_it_can_be_written() {
    let world = world();
    let refused = world.refused("good/umlaut", &at(Scheme::Https, "api.good.test")).await;
    assert!(refused.reason() == Reason::CredentialUnavailable && !refused.to_string().contains("gööd"), "{refused}");
    let (_, git) = world.sent("good/umlaut", "git.good.test", head("/", &[])).await;
    assert!(all(&git, "authorization")[0].starts_with("Basic "));
}

#[tokio::test]
async fn invariant_1_only_the_judged_request_can_be_bound() {
    let world = world();
    let (api, git) = (at(Scheme::Https, "api.good.test"), at(Scheme::Https, "git.good.test"));
    let stripped = Stripped::new(head("/", &[]), &git, Some(&world.service));
    let refused = bind(permit(&api, Some("good/key")), stripped, Some(&world.service), &world.vault).await;
    assert!(matches!(refused, Err(BindError::OtherRequest)));
    let unclaimed = Stripped::new(head("/", &[]), &api, None);
    let refused = bind(permit(&api, Some("good/key")), unclaimed, None, &world.vault).await;
    assert!(matches!(refused, Err(BindError::OtherRequest)), "as unclaimed it was not stripped");
}

#[tokio::test]
async fn the_audit_is_told_which_credential_and_generation() {
    let api = at(Scheme::Https, "api.good.test");
    let bound = world().bind(Some("good/key"), &api, head("/", &[])).await.unwrap();
    let spent = bound.spent().unwrap();
    assert_eq!((spent.name.as_str(), spent.generation), ("good/key", 5));
    assert!(!format!("{bound:?}").contains("GOOD"));
    for (host, target) in [("key.good.test", "/"), ("bot.good.test", "/botDUMMY/x")] {
        let bound = world().bind(Some("good/key"), &at(Scheme::Https, host), head(target, &[])).await.unwrap();
        assert!(bound.spent().is_some() && !format!("{bound:?}").contains("GOOD"), "{host}");
    }
}

#[tokio::test]
async fn a_refused_installed_secret_is_not_tried_again() {
    let world = world();
    let bound = world.bind(Some("good/key"), &at(Scheme::Https, "api.good.test"), head("/", &[])).await.unwrap();
    assert_eq!(bound.retry_after(StatusCode::UNAUTHORIZED, &world.vault), None);
}

#[tokio::test]
async fn a_refused_secret_from_a_command_is_replaced_once() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let script = format!("echo x >> {0}; wc -l < {0} | tr -d ' '", count.display());
    let world = world();
    world.vault.set_declared(vec![Declared {
        name: name("good/exec"),
        service: ServiceName::parse("good").unwrap(),
        provider: "exec".to_owned(),
        kind: "api_key".into(),
        hosts: None,
        settings: serde_json::json!({"command": "sh", "args": ["-c", script]}),
        source: Source::None,
    }]);
    let api = at(Scheme::Https, "api.good.test");
    let own = head("/x", &[("x-good-key", "DUMMY"), ("accept", "a")]);
    let mut bound = world.bind(Some("good/exec"), &api, own).await.unwrap();
    assert_eq!(all(&bound.take_request().unwrap().1.headers, "x-good-key"), ["1"]);
    assert_eq!(bound.retry_after(StatusCode::FORBIDDEN, &world.vault), None);
    assert_eq!(bound.retry_after(StatusCode::UNAUTHORIZED, &world.vault), Some(Duration::ZERO));
    let mut again = bound.rebind(&world.vault).await.unwrap().unwrap();
    let (_, parts) = again.take_request().unwrap();
    assert_eq!((all(&parts.headers, "x-good-key"), all(&parts.headers, "accept")), (vec!["2"], vec!["a"]));
    assert_eq!(again.retry_after(StatusCode::UNAUTHORIZED, &world.vault), None);
    let third = world.bind(Some("good/exec"), &api, head("/", &[])).await.unwrap();
    assert!(third.rebind(&world.vault).await.unwrap().is_none(), "at most one a minute");
}
