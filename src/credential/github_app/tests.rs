//! The provider against an API that remembers what it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use serde_json::{Value, json};

use super::super::clock::Clock;
use super::super::exchange::{Exchange, ExchangeBounds, ExchangeError};
use super::super::live::{Declared, Source};
use super::super::seal::Seal;
use super::super::vault::Vault;
use super::*;
use crate::words::{CredentialName, Reason, ServiceName};

const NOW: u64 = 1_000_000;

type Answerer = dyn Fn(&str, &str, &Value) -> Response<Bytes> + Send + Sync;

/// An API: a function from method-and-path, claims and body to an answer.
struct Fake {
    answer: Box<Answerer>,
    asked: Mutex<Vec<String>>,
}

impl Exchange for Fake {
    fn call(
        &self,
        request: Request<Bytes>,
        _: ExchangeBounds,
    ) -> BoxFuture<'_, Result<Response<Bytes>, ExchangeError>> {
        let what = format!("{} {}", request.method(), request.uri());
        let bearer = request.headers()["authorization"].to_str().unwrap().to_owned();
        let claims = bearer.strip_prefix("Bearer ").unwrap().split('.').nth(1).unwrap().to_owned();
        let claims = String::from_utf8(URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
        let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let said = if body.is_null() { String::new() } else { format!(" {body}") };
        self.asked.lock().unwrap().push(format!("{what}{said}"));
        let answer = (self.answer)(&what, &claims, &body);
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(answer)
        })
    }
}

fn say(status: u16, body: Value) -> Response<Bytes> {
    Response::builder().status(status).body(Bytes::from(body.to_string())).unwrap()
}

fn fake(answer: impl Fn(&str, &str, &Value) -> Response<Bytes> + Send + Sync + 'static) -> Arc<Fake> {
    Arc::new(Fake { answer: Box::new(answer), asked: Mutex::default() })
}

/// The App is installed for the organisation `acme` (7) and the user `bob` (8).
fn usual(what: &str, _: &str, body: &Value) -> Response<Bytes> {
    let (_, path) = what.split_once("api.good.test").unwrap();
    match path {
        "/orgs/acme/installation" => say(200, json!({"id": 7, "account": {"login": "Acme"}})),
        "/users/bob/installation" => say(200, json!({"id": 8, "account": {"login": "bob"}, "suspended_at": null})),
        "/orgs/gone/installation" => say(200, json!({"id": 9, "suspended_at": "2026-01-01T00:00:00Z"})),
        "/users/old/installation" => say(200, json!({"id": 9, "account": {"login": "new"}})),
        "/orgs/moved/installation" => say(301, json!({"message": "Moved Permanently"})),
        _ if path.ends_with("/access_tokens") => {
            let token = format!("ghs_{}_{body}", path.split('/').nth(3).unwrap()).replace('"', "");
            say(201, json!({"token": token, "expires_at": "1970-01-12T14:46:40Z"}))
        }
        _ => say(404, json!({"message": "Not Found"})),
    }
}

/// Made for these tests and used nowhere else.
fn pem() -> String {
    static PEM: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let make = || {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        key.serialize_pem()
    };
    PEM.get_or_init(make).clone()
}

struct World {
    vault: Arc<Vault>,
    fake: Arc<Fake>,
    time: Arc<std::sync::atomic::AtomicU64>,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(fake: Arc<Fake>, mut settings: Value) -> World {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("app.pem"), pem()).unwrap();
        let time = Arc::new(std::sync::atomic::AtomicU64::new(NOW));
        let clock = time.clone();
        let clock = Clock::new(move || clock.load(std::sync::atomic::Ordering::Relaxed));
        let vault = Arc::new(Vault::with_clock(Seal::from_key([7; 32]), fake.clone(), clock));
        settings["app_id"] = json!(42);
        if settings.get("api").is_none() {
            settings["api"] = json!("https://api.good.test");
        }
        vault.set_declared(vec![Declared {
            name: name(),
            service: ServiceName::parse("good").unwrap(),
            provider: "github-app".to_owned(),
            kind: "oauth".into(),
            hosts: None,
            settings,
            source: Source::File(dir.path().join("app.pem")),
        }]);
        World { vault, fake, time, _dir: dir }
    }

    async fn obtain(&self, narrowing: &Narrowing) -> Result<String, (Reason, String)> {
        match self.vault.obtain(&name(), narrowing).await {
            Ok(live) => Ok(live.secret.expose_str().unwrap().to_owned()),
            Err(error) => Err((error.reason(), error.to_string())),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.fake.asked.lock().unwrap().iter().map(|what| what.replace("https://api.good.test", "")).collect()
    }

    fn at(&self, time: u64) {
        self.time.store(time, std::sync::atomic::Ordering::Relaxed);
    }
}

fn name() -> CredentialName {
    CredentialName::parse("good/app").unwrap()
}

fn narrow(owner: &str, repositories: &[&str], permissions: &[(&str, &str)]) -> Narrowing {
    Narrowing {
        repositories: (!repositories.is_empty()).then(|| repositories.iter().map(|r| (*r).into()).collect()),
        permissions: permissions.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect::<BTreeMap<_, _>>(),
        owner: (!owner.is_empty()).then(|| owner.into()),
    }
}

#[tokio::test]
async fn r131_the_statement_is_dated_back_and_short_by_any_clock() {
    for skew in [-50i64, 0, 50] {
        let server = |what: &str, claims: &str, body: &Value| {
            let claims: Value = serde_json::from_str(claims).unwrap();
            let (iat, exp) = (claims["iat"].as_u64().unwrap(), claims["exp"].as_u64().unwrap());
            if iat > NOW || exp <= NOW || exp - iat > 600 || exp > NOW + 600 || claims["iss"] != "42" {
                return say(401, json!({"message": "'Issued at' claim must be in the past"}));
            }
            usual(what, "", body)
        };
        let world = World::new(fake(server), json!({}));
        world.at(NOW.saturating_add_signed(skew));
        assert!(world.obtain(&narrow("acme", &[], &[])).await.is_ok(), "{skew}");
    }
}

#[tokio::test]
async fn r131_a_clock_that_is_far_off_is_named() {
    let server = |_: &str, _: &str, _: &Value| {
        let mut answer = say(401, json!({"message": "A JSON web token could not be decoded"}));
        answer.headers_mut().insert("date", "Mon, 12 Jan 1970 13:46:40 GMT".parse().unwrap());
        answer
    };
    let world = World::new(fake(server), json!({}));
    world.at(NOW + 400);
    let (reason, text) = world.obtain(&narrow("acme", &[], &[])).await.unwrap_err();
    assert_eq!(reason, Reason::CredentialUnavailable);
    assert!(text.contains("clock (which is 400 s ahead of the API's)"), "{text}");
}

#[tokio::test]
async fn r134_a_token_is_narrowed_and_names_are_normalised() {
    let world = World::new(fake(usual), json!({}));
    let narrowing = narrow("acme", &["a", "b"], &[("pull-requests", "read"), ("contents", "write")]);
    world.obtain(&narrowing).await.unwrap();
    assert_eq!(
        world.asked(),
        [
            "GET /orgs/acme/installation",
            r#"POST /app/installations/7/access_tokens {"permissions":{"contents":"write","pull_requests":"read"},"repositories":["a","b"]}"#,
        ]
    );
    let (_, text) = world.obtain(&narrow("acme", &[], &[("content", "read")])).await.unwrap_err();
    assert!(text.contains("`contents`"), "{text}");
}

#[tokio::test]
async fn an_empty_list_of_repositories_is_never_sent() {
    let world = World::new(fake(usual), json!({}));
    let nothing = Narrowing { repositories: Some(Vec::new()), ..narrow("acme", &[], &[]) };
    let (reason, _) = world.obtain(&nothing).await.unwrap_err();
    assert_eq!(reason, Reason::CredentialMissing);
    assert!(world.asked().is_empty());
}

#[tokio::test]
async fn r134_a_request_the_api_finds_wrong_is_not_repeated_and_its_words_reach_the_operator() {
    let server = |what: &str, _: &str, body: &Value| match what.ends_with("access_tokens") {
        true => say(422, json!({"message": "The permissions requested are not granted to this installation."})),
        false => usual(what, "", body),
    };
    let world = World::new(fake(server), json!({}));
    let narrowing = narrow("acme", &["a"], &[("contents", "write")]);
    for _ in 0..5 {
        let (reason, text) = world.obtain(&narrowing).await.unwrap_err();
        assert_eq!(reason, Reason::CredentialUnavailable);
        assert!(text.contains("not granted to this installation") && text.contains("contents"), "{text}");
    }
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test]
async fn r136_organisations_then_users_and_each_way_of_being_absent_has_its_words() {
    let world = World::new(fake(usual), json!({}));
    assert!(world.obtain(&narrow("ACME", &[], &[])).await.unwrap().starts_with("ghs_7"));
    assert!(world.obtain(&narrow("bob", &[], &[])).await.unwrap().starts_with("ghs_8"));
    for (owner, says) in [
        ("nobody", "not installed for `nobody`"),
        ("gone", "suspended"),
        ("old", "renamed to `new`"),
        ("moved", "renamed"),
        ("a/../b", "not a name"),
        ("", "names no owner"),
    ] {
        let (reason, text) = world.obtain(&narrow(owner, &[], &[])).await.unwrap_err();
        assert_eq!(reason, Reason::CredentialMissing);
        assert!(text.contains(says), "{text}");
    }
    assert!(matches!(world.vault.list()[0].state, super::super::State::Ok), "the credential itself is well");
}

#[tokio::test]
async fn r136_a_missing_installation_is_remembered_for_a_short_while() {
    let world = World::new(fake(usual), json!({}));
    for _ in 0..5 {
        world.obtain(&narrow("nobody", &["a"], &[])).await.unwrap_err();
        world.obtain(&narrow("nobody", &["b"], &[])).await.unwrap_err();
    }
    assert_eq!(world.asked(), ["GET /orgs/nobody/installation", "GET /users/nobody/installation"]);
    world.at(NOW + 31);
    world.obtain(&narrow("nobody", &["a"], &[])).await.unwrap_err();
    assert_eq!(world.asked().len(), 4);
}

#[tokio::test]
async fn r136_a_base_url_keeps_its_prefix_and_a_named_installation_is_not_looked_up() {
    let api = json!({"api": "https://api.good.test/api/v3/", "installation_id": 99});
    let world = World::new(fake(|_, _, _| say(201, json!({"token": "tok"}))), api);
    assert_eq!(world.obtain(&narrow("", &[], &[])).await.unwrap(), "tok");
    assert_eq!(world.asked(), ["POST /api/v3/app/installations/99/access_tokens {}"]);
    let mixed = World::new(fake(usual), json!({"installation_id": "99", "owner": "Home"}));
    assert!(mixed.obtain(&narrow("", &[], &[])).await.unwrap().starts_with("ghs_99"));
    assert!(mixed.obtain(&narrow("home", &[], &[])).await.unwrap().starts_with("ghs_99"));
    assert!(mixed.obtain(&narrow("acme", &[], &[])).await.unwrap().starts_with("ghs_7"));
}

#[tokio::test]
async fn r161_tokens_of_different_narrowings_are_never_mixed() {
    let world = World::new(fake(usual), json!({}));
    let wide = narrow("acme", &[], &[("contents", "write")]);
    let narrows = [
        wide.clone(),
        narrow("acme", &["a"], &[("contents", "write")]),
        narrow("acme", &["a"], &[("contents", "read")]),
        narrow("acme", &["b"], &[("contents", "read")]),
        narrow("bob", &["a"], &[("contents", "read")]),
    ];
    let mut first = Vec::new();
    for narrowing in &narrows {
        first.push(world.obtain(narrowing).await.unwrap());
    }
    let distinct: std::collections::BTreeSet<_> = first.iter().collect();
    assert_eq!(distinct.len(), narrows.len());
    for _ in 0..100 {
        for (narrowing, expected) in narrows.iter().zip(&first) {
            assert_eq!(world.obtain(narrowing).await.unwrap(), *expected);
        }
    }
    let minted = world.asked().iter().filter(|what| what.starts_with("POST")).count();
    assert_eq!(minted, narrows.len());
}

#[tokio::test]
async fn a_token_is_replaced_ten_minutes_before_it_ends_and_asked_for_once() {
    let world = World::new(fake(usual), json!({}));
    let narrowing = narrow("acme", &[], &[]);
    let all: Vec<_> = (0..50)
        .map(|_| {
            let (vault, narrowing) = (world.vault.clone(), narrowing.clone());
            tokio::spawn(async move { vault.obtain(&name(), &narrowing).await.unwrap().serial })
        })
        .collect();
    let mut serials = std::collections::BTreeSet::new();
    for one in all {
        serials.insert(one.await.unwrap());
    }
    assert_eq!((serials.len(), world.asked().len()), (1, 2));
    world.at(NOW + 2999);
    world.obtain(&narrowing).await.unwrap();
    assert_eq!(world.asked().len(), 2);
    world.at(NOW + 3000);
    world.obtain(&narrowing).await.unwrap();
    while world.asked().len() < 3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn trouble_is_told_without_the_statement_that_was_sent() {
    for (status, reason, says) in [
        (500, Reason::CredentialUnavailable, "the API answers 500"),
        (403, Reason::CredentialUnavailable, "refuses the App"),
        (401, Reason::CredentialUnavailable, "check `app_id`"),
    ] {
        let world = World::new(fake(move |_, claims, _| say(status, json!({"message": claims}))), json!({}));
        let (got, text) = world.obtain(&narrow("acme", &[], &[])).await.unwrap_err();
        assert!(got == reason && text.contains(says), "{text}");
    }
    let world = World::new(
        fake(|_, _, _| {
            let mut answer = say(403, json!({"message": "You have exceeded a secondary rate limit"}));
            answer.headers_mut().insert("retry-after", "60".parse().unwrap());
            answer
        }),
        json!({}),
    );
    let error = world.vault.obtain(&name(), &narrow("acme", &[], &[])).await.unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(60)));
    assert!(matches!(error.failure, Failure::Provider(_)));
}

#[tokio::test]
async fn r132_a_token_that_was_just_minted_is_tried_again_and_an_older_one_replaced_once() {
    use super::super::bind::{Bound, bind};
    use super::super::strip::{Stripped, tests::head, tests::service};
    use crate::policy::{CredentialChoice, Permit};
    use crate::words::{Authority, Scheme};

    // Each token differs from the one before it.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = move |what: &str, _: &str, body: &Value| match what.ends_with("access_tokens") {
        true => {
            let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            say(201, json!({"token": format!("ghs_{count}"), "expires_at": "1970-01-12T14:46:40Z"}))
        }
        false => usual(what, "", body),
    };
    let world = World::new(fake(server), json!({}));
    let (service, api) = (Arc::new(service()), Authority::parse(Scheme::Https, "api.good.test").unwrap());
    let fresh = async || -> Bound {
        let credential = CredentialChoice::Named(name());
        let permit =
            Permit::in_test(api.clone(), Some(service.name().clone()), credential, narrow("acme", &["a"], &[]));
        let stripped = Stripped::new(head("/x", &[]), &api, Some(&service));
        bind(permit, stripped, Some(&service), &world.vault).await.unwrap()
    };
    let sent = |bound: &mut Bound| {
        let (_, parts) = bound.take_request().unwrap();
        parts.headers["authorization"].to_str().unwrap().to_owned()
    };
    let wait = |bound: &Bound, status: u16| {
        bound.retry_after(StatusCode::from_u16(status).unwrap(), &world.vault).map(|wait| wait.as_millis())
    };

    let mut bound = fresh().await;
    for expected in [300, 1500] {
        assert_eq!(sent(&mut bound), "Bearer ghs_0");
        assert_eq!((wait(&bound, 200), wait(&bound, 404)), (None, None));
        assert_eq!(wait(&bound, 401), Some(expected));
        bound = bound.rebind(&world.vault).await.unwrap().unwrap();
    }
    assert_eq!(sent(&mut bound), "Bearer ghs_0");
    assert_eq!(wait(&bound, 401), None, "a permanent 401 is passed on");
    let refused = fresh().await;
    assert_eq!(wait(&refused, 403), Some(300));
    assert_eq!(wait(&refused.rebind(&world.vault).await.unwrap().unwrap(), 403), None);

    world.at(NOW + 60);
    let older = fresh().await;
    assert_eq!((wait(&older, 403), wait(&older, 401)), (None, Some(0)));
    let mut other = older.rebind(&world.vault).await.unwrap().unwrap();
    assert_eq!(sent(&mut other), "Bearer ghs_1");
    assert_eq!(wait(&other, 401), Some(1500), "new as it is, it may not be known everywhere yet");
}

#[test]
fn wrong_settings_say_what_would_be_right() {
    for (given, says) in [
        (json!({}), "app_id"),
        (json!({"app_id": "a b"}), "the App's id"),
        (json!({"app_id": 1, "installation_id": "x"}), "a number"),
        (json!({"app_id": 1, "owner": "a/b"}), "an organisation or a user"),
        (json!({"app_id": 1, "api": "http://api.good.test"}), "`https://`"),
        (json!({"app_id": 1, "api": "https://u@api.good.test"}), "`https://`"),
        (json!({"app_id": 1, "key": "x"}), "key"),
    ] {
        let error = GithubApp::parse(&given).err().unwrap();
        assert!(error.contains(says), "{error}");
    }
    assert!(GithubApp::check_material(&Secret::new("junk")).unwrap_err().to_string().contains("PEM"));
    assert!(GithubApp::check_material(&Secret::new(pem())).is_ok());
}
