//! Nothing that a client holds gets through to a claimed host.

use super::*;

pub(in super::super) const MANIFEST: &str = r#"
name  = "good"
about = "a service for tests"
hosts = ["api.good.test", "git.good.test", "store.good.test", "key.good.test", "bot.good.test", "plain.good.test:80", "api.good.test:80"]
[credential]
hosts = ["api.good.test", "git.good.test", "key.good.test", "bot.good.test", "plain.good.test:80", "api.good.test:80"]
strip = ["x-goog-user-project", "query:teamId"]
[[credential.inject]]
hosts = ["api.good.test", "api.good.test:80"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"
when = "oauth"
[[credential.inject]]
hosts = ["api.good.test", "api.good.test:80"]
kind = "header"
name = "X-Good-Key"
template = "{{secret}}"
when = "api_key"
[[credential.inject]]
hosts = ["git.good.test"]
kind = "basic"
template = "x-access-token:{{secret}}"
[[credential.inject]]
hosts = ["key.good.test"]
kind = "query"
name = "key"
template = "{{secret}}"
when = "api_key"
[[credential.inject]]
hosts = ["bot.good.test"]
kind = "path"
segment = 0
template = "bot{{secret}}"
[[credential.inject]]
hosts = ["plain.good.test:80"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"
cleartext = true
"#;

pub(in super::super) fn service() -> Service {
    Service::parse(MANIFEST, "good.toml").unwrap()
}

pub(in super::super) fn head(target: &str, headers: &[(&str, &str)]) -> Head {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (target.to_owned(), None),
    };
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    Head { method: Method::GET, path, query, headers: map }
}

fn at(host: &str) -> Authority {
    Authority::parse(Scheme::Https, host).unwrap()
}

fn strip(host: &str, target: &str, headers: &[(&str, &str)]) -> Stripped {
    Stripped::new(head(target, headers), &at(host), Some(&service()))
}

fn names(stripped: &Stripped) -> Vec<&str> {
    let mut names: Vec<_> = stripped.headers().keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn every_carrier_of_a_credential_is_taken_off_a_claimed_host() {
    for host in ["api.good.test", "store.good.test"] {
        for name in CARRIERS.iter().copied().chain([
            "cookie",
            "proxy-authorization",
            "proxy-connection",
            "x-kleis-token",
            "x-good-key",
            "x-goog-user-project",
            "x-forwarded-host",
            "x-forwarded-for",
            "x-forwarded",
            "impersonate-user",
            "impersonate-extra-scopes",
            "X_API_KEY",
            "x_forwarded_host",
            "x_good_key",
        ]) {
            let stripped = strip(host, "/", &[(name, "DUMMY"), ("accept", "*/*")]);
            assert_eq!(names(&stripped), ["accept"], "{name} at {host}");
        }
    }
}

#[test]
fn r51_every_copy_in_any_spelling_goes() {
    let stripped = strip(
        "api.good.test",
        "/",
        &[
            ("Authorization", "Bearer DUMMY"),
            ("authorization", "DUMMY2"),
            ("AUTHORIZATION", ""),
            ("accept", "a"),
            ("Accept", "b"),
        ],
    );
    assert_eq!(names(&stripped), ["accept"]);
    assert_eq!(stripped.headers().get_all("accept").iter().count(), 2);
}

#[test]
fn r53_what_is_meant_for_the_proxy_goes_everywhere_and_nothing_else_on_an_unclaimed_host() {
    let headers = &[
        ("proxy-authorization", "DUMMY"),
        ("x-kleis-token", "DUMMY"),
        ("authorization", "Bearer own"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "10.0.0.1"),
    ];
    let stripped = Stripped::new(head("/?access_token=own", headers), &at("evil.test"), None);
    assert_eq!(names(&stripped), ["authorization", "cookie", "x-forwarded-for"]);
    assert_eq!(stripped.query(), Some("access_token=own"));
}

#[test]
fn r144_other_fields_of_a_provider_pass() {
    let headers = &[
        ("anthropic-version", "1"),
        ("anthropic-beta", "b"),
        ("openai-organization", "o"),
        ("x-stainless-lang", "js"),
        ("authorization", "Bearer PROXYKEY"),
        ("x-api-key", "PROXYKEY"),
    ];
    let stripped = strip("api.good.test", "/", headers);
    assert_eq!(names(&stripped), ["anthropic-beta", "anthropic-version", "openai-organization", "x-stainless-lang"]);
}

#[test]
fn secret_query_keys_go_where_a_credential_is_sent_and_the_rest_stays_byte_for_byte() {
    let query = |host: &str, query: &str| strip(host, &format!("/x?{query}"), &[]).query().map(str::to_owned);
    let given = "a=%41+b&access_token=DUMMY&A=&Access%5FToken=DUMMY&&b&api_key=D";
    assert_eq!(query("api.good.test", given).as_deref(), Some("a=%41+b&A=&&b"));
    assert_eq!(query("store.good.test", given).as_deref(), Some(given), "a signed address");
    assert_eq!(query("api.good.test", "access_token=DUMMY"), None);
    assert_eq!(query("key.good.test", "k%65y=DUMMY&q=1&key=D2").as_deref(), Some("q=1"), "what an injection fills");
    assert_eq!(query("api.good.test", "teamId=DUMMY&q=1").as_deref(), Some("q=1"), "what the manifest lists");
}

#[test]
fn a_segment_that_an_injection_fills_holds_a_placeholder_while_it_is_judged() {
    assert_eq!(strip("bot.good.test", "/botDUMMY:abc/sendMessage", &[]).path(), "/botkleis/sendMessage");
    assert_eq!(strip("bot.good.test", "/file/botDUMMY/x", &[]).path(), "/file/botDUMMY/x");
    assert_eq!(strip("api.good.test", "/botDUMMY/x", &[]).path(), "/botDUMMY/x");
}

#[test]
fn keys_among_the_subprotocols_of_a_websocket_go() {
    let left = |given: &[&str]| {
        let headers: Vec<_> = given.iter().map(|value| ("sec-websocket-protocol", *value)).collect();
        let stripped = strip("api.good.test", "/", &headers);
        let values: Vec<_> = stripped.headers().get_all("sec-websocket-protocol").iter().cloned().collect();
        values.iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(left(&["realtime, openai-insecure-api-key.DUMMY, beta.v1"]), ["realtime, beta.v1"]);
    assert_eq!(left(&["realtime", "openai-insecure-api-key.DUMMY"]), ["realtime"]);
    assert!(left(&["openai-insecure-api-key.DUMMY"]).is_empty());
    assert_eq!(left(&["a,b"]), ["a,b"], "untouched otherwise");
}

#[test]
fn a_placeholder_names_the_account() {
    let account = |headers: &[(&str, &str)]| strip("api.good.test", "/", headers).account().map(str::to_owned);
    let basic = |login: &str| format!("Basic {}", STANDARD.encode(login));
    assert_eq!(account(&[("authorization", "Bearer kleis-work")]).as_deref(), Some("work"));
    assert_eq!(account(&[("authorization", "token kleis-work")]).as_deref(), Some("work"));
    assert_eq!(account(&[("x-api-key", "kleis-work")]).as_deref(), Some("work"));
    assert_eq!(account(&[("authorization", &basic("x-access-token:kleis-work"))]).as_deref(), Some("work"));
    assert_eq!(account(&[("authorization", &basic("kleis-work:"))]).as_deref(), Some("work"));
    for none in ["Bearer kleis", "Bearer DUMMY", "Basic ???", "Bearer kleis-a/b", "kleis-", ""] {
        assert_eq!(account(&[("authorization", none)]), None, "{none}");
    }
    assert_eq!(account(&[("authorization", "Bearer kleis-a"), ("x-api-key", "kleis-b")]), None, "two of them");
    assert_eq!(strip("key.good.test", "/?key=kleis-work", &[]).account(), Some("work"));
}
