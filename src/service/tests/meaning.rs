//! What routes make of requests: captures, elements, conditions, fallbacks, items.

use super::super::{ReadingError, Service};
use super::requests::{Request, show};
use crate::facts::{Demand, MethodOverride};
use crate::words::Reason;

const HEAD: &str = "name = 's'\nhosts = ['api.good.test', 'api.good.test:8443', 'plain.good.test:80', '*.wild.test']\n";

fn service(rest: &str) -> Service {
    Service::parse(&format!("{HEAD}{rest}"), "s.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// A service with one route that emits one fact.
fn one(pattern: &str, fact: &str) -> Service {
    service(&format!("[[route]]\nmatch = '{pattern}'\nemit = ['operation(\"o\")', '{fact}']"))
}

fn items(service: &Service, line: &str) -> Vec<String> {
    Request::new(line).items(service)
}

fn shared(service: &Service, request: &Request<'_>) -> Vec<String> {
    let standard = crate::facts::STANDARD_PREDICATES;
    let facts = request.facts(service).unwrap();
    facts.shared.iter().filter(|fact| !standard.contains(&&*fact.predicate)).map(show).collect()
}

#[test]
fn a_capture_is_a_term_whatever_stands_in_it() {
    let service = one("GET api.good.test /{owner}/{rest*}", "at($owner, $rest)");
    for (path, owner, rest) in [
        ("/a%22)%20or%20admin(%22x/y", r#""a\") or admin(\"x""#, r#""y""#),
        ("/%24x/%7Bp%7D", r#""$x""#, r#""{p}""#),
        ("/a%0Ab/y", "", ""),
        ("/x/y/z", r#""x""#, r#""y/z""#),
        ("/x", r#""x""#, r#""""#),
    ] {
        if crate::facts::Path::parse(path).is_err() {
            continue;
        }
        let line = format!("GET https://api.good.test{path}");
        assert_eq!(items(&service, &line), [format!("at({owner}, {rest}); operation(\"o\")")], "{path}");
    }
}

#[test]
fn integers_and_dates_have_one_spelling() {
    let service = one("GET api.good.test /{n:int}/{d:date}", "at($n, $d)");
    assert_eq!(items(&service, "GET https://api.good.test/7/2026-11-30"), [r#"at(7, @1795996800); operation("o")"#]);
    assert_eq!(
        items(&service, "GET https://api.good.test/-7/2026-11-30T12:00:00Z"),
        [r#"at(-7, @1796040000); operation("o")"#]
    );
    for path in [
        "/07/2026-11-30",
        "/+7/2026-11-30",
        "/0x7/2026-11-30",
        "/-0/2026-11-30",
        "/7.0/2026-11-30",
        "/99999999999999999999/2026-11-30",
        "/7/2026-13-01",
        "/7/2026-1-1",
        "/7/tomorrow",
    ] {
        assert_eq!(items(&service, &format!("GET https://api.good.test{path}")), [""], "{path}");
    }
}

#[test]
fn a_suffix_is_taken_off_once_and_text_may_stand_around_a_capture() {
    let suffix = one("GET api.good.test /{repo%.git}", "at($repo)");
    for (path, repo) in [("/r", "r"), ("/r.git", "r"), ("/r.git.git", "r.git"), ("/.git", ".git")] {
        let expected = format!("at({repo:?}); operation(\"o\")");
        assert_eq!(items(&suffix, &format!("GET https://api.good.test{path}")), [expected], "{path}");
    }
    let around = one("GET api.good.test /bot{token}/{method}.json", "at($method)");
    assert_eq!(items(&around, "GET https://api.good.test/bot1:2/send.json"), [r#"at("send"); operation("o")"#]);
    for path in ["/bot/send.json", "/robot1/send.json", "/bot1/send", "/bot1/.json"] {
        assert_eq!(items(&around, &format!("GET https://api.good.test{path}")), [""], "{path}");
    }
}

#[test]
fn rest_takes_any_number_of_segments_and_plus_one_at_least() {
    let any = one("GET api.good.test /a/{rest*}", "at($rest)");
    let some = one("GET api.good.test /a/{rest+}", "at($rest)");
    for (path, in_any, in_some) in [
        ("/a", Some(""), None),
        ("/a/", Some(""), Some("")),
        ("/a/b", Some("b"), Some("b")),
        ("/a/b/c/", Some("b/c/"), Some("b/c/")),
        ("/ab", None, None),
        ("/", None, None),
    ] {
        let line = format!("GET https://api.good.test{path}");
        let shown = |rest: Option<&str>| rest.map_or(String::new(), |rest| format!("at({rest:?}); operation(\"o\")"));
        assert_eq!(items(&any, &line), [shown(in_any)], "{path}");
        assert_eq!(items(&some, &line), [shown(in_some)], "{path}");
    }
}

#[test]
fn r27_segments_are_compared_whole() {
    let service = one("GET api.good.test /repos/me/{rest*}", "at($rest)");
    for path in ["/repos/me-evil/x", "/repos/mexico", "/repos/m", "/repos", "/reposme/x", "/x/repos/me/y"] {
        assert_eq!(items(&service, &format!("GET https://api.good.test{path}")), [""], "{path}");
    }
    // an escape is the letter that it stands for
    assert_eq!(items(&service, "GET https://api.good.test/%72epos/m%65/x"), [r#"at("x"); operation("o")"#]);
}

#[test]
fn r26_a_manifest_may_say_that_case_and_a_last_slash_mean_nothing() {
    let rest = "[[route]]\nmatch = 'GET api.good.test /repos/{owner}/{area}'\ncapture = { key = 'lower:owner' }\n\
                where = { area = 'hooks' }\nemit = ['operation(\"o\")', 'owner($owner)', 'key($key)']";
    let strict = service(rest);
    let lenient = service(&format!("ignore_case = true\nignore_trailing_slash = true\n{rest}"));
    for path in ["/REPOS/Corp/hooks", "/repos/Corp/HOOKS", "/repos/Corp/hooks/", "/Repos/Corp/Hooks/"] {
        let line = format!("GET https://api.good.test{path}");
        assert_eq!(items(&strict, &line), [""], "{path}");
        assert_eq!(items(&lenient, &line), [r#"key("corp"); operation("o"); owner("Corp")"#], "{path}");
    }
}

#[test]
fn r05_r15_a_host_without_a_port_is_meant_on_every_port_that_is_claimed() {
    let service = service(
        "[[route]]\nmatch = 'POST api.good.test /x'\nemit = ['operation(\"any\")']\n\
         [[route]]\nmatch = 'POST api.good.test:8443 /x'\nemit = ['operation(\"odd\")']\n\
         [[route]]\nmatch = 'POST plain.good.test /x'\nemit = ['operation(\"plain\")']\n\
         [[route]]\nmatch = '* *.wild.test /x'\nemit = ['operation(\"wild\")']",
    );
    let said = |line: &str| items(&service, line).join(" | ");
    assert_eq!(said("POST https://api.good.test/x"), r#"operation("any")"#);
    assert_eq!(said("POST http://api.good.test:443/x"), r#"operation("any")"#);
    assert_eq!(said("POST https://api.good.test:8443/x"), r#"operation("any") | operation("odd")"#);
    assert_eq!(said("POST http://plain.good.test/x"), r#"operation("plain")"#);
    assert_eq!(said("POST https://plain.good.test:80/x"), r#"operation("plain")"#);
    assert_eq!(said("BREW https://a.b.wild.test/x"), r#"operation("wild")"#);
    assert_eq!(said("POST https://wild.test/x"), "");
}

#[test]
fn what_does_not_resolve_drops_its_fact_and_no_other() {
    let service = service(
        "[[route]]\nmatch = 'POST api.good.test /x'\n\
         capture = { q = 'query:q', h = 'header:X-H', b = 'body:a.1.b', n = 'count:body:a', m = 'method', t = 'host', p = 'path' }\n\
         emit = ['operation(\"o\")', 'q($q)', 'h($h)', 'b($b)', 'n($n)', 'here($m, $t, $p)', 'both($q, $h)']",
    );
    let here = r#"here("POST", "api.good.test", "/x")"#;
    let bare = Request::new("POST https://api.good.test/x");
    assert_eq!(bare.items(&service), [format!("{here}; operation(\"o\")")]);
    let full =
        Request::new("POST https://api.good.test/x?q=%221%22").header("x-h", "v").json(r#"{"a": [1, {"b": 2}]}"#);
    assert_eq!(
        full.items(&service),
        [format!(r#"b(2); both("\"1\"", "v"); h("v"); {here}; n(2); operation("o"); q("\"1\"")"#)]
    );
    // which of two counts is the upstream's secret
    let twice = Request::new("POST https://api.good.test/x?q=1&q=1").header("x-h", "v").header("x-h", "w");
    assert_eq!(twice.items(&service), [format!("{here}; operation(\"o\")")]);
}

#[test]
fn a_route_with_an_operation_makes_an_item_and_the_others_are_shared() {
    let service = service(
        "[[route]]\nmatch = 'POST api.good.test /{a}/{rest*}'\nemit = ['operation(\"one\")', 'a($a)']\n\
         [[route]]\nmatch = '* api.good.test /x/{b}'\nemit = ['operation(\"two\")', 'b($b)']\n\
         [[route]]\nmatch = 'POST * /x/{c}'\nemit = ['c($c)']\n\
         [[route]]\nmatch = 'POST * /x/y'\nemit = ['operation(\"two\")', 'b(\"y\")']",
    );
    let request = Request::new("POST https://api.good.test/x/y");
    // what two routes say alike is one item
    assert_eq!(request.items(&service), [r#"a("x"); operation("one")"#, r#"b("y"); operation("two")"#]);
    assert_eq!(shared(&service, &request), [r#"c("y")"#]);
    let other = Request::new("POST https://x.wild.test/x/z");
    assert_eq!(other.items(&service), [""], "never empty");
    assert_eq!(shared(&service, &other), [r#"c("z")"#]);
}

#[test]
fn each_element_is_an_item_of_its_own() {
    let service = service(
        "[[route]]\nmatch = 'POST api.good.test /x'\neach = 'body:ops.*.parts'\n\
         capture = { type = 'outer:type', name = 'each:name', top = 'body:top', pair = 'text:{type}/{name}' }\n\
         emit = ['operation(\"part\")', 'part($pair)', 'top($top)']\n\
         [[route]]\nmatch = 'POST api.good.test /x'\neach = 'body:tags'\ncapture = { tag = 'each:' }\nemit = ['tag($tag)']\n\
         [[route]]\nmatch = 'POST api.good.test /x'\ncapture = { n = 'count:body:ops' }\nwhere = { n = 0 }\n\
         emit = ['operation(\"nothing\")']",
    );
    let json = r#"{"top": 1, "tags": ["a", "b"], "ops": [
        {"type": "q", "parts": [{"name": "x"}, {"name": "y"}]}, {"type": "m", "parts": [{"name": "z"}, 5]}, 6]}"#;
    let request = Request::new("POST https://api.good.test/x").json(json);
    assert_eq!(
        request.items(&service),
        [
            r#"operation("part"); part("q/x"); top(1)"#,
            r#"operation("part"); part("q/y"); top(1)"#,
            r#"operation("part"); part("m/z"); top(1)"#,
            r#"operation("part"); top(1)"#,
        ]
    );
    assert_eq!(shared(&service, &request), [r#"tag("a")"#, r#"tag("b")"#]);
    assert_eq!(
        Request::new("POST https://api.good.test/x").json(r#"{"ops": []}"#).items(&service),
        [r#"operation("nothing")"#]
    );
    for none in ["{}", r#"{"ops": {"parts": []}}"#, "[]", "3"] {
        assert_eq!(Request::new("POST https://api.good.test/x").json(none).items(&service), [""], "{none}");
    }
}

#[test]
fn a_fallback_speaks_only_where_nobody_else_does() {
    let service = service(
        "[[route]]\nmatch = 'GET api.good.test /{area}/{rest*}'\nwhere = { area = ['keys', 'hooks'] }\nemit = ['operation(\"admin\")']\n\
         [[route]]\nmatch = 'GET api.good.test /{area}/{rest*}'\nfallback = true\nunless = { area = 'secret' }\nemit = ['operation(\"read\")']\n\
         [[route]]\nmatch = '* api.good.test /{rest*}'\nfallback = true\nemit = ['operation(\"other\")']\n\
         [[route]]\nmatch = '* api.good.test /{rest*}'\nemit = ['seen(true)']",
    );
    for (path, operation) in
        [("/keys/1", "admin"), ("/hooks", "admin"), ("/keysmith", "read"), ("/secret/1", "other"), ("/", "other")]
    {
        let line = format!("GET https://api.good.test{path}");
        assert_eq!(items(&service, &line), [format!("operation({operation:?})")], "{path}");
    }
    assert_eq!(items(&service, "POST https://api.good.test/keys/1"), [r#"operation("other")"#]);
}

#[test]
fn an_encoded_slash_is_data_only_where_every_matching_route_says_so() {
    let route = |rest: &str| {
        format!(
            "[[route]]\nmatch = 'GET api.good.test /p/{{project}}/{{rest*}}'\nemit = ['operation(\"o\")', 'at($project, $rest)']\n{rest}\n"
        )
    };
    let data = service(&route("encoded_slash = 'data'"));
    assert_eq!(
        items(&data, "GET https://api.good.test/p/group%2Fproject/x%2fy"),
        [r#"at("group/project", "x/y"); operation("o")"#]
    );
    let rest_only = service(&route("encoded_slash = ['rest']"));
    let refused = |service: &Service, line: &str| Request::new(line).reading(service).err().map(|error| error.reason());
    assert_eq!(refused(&rest_only, "GET https://api.good.test/p/g/x%2fy"), None);
    assert_eq!(refused(&rest_only, "GET https://api.good.test/p/g%2fh/x"), Some(Reason::AmbiguousPath));
    assert_eq!(refused(&service(&route("")), "GET https://api.good.test/p/g/x%2fy"), Some(Reason::AmbiguousPath));
    // also where nothing matches, and where one of two matching routes does not say so
    assert_eq!(refused(&data, "GET https://api.good.test/q/g%2fh"), Some(Reason::AmbiguousPath));
    let two = service(&format!("{}[[route]]\nmatch = '* * /{{rest*}}'", route("encoded_slash = 'data'")));
    assert_eq!(refused(&two, "GET https://api.good.test/p/g%2fh/x"), Some(Reason::AmbiguousPath));
}

#[test]
fn r97_a_method_override_is_refused_unless_the_manifest_names_it() {
    let route = "[[route]]\nmatch = 'POST api.good.test /x'\nemit = ['operation(\"post\")']";
    let (plain, naming) =
        (service(route), service(&format!("method_override = ['X-HTTP-Method', '_method']\n{route}")));
    let wrong = |service: &Service, request: &Request<'_>| request.facts(service).err();
    let overriding = |place| Some(ReadingError::MethodOverride(place));
    for name in ["x-http-method-override", "x-http-method", "x-method-override", "x_http_method"] {
        let request = Request::new("POST https://api.good.test/x").header(name, "DELETE");
        assert_eq!(wrong(&plain, &request), overriding(MethodOverride::Header), "{name}");
    }
    let query = Request::new("POST https://api.good.test/x?a=1&_method=DELETE");
    assert_eq!(wrong(&plain, &query), overriding(MethodOverride::Query));
    let form = Request::new("POST https://api.good.test/x").json(r#"{"_method": "DELETE"}"#);
    assert_eq!(wrong(&plain, &form), overriding(MethodOverride::Body));
    assert_eq!(wrong(&plain, &form).unwrap().reason(), Reason::Malformed);
    // named ones are for policy to see
    let named = Request::new("POST https://api.good.test/x").header("x-http-method", "DELETE");
    assert!(
        named.facts(&naming).unwrap().shared.iter().any(|f| show(f) == r#"request_header("x-http-method", "DELETE")"#)
    );
    assert_eq!((wrong(&naming, &query), wrong(&naming, &form)), (None, None));
    let other = Request::new("POST https://api.good.test/x").header("x-http-method-override", "DELETE");
    assert_eq!(wrong(&naming, &other), overriding(MethodOverride::Header));
}

#[test]
fn credentials_of_the_client_never_become_facts() {
    let service = service(
        "[credential]\nhosts = ['api.good.test']\nstrip = ['X-Other-Key', 'query:token']\n\
         [[credential.inject]]\nhosts = ['api.good.test']\nkind = 'header'\nname = 'X-Api-Key'\ntemplate = '{{secret}}'\n\
         [[credential.inject]]\nhosts = ['api.good.test']\nkind = 'query'\nname = 'key'\ntemplate = '{{secret}}'",
    );
    let mut request = Request::new("GET https://api.good.test/x?key=S1&token=S2&page=2");
    for name in [
        "authorization",
        "proxy-authorization",
        "proxy-connection",
        "x-kleis-token",
        "cookie",
        "x-api-key",
        "x_api_key",
        "x-other-key",
        "accept",
    ] {
        request = request.header(name, "S3");
    }
    let shown: Vec<String> = request.facts(&service).unwrap().shared.iter().map(show).collect();
    let secret: Vec<&String> =
        shown.iter().filter(|fact| fact.contains("S1") || fact.contains("S2") || fact.contains("S3")).collect();
    assert_eq!(secret, [r#"request_header("accept", "S3")"#]);
    assert!(shown.contains(&r#"request_query("page", "2")"#.to_owned()));
    // elsewhere the injected key is the upstream's own word; what the manifest lists goes everywhere
    let elsewhere = Request::new("GET https://x.wild.test/x?key=1&token=2");
    assert!(!service.strips_query(&elsewhere.authority, "key") && service.strips_query(&elsewhere.authority, "token"));
}

#[test]
fn only_what_is_demanded_is_made_and_what_the_proxy_reads_itself() {
    let service = service(
        "resources = ['thing']\n[[route]]\nmatch = 'GET api.good.test /{a}'\nemit = ['operation(\"o\")', 'thing($a)', 'wanted($a)', 'unwanted($a)']\n\
         [selectors.s]\npredicate = 'picked'\n[[route]]\nmatch = 'GET api.good.test /{a}'\nemit = ['picked($a)']",
    );
    let request = Request::new("GET https://api.good.test/x");
    let mut demand = Demand::nothing();
    demand.add("wanted");
    let (path, query) = (crate::facts::Path::parse(request.path).unwrap(), crate::facts::Query::default());
    let reading = request.reading(&service).unwrap();
    let facts = service.facts(&request.view(), &path, &query, &reading, request.body.clone(), &demand).unwrap();
    let made: Vec<String> = facts.items[0].facts.iter().chain(&facts.shared).map(show).collect();
    assert!(made.contains(&r#"wanted("x")"#.to_owned()) && made.contains(&r#"thing("x")"#.to_owned()), "{made:?}");
    assert!(made.contains(&r#"picked("x")"#.to_owned()));
    assert!(!made.iter().any(|fact| fact.starts_with("unwanted")));
}

#[test]
fn the_first_decoder_that_applies_wins() {
    let service = service(
        "[[decoder]]\nmatch = 'POST api.good.test /graphql'\ndecoder = 'graphql'\n\
         [[decoder]]\nmedia = ['application/json', 'application/*+json']\ndecoder = 'json'\n\
         [[decoder]]\nmedia = ['text/*']\ndecoder = 'none'\n\
         [[decoder]]\nmedia = ['*/*']\ndecoder = 'form'",
    );
    let decoder = |line: &str, media: Option<&str>| {
        let mut request = Request::new(line);
        if let Some(media) = media {
            request = request.header("content-type", media);
        }
        request.reading(&service).unwrap().decoder().map_or("-".to_owned(), ToString::to_string)
    };
    let post = "POST https://api.good.test/x";
    assert_eq!(decoder("POST https://api.good.test/graphql", Some("text/plain")), "graphql");
    assert_eq!(decoder(post, Some("Application/JSON; charset=utf-8")), "json");
    assert_eq!(decoder(post, Some("application/vnd.api+json")), "json");
    assert_eq!(decoder(post, Some("application/json-seq")), "form");
    assert_eq!(decoder(post, Some("text/html")), "none");
    assert_eq!(decoder(post, None), "form");
    let exec = Service::parse(&format!("{HEAD}[[decoder]]\ndecoder = 'exec:/usr/bin/x --y'"), "s").unwrap();
    assert!(exec.uses_exec());
    assert_eq!(&*exec.exec_commands()[0], "/usr/bin/x --y");
}

#[test]
fn r98_a_graphql_document_beside_another_is_ambiguous() {
    let service = service(
        "[[decoder]]\nmatch = '* api.good.test /graphql'\ndecoder = 'graphql'\n\
         [[route]]\nmatch = 'GET|POST api.good.test /graphql'\neach = 'body:$operations'\ncapture = { type = 'each:type' }\n\
         emit = ['operation(\"graphql\")', 'graphql_operation($type)']",
    );
    let query = Request::new("GET https://api.good.test/graphql?query=mutation%7Bdrop%7D");
    assert_eq!(query.items(&service), [r#"graphql_operation("mutation"); operation("graphql")"#]);
    let both = Request::new("POST https://api.good.test/graphql?query=mutation%7Bdrop%7D").json(r#"{"query": "{a}"}"#);
    let facts = both.facts(&service).unwrap();
    assert!(matches!(facts.body, crate::facts::Body::Undecodable(_)));
    assert!(facts.shared.iter().any(|fact| show(fact) == "body_undecodable(true)"));
    assert_eq!(both.items(&service), [""]);
}

#[test]
fn the_star_of_options_is_no_path() {
    let service = one("OPTIONS * /{rest*}", "at($rest)");
    let mut request = Request::new("OPTIONS https://api.good.test/x");
    request.path = "*";
    assert_eq!(request.items(&service), [""]);
}
