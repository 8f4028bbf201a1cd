//! Every way in which a manifest can be wrong: refused, with the place and what would be accepted.

use super::super::{Catalog, Service};

const HEAD: &str = "name = 's'\nhosts = ['api.good.test', 'git.good.test:8443', '*.wild.test']\n";

/// What is said of a manifest that begins with [`HEAD`].
fn wrong(rest: &str) -> String {
    match Service::parse(&format!("{HEAD}{rest}"), "s.toml") {
        Ok(_) => "nothing".to_owned(),
        Err(errors) => errors.to_string(),
    }
}

/// Asserts that each manifest is refused with a text that has the words in it.
fn all_wrong(cases: &[(&str, &str)]) {
    for (rest, words) in cases {
        let said = wrong(rest);
        assert!(said.contains(words), "{rest}\nsays   {said}\nwanted {words}");
    }
}

fn warnings(rest: &str) -> String {
    let service = Service::parse(&format!("{HEAD}{rest}"), "s.toml").unwrap_or_else(|errors| panic!("{errors}"));
    service.warnings().iter().map(|one| format!("{one}\n")).collect()
}

fn inject(hosts: &str, rest: &str) -> String {
    format!("[credential]\nhosts = [{hosts}]\n[[credential.inject]]\n{rest}")
}

#[test]
fn unknown_keys_name_the_line_and_the_nearest_key() {
    all_wrong(&[
        ("hsots = []", "s.toml:3:1: unknown key `hsots`: did you mean `hosts`?"),
        ("[credential]\nprovidr = 'x'", "s.toml:4:1: unknown key `credential.providr`: did you mean `provider`?"),
        ("[[route]]\nmatch = 'GET * /'\nemmit = []", "did you mean `emit`?"),
        ("[[route]]\nmatch = 'GET * /'\n[verbs.read]\noperation = []", "did you mean `operations`?"),
        ("[setup]\nenvs = {}", "did you mean `env`?"),
        ("[refusal]\nmedium = 'text/plain'", "unknown key `refusal.medium`"),
    ]);
}

#[test]
fn all_errors_of_a_file_come_at_once_in_its_order() {
    let said =
        wrong("resources = [3]\n[[route]]\nmatch = 'GET'\n[[route]]\nmatch = 'GET * /'\nemit = ['grant(\"x\")']");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(
        lines[0].starts_with("s.toml:3:") && lines[1].starts_with("s.toml:5:") && lines[2].starts_with("s.toml:8:")
    );
}

#[test]
fn names_and_hosts_are_checked() {
    let alone = |text: &str| Service::parse(text, "s.toml").unwrap_err().to_string();
    assert!(alone("hosts = []").contains("`name` is missing"));
    assert!(alone("name = 's'").contains("`hosts` is missing"));
    assert!(alone("name = 'a b'\nhosts = []").contains("is not a name for a service"));
    assert!(alone("name = 's'\nhosts = ['https://a.test']").contains("is not a host"));
    assert!(alone("name = 's'\nhosts = ['*']").contains("every host there is"));
    assert!(alone("name = 's'\nhosts = ['a.test', 'A.test']").contains("stands twice"));
    assert!(Service::parse("name = 's'\nhosts = []", "s.toml").is_ok());
    all_wrong(&[
        ("modes = []", "`modes` is empty"),
        ("modes = ['transparent']", "use one of `rewrite`, `connect`"),
        ("max_body_facts = -1", "use a number from 0"),
        ("max_decode_prefix = 'much'", "is not a size"),
        ("body_paths = ['a..b']", "is not a body path"),
        ("resources = ['repository(1)']", "is not the name of a predicate"),
        ("method_override = ['x-method']", "is not a method override"),
        ("ignore_case = 'true'", "true or false, without quotes"),
    ]);
}

#[test]
fn invariant_7_a_manifest_cannot_escalate() {
    all_wrong(&[
        ("datalog = 'check if true;'", "a manifest has no checks"),
        ("datalog = 'reject if true;'", "a manifest has no checks"),
        ("datalog = 'allow if true;'", "a manifest has no policies"),
        ("datalog = 'deny if true;'", "a manifest has no policies"),
        ("datalog = 'use_credential(\"a/b\");'", "`use_credential` belongs to the token"),
        ("datalog = 'grant(\"x\") <- request_method(\"GET\");'", "`grant` belongs to the token"),
        ("datalog = 'spec(\"x\");'", "`spec` belongs to the token"),
        ("datalog = 'bearer(\"x\");'", "`bearer` belongs to the token"),
        ("datalog = 'issuer(\"x\");'", "`issuer` belongs to the token"),
        ("datalog = 'issued_by(\"x\");'", "`issued_by` belongs to the token"),
        ("datalog = 'body_undecodable(false);'", "is written by the proxy"),
        ("datalog = 'time(2020-01-01T00:00:00Z);'", "is written by the proxy"),
        ("datalog = 'request_method(\"GET\");'", "is written by the proxy"),
        ("datalog = 'x(1) <- y($a), $a.extern::allows();'", "`allows` is for checks of tokens only"),
        ("[[route]]\nmatch = 'GET * /'\nemit = ['use_credential(\"a/b\")']", "belongs to the token"),
        ("[[route]]\nmatch = 'GET * /'\nemit = ['service(\"other\")']", "is written by the proxy"),
        ("[[route]]\nmatch = 'GET * /'\non_success = ['grant(\"x\")']", "belongs to the token"),
    ]);
    let said = wrong("datalog = '''\nfine(1);\n  allow if true;\n'''");
    assert_eq!(said, "s.toml:5:3: a manifest has no policies: they belong to grants");
}

#[test]
fn routes_are_checked() {
    let route = |text: &str| format!("[[route]]\n{text}");
    for (rest, words) in [
        ("emit = []", "`match` is missing in `route[0]`"),
        ("match = 'GET /x'", "a match is methods, a host and a path"),
        ("match = 'get * /x'", "`get` is not a method"),
        ("match = 'GET|GET * /x'", "stands twice"),
        ("match = 'GET * x'", "it begins with `/`"),
        ("match = 'GET * /a//b'", "no empty segment"),
        ("match = 'GET * /a/../b'", "no request has it"),
        ("match = 'GET * /{a}/{a}'", "`{a}` stands twice"),
        ("match = 'GET * /{rest*}/x'", "nothing follows a `{rest*}`"),
        ("match = 'GET * /x{rest*}'", "stands for whole segments"),
        ("match = 'GET * /{a'", "without its `}`"),
        ("match = 'GET * /{a}{b}'", "two captures"),
        ("match = 'GET * /{a:float}'", "is not a kind of capture: use `int` or `date`"),
        ("match = 'GET * /{a b}'", "a match is methods"),
        ("match = 'GET * /{1}'", "is not a name for a capture"),
        ("match = 'GET * /a*'", "can't stand in it"),
        ("match = 'GET * /%zz'", "broken percent escape"),
        ("match = 'GET evil.test /x'", "is for a host that `hosts` does not have"),
        ("match = 'GET api.good.test:8443 /x'", "is for a host that `hosts` does not have"),
        ("match = 'GET wild.test /x'", "is for a host that `hosts` does not have"),
        ("match = 'GET * /{id}'\nemit = ['x($ids)']", "`$ids` is not a capture: did you mean `$id`?"),
        ("match = 'GET * /'\nemit = ['x($id)']", "`$id` is not a capture: there is none here"),
        ("match = 'GET * /'\nemit = ['x(1), y(2)']", "is not a fact"),
        ("match = 'GET * /'\nemit = ['x(1) or y(2)']", "is not a fact"),
        ("match = 'GET * /'\nemit = ['x(1) trusting previous']", "is not a fact"),
        ("match = 'GET * /'\nemit = ['x({id})']", "is not a term"),
        ("match = 'GET * /{id}'\nemit = ['x([$id])']", "is not a fact"),
        ("match = 'GET * /'\nemit = ['true']", "is not a fact"),
        ("match = 'GET * /'\nemit = ['operation(\"a\", \"b\")']", "an operation is `operation(\"name\")`"),
        ("match = 'GET * /{id}'\ncapture = { id = 'query:id' }", "`id` is captured twice"),
        ("match = 'GET * /'\ncapture = { id = 'cookie:id' }", "is not a source"),
        ("match = 'GET * /'\ncapture = { id = 'header:a b' }", "is not a source"),
        ("match = 'GET * /'\ncapture = { id = 'body:a..b' }", "is not a path into a body"),
        ("match = 'GET * /'\ncapture = { id = 'lower:other' }", "is not a capture that stands before this one"),
        ("match = 'GET * /'\ncapture = { id = 'text:a{b' }", "without its `}`"),
        ("match = 'GET * /'\ncapture = { id = 'count:query:x' }", "counts nothing"),
        ("match = 'GET * /'\ncapture = { id = 'each:x' }", "the route needs an `each`"),
        ("match = 'GET * /'\neach = 'query:x'", "is not a list"),
        ("match = 'GET * /'\neach = 'body:*.x'", "a `*` stands between two keys"),
        ("match = 'GET * /'\ncapture = { id = 'response:x' }\nemit = ['x($id)']", "only `on_success` can use it"),
        ("match = 'GET * /'\nwhere = { id = 1 }", "is not a capture of this route"),
        ("match = 'GET * /{id}'\nwhere = { ids = 1 }", "did you mean `id`?"),
        ("match = 'GET * /{id}'\nwhere = { id = [[1]] }", "is not a value to compare with"),
        ("match = 'GET * /'\nencoded_slash = 'yes'", "use one of `data`"),
        ("match = 'GET * /{id}'\nencoded_slash = ['ids']", "is not a capture of this route's path"),
        ("match = 'GET * /'\nfallback = 1", "true or false"),
    ] {
        let said = wrong(&route(rest));
        assert!(said.contains(words), "{rest}\nsays   {said}\nwanted {words}");
    }
}

#[test]
fn decoders_are_checked() {
    all_wrong(&[
        ("[[decoder]]\nmedia = ['application/json']", "`decoder` is missing"),
        ("[[decoder]]\ndecoder = 'xml'", "`xml` is not a decoder"),
        ("[[decoder]]\ndecoder = 'json'\nmedia = ['json']", "is not a media type"),
        ("[[decoder]]\ndecoder = 'json'\nmedia = ['application/json; charset=utf-8']", "no parameters"),
        ("[[decoder]]\ndecoder = 'json'\nmatch = 'POST evil.test /'", "is for a host"),
    ]);
}

#[test]
fn r62_routing_and_identity_fields_are_never_set_by_a_rule() {
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "CONNECTION",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Proxy-Authorization",
        "proxy-connection",
        "X-Kleis-Token",
        "X-Forwarded-For",
        "Forwarded",
        "Via",
        "Expect",
    ] {
        let rule = format!("kind = 'header'\nname = '{name}'\ntemplate = '{{{{secret}}}}'");
        let said = wrong(&inject("'api.good.test'", &rule));
        assert!(said.contains("can't be set by a manifest"), "{name}: {said}");
    }
    all_wrong(&[("[credential]\nstrip = ['host']", "can't be stripped")]);
}

#[test]
fn r57_two_rules_for_one_place_are_an_error_and_an_exact_host_beats_a_wildcard() {
    let two = |first: &str, second: &str| {
        format!(
            "[credential]\nhosts = ['api.good.test', '*.wild.test']\n\
             [[credential.inject]]\n{first}\ntemplate = 'a{{{{secret}}}}'\n\
             [[credential.inject]]\n{second}\ntemplate = 'b{{{{secret}}}}'"
        )
    };
    let header = "kind = 'header'\nname = 'Authorization'\nhosts = ['api.good.test']";
    for (first, second) in [
        (header, header),
        (header, "kind = 'basic'\nhosts = ['api.good.test']"),
        (header, "kind = 'header'\nname = 'authorization'"),
        (header, "kind = 'header'\nname = 'authorization'\nhosts = ['api.good.test']\nwhen = 'oauth'"),
        ("kind = 'query'\nname = 'key'", "kind = 'query'\nname = 'key'"),
        ("kind = 'path'\nsegment = 0", "kind = 'path'\nsegment = 0"),
    ] {
        let said = wrong(&two(first, second));
        assert!(said.contains("two injections fill"), "{first} / {second}: {said}");
    }
    let fine = [
        (format!("{header}\nwhen = 'api_key'"), format!("{header}\nwhen = 'oauth'")),
        (header.to_owned(), "kind = 'header'\nname = 'X-Key'\nhosts = ['api.good.test']".to_owned()),
        (
            "kind = 'header'\nname = 'a'\nhosts = ['*.wild.test']".to_owned(),
            "kind = 'header'\nname = 'a'\nhosts = ['x.wild.test']".to_owned(),
        ),
    ];
    for (first, second) in fine {
        assert_eq!(wrong(&two(&first, &second)), "nothing");
    }
}

#[test]
fn injections_are_checked() {
    let api = "'api.good.test'";
    for (rest, words) in [
        ("kind = 'header'\nname = 'a'", "`template` is missing"),
        ("name = 'a'\ntemplate = '{{secret}}'", "`kind` is missing"),
        ("kind = 'cookie'\ntemplate = '{{secret}}'", "use one of `header`, `query`, `basic`, `path`"),
        ("kind = 'header'\ntemplate = '{{secret}}'", "`name` is missing"),
        ("kind = 'header'\nname = 'a b'\ntemplate = '{{secret}}'", "is not a header's name"),
        ("kind = 'basic'\nname = 'a'\ntemplate = 'u:{{secret}}'", "means nothing for kind `basic`"),
        ("kind = 'header'\nname = 'a'\nsegment = 1\ntemplate = '{{secret}}'", "means nothing for kind `header`"),
        ("kind = 'path'\ntemplate = '{{secret}}'", "`segment` is missing"),
        ("kind = 'path'\nsegment = 0\ntemplate = 'fixed'", "has `{{secret}}` in it"),
        ("kind = 'header'\nname = 'a'\ntemplate = '{{token}}'", "it has `{{secret}}`"),
        ("kind = 'header'\nname = 'a'\ntemplate = '{{secret'", "without its `}}`"),
        ("kind = 'header'\nname = 'a'\ntemplate = ''", "the template is empty"),
        ("kind = 'header'\nname = 'a'\ntemplate = \"a\\nb{{secret}}\"", "visible ASCII"),
        ("kind = 'header'\nname = 'a'\ntemplate = '{{secret}}'\nwhen = 'pat'", "use one of `api_key`, `oauth`"),
        ("kind = 'header'\nname = 'a'\ntemplate = '{{secret}}'\nhosts = ['evil.test']", "a secret may not go there"),
        ("kind = 'header'\nname = 'a'\ntemplate = '{{secret}}'\nhosts = ['*.good.test']", "a secret may not go there"),
    ] {
        let said = wrong(&inject(api, rest));
        assert!(said.contains(words), "{rest}\nsays   {said}\nwanted {words}");
    }
    all_wrong(&[
        ("[credential]\nhosts = ['*']", "every host there is"),
        ("[credential]\nkeep_cookies = true\nstrip = ['Cookie']", "kept by `keep_cookies`"),
        ("[credential]\nstrip = ['query:']", "names no key"),
        ("[credential]\nstrip = ['a b']", "is not a header"),
    ]);
}

#[test]
fn r16_clear_text_is_a_boolean_and_warns() {
    let rule = "kind = 'header'\nname = 'a'\ntemplate = '{{secret}}'\n";
    let said = wrong(&inject("'api.good.test'", &format!("{rule}cleartext = 'true'")));
    assert!(said.contains("true or false, without quotes"), "{said}");
    let warned = warnings(&inject("'api.good.test'", &format!("{rule}cleartext = true")));
    assert!(warned.contains("clear text"), "{warned}");
    assert_eq!(warnings(&inject("'api.good.test'", rule)), "");
    let elsewhere = warnings("[credential]\nhosts = ['evil.test']");
    assert!(elsewhere.contains("nothing is sent there"), "{elsewhere}");
}

#[test]
fn each_operation_has_one_verb() {
    let route = "[[route]]\nmatch = 'GET * /{id}'\nemit = ['operation(\"get\")', 'thing($id)']\n";
    let with = |rest: &str| format!("{route}{rest}");
    for (rest, words) in [
        ("[verbs.a]\noperations = ['get']\n[verbs.b]\noperations = ['get']", "`get` belongs to `a` already"),
        ("[verbs.a]\noperations = ['get', 'get']", "`get` belongs to `a` already"),
        ("[verbs.a]\noperations = ['get', { operation = 'get', with = 'thing(1)' }]", "`get` belongs to `a` already"),
        ("[verbs.a]\noperations = [{ operation = 'get', with = 'thing($x)' }]", "`$x` is not a capture"),
        ("[verbs.a]\noperations = [{ operation = 'get' }]", "`with` is missing"),
        ("[verbs.a]\nabout = 'x'", "`operations` is missing"),
        ("[verbs.except]\noperations = ['get']", "is a word of the grammar"),
        ("[verbs.'a b']\noperations = ['get']", "is not a word for an allow line"),
        ("[selectors.is]\npredicate = 'thing'", "is a word of the grammar"),
        ("[selectors.x]\nabout = 'a'", "`predicate` is missing"),
        ("[selectors.x]\npredicate = 'thing'\noperations = ['got']", "did you mean `get`?"),
        ("[selectors.x]\npredicate = 'thing'\nignore_case = 1", "true or false"),
    ] {
        let said = wrong(&with(rest));
        assert!(said.contains(words), "{rest}\nsays   {said}\nwanted {words}");
    }
    let two = "[verbs.a]\noperations = [{ operation = 'get', with = 'thing(\"1\")' }]\n\
               [verbs.b]\noperations = [{ operation = 'get', with = 'thing(\"2\")' }]";
    assert_eq!(wrong(&with(two)), "nothing");
    let warned = warnings(&with("[verbs.a]\noperations = ['put']\n[selectors.x]\npredicate = 'thin'"));
    assert!(warned.contains("no route emits the operation `put`"), "{warned}");
    assert!(
        warned.contains("no verb has the operation `get`") && warned.contains("nothing gives the predicate `thin`")
    );
}

#[test]
fn setups_are_checked() {
    all_wrong(&[
        ("[setup.env]\nHTTPS_PROXY = 'x'", "the proxy is set by kleis"),
        ("[setup.env]\nhttps_proxy = 'x'", "the proxy is set by kleis"),
        ("[setup.env]\nLD_PRELOAD = 'x'", "it runs code"),
        ("[setup.env]\n'A B' = 'x'", "letters, digits"),
        ("[setup.env]\nA = \"x\\ny\"", "no control characters"),
        ("[setup.env]\nA = '{{ token }}'", "`token` is not known in this template"),
        ("[[setup.file]]\ncontent = ''", "`path` is missing"),
        ("[[setup.file]]\npath = '../x'\ncontent = ''", "no `.`, `..`"),
        ("[[setup.file]]\npath = '/etc/x'\ncontent = ''", "relative to the home"),
        ("[[setup.file]]\npath = '.bashrc'\ncontent = ''", "obeys what stands there"),
        ("[[setup.file]]\npath = 'x'\nmode = '0666'\ncontent = ''", "is not a mode"),
        ("[[setup.file]]\npath = 'x'\nmode = 384\ncontent = ''", "is a whole number: use a string"),
        ("[[setup.file]]\npath = 'x'\ncontent = '{{ secret }}'", "`secret` is not known"),
        ("[[setup.file]]\npath = 'x'\ncontent = '{% if %}'", "template, line 1"),
        ("[[setup.file]]\npath = 'x'\ncontent = ''\n[[setup.file]]\npath = 'x'\ncontent = ''", "`x` is written twice"),
        ("[setup]\nno_proxy = ['api.good.test']", "past the proxy"),
        ("[setup]\nno_proxy = ['good.test']", "past the proxy"),
        ("[setup]\nno_proxy = ['.good.test']", "past the proxy"),
        ("[setup]\nno_proxy = ['*.GOOD.test']", "past the proxy"),
        ("[setup]\nno_proxy = ['test']", "past the proxy"),
        ("[setup]\nno_proxy = ['git.good.test:443']", "past the proxy"),
        ("[setup]\nno_proxy = ['x.wild.test']", "past the proxy"),
        ("[setup]\nno_proxy = ['*']", "takes everything past the proxy"),
        ("[setup]\nno_proxy = ['']", "is not a host"),
        ("[setup]\nno_proxy = ['a.test,api.good.test']", "one name"),
        ("[card]\ntext = '{{ password }}'", "it has `service`, `account`, `config`, `facts`"),
    ]);
    assert_eq!(wrong("[setup]\nno_proxy = ['metadata.internal', 'notgood.test', '10.0.0.0/8']"), "nothing");
}

#[test]
fn refusals_are_tried_when_they_are_loaded() {
    all_wrong(&[
        ("[refusal]\ntemplate = 'x'", "`media` is missing"),
        ("[refusal]\nmedia = 'json'\ntemplate = 'x'", "is not a media type"),
        (
            "[refusal]\nmedia = 'application/json'\ntemplate = '{\"message\": \"{{ reason }}\"}'",
            "does not make JSON of every text",
        ),
        ("[refusal]\nmedia = 'text/plain'\ntemplate = '{{ token }}'", "`token` is not known"),
        (
            "[refusal]\nmedia = 'text/plain'\ntemplate = '{% for x in range(10000) %}{% for y in range(10000) %}{% endfor %}{% endfor %}'",
            "fuel",
        ),
        ("[[refusal.variant]]\nmatch = 'GET evil.test /'\nmedia = 'text/plain'\ntemplate = 'x'", "is for a host"),
    ]);
}

#[test]
fn invariant_13_one_service_for_each_host_and_port() {
    let service = |name: &str, hosts: &str, rest: &str| {
        Service::parse(&format!("name = '{name}'\nhosts = [{hosts}]\n{rest}"), &format!("{name}.toml")).unwrap()
    };
    let clash = |a: &str, b: &str| {
        Catalog::new(vec![service("a", a, ""), service("b", b, "")]).map(|_| ()).map_err(|errors| errors.to_string())
    };
    assert_eq!(
        clash("'x.test'", "'X.test:443'"),
        Err("b.toml: `x.test` is claimed by `b` and by `a` (`a.toml`): one service for each host and port".to_owned())
    );
    assert!(clash("'*.x.test'", "'*.x.test'").is_err());
    assert_eq!(clash("'x.test'", "'x.test:8443'"), Ok(()));
    assert_eq!(clash("'*.x.test'", "'y.x.test'"), Ok(()));
    let twice = Catalog::new(vec![service("a", "'x.test'", ""), service("a", "'y.test'", "")]).unwrap_err();
    assert!(twice.to_string().contains("the service `a` is also described in"), "{twice}");
    let bypass = Catalog::new(vec![service("a", "'x.test'", ""), service("b", "", "[setup]\nno_proxy = ['x.test']")]);
    assert!(bypass.unwrap_err().to_string().contains("`setup.no_proxy`: `x.test` would take the claimed host"));
    let taken = Catalog::with_embedded(vec![service("mine", "'api.github.com'", "")]).unwrap_err().to_string();
    assert!(taken.contains("a file with the name of a shipped service replaces it"), "{taken}");
    let off = Catalog::with_embedded(vec![service("github", "", ""), service("mine", "'api.github.com'", "")]).unwrap();
    assert_eq!(off.iter().count(), 2);
}
