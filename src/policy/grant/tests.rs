//! What a grant file may say, and what is told when it is wrong.

use proptest::prelude::*;

use super::*;

const FULL: &str = r#"
name = "orchestra-github"
service = "github"
max_lifetime = "24h"
credential = "github/app"
credentials = ["github/app", "github/pat"]
narrow = { repositories = ["{repo}"], permissions = { contents = "write", pull-requests = "read" } }
narrow_unresolved = "whole"
card = '''Your fork is {{ task_fork }}.'''
datalog = '''
use_credential("github/pat") <- operation("graphql");
check if time($t);
allow if grant("orchestra-github");
'''
[[credential_route]]
resources = ["acme/*"]
credential = "github/pat-acme"
"#;

fn wrong(text: &str) -> String {
    Grant::parse(text, "g.toml").unwrap_err().to_string()
}

/// The smallest grant and more.
fn grant_with(more: &str) -> String {
    format!("name = \"g\"\nservice = \"s\"\n{more}\n")
}

#[test]
fn a_grant_with_everything_loads() {
    let grant = Grant::parse(FULL, "g.toml").unwrap();
    assert_eq!(grant.max_lifetime, Some(Duration::from_secs(86_400)));
    assert_eq!(grant.fallback, Fallback::Credential(CredentialName::parse("github/app").unwrap()));
    assert_eq!(grant.credentials().len(), 3);
    assert_eq!(grant.datalog.policies.len(), 1);
    assert_eq!(grant.datalog.rules[0].place.line, 11);
    let narrow = grant.narrow.unwrap();
    assert_eq!(narrow.unresolved, Unresolved::Whole);
    assert_eq!(narrow.repositories.unwrap()[0].fill(None, Some("site")).as_deref(), Some("site"));
    assert_eq!(grant.version.len(), 16);
}

#[test]
fn r155_a_grant_without_a_policy_loads_and_has_none() {
    for datalog in ["", "datalog = ''", "datalog = '''\n// only a comment\n'''", "datalog = 'deny if true;'"] {
        let grant = Grant::parse(&grant_with(datalog), "g.toml").unwrap();
        assert!(grant.datalog.policies.iter().all(|p| p.statement.kind == crate::token::ast::PolicyKind::Deny));
        assert_eq!(grant.fallback, Fallback::Nothing);
    }
}

#[test]
fn r134_permissions_have_one_spelling_and_no_empty_list() {
    let narrow = Grant::parse(FULL, "g.toml").unwrap().narrow.unwrap();
    let names: Vec<&str> = narrow.permissions.keys().map(AsRef::as_ref).collect();
    assert_eq!(names, ["contents", "pull_requests"]);
    for (text, part) in [
        (
            "narrow = { permissions = { pull-requests = 'read', pull_requests = 'write' } }",
            "`pull_requests` is named twice",
        ),
        ("narrow = { permissions = {} }", "`narrow.permissions` is empty"),
        ("narrow = { repositories = [] }", "`narrow.repositories` is empty"),
        ("narrow = {}", "`narrow` asks for nothing"),
        ("narrow = { permissions = { Contents = 'read' } }", "`Contents` is not a permission"),
        ("narrow = { permissions = { contents = '' } }", "is not an access"),
        ("narrow = { permissions = { contents = true } }", "`narrow.permissions.contents` is a boolean"),
        ("narrow = { repositories = ['{rep}'] }", "did you mean `{repo}`?"),
        ("narrow = { repositories = ['{repo'] }", "never closed"),
        ("narrow = { repositories = [''] }", "is not a name"),
        ("narrow = { permisions = { contents = 'read' } }", "did you mean `permissions`?"),
        ("narrow_unresolved = 'all'", "use one of `refuse`, `whole`"),
    ] {
        let told = wrong(&grant_with(text));
        assert!(told.contains(part), "{text}: {told}");
    }
}

#[test]
fn r57_credentials_are_never_chosen_in_silence() {
    let routes = "[[credential_route]]\nresources = ['acme/*']\ncredential = 's/a'\n\
                  [[credential_route]]\nresources = ['acme/site', 'acme/s*']\ncredential = 's/b'\n\
                  [[credential_route]]\nresources = ['acme/d*', 'acme/?ocs']\ncredential = 's/c'\n";
    let grant = Grant::parse(&grant_with(routes), "g.toml").unwrap();
    let choose = |resources: &[&str]| {
        let resources: Vec<String> = resources.iter().map(|r| (*r).to_owned()).collect();
        match grant.route(&resources, true) {
            RouteChoice::None => "none".to_owned(),
            RouteChoice::One(name) => name.to_string(),
            RouteChoice::Tie(a, b) => format!("{a} or {b}"),
        }
    };
    assert_eq!(choose(&["acme/site"]), "s/b");
    assert_eq!(choose(&["ACME/Site"]), "s/b");
    assert_eq!(choose(&["acme/x"]), "s/a");
    assert_eq!(choose(&["acme/site", "acme/x"]), "s/a");
    assert_eq!(choose(&["acme/site", "other/x"]), "none");
    assert_eq!(choose(&[]), "none");
    let tied = grant_with(
        "[[credential_route]]\nresources = ['a/x*']\ncredential = 's/a'\n[[credential_route]]\nresources = ['a/*x']\ncredential = 's/b'\n",
    );
    let grant = Grant::parse(&tied, "g.toml").unwrap();
    assert!(matches!(grant.route(&["a/xx".to_owned()], false), RouteChoice::Tie(..)));
    let told = wrong(&grant_with(
        "[[credential_route]]\nresources = ['a/*']\ncredential = 's/a'\n[[credential_route]]\nresources = ['a/*']\ncredential = 's/b'\n",
    ));
    assert!(told.contains("routed to `s/a` already"), "{told}");
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_what_is_accepted() {
    for (text, expected) in [
        ("anonymous = 'true'", "g.toml:3:13: `anonymous` is a string: use true or false, without quotes"),
        (
            "anonymous = true\ncredential = 's/a'",
            "g.toml:3:1: `anonymous = true` and `credential` exclude each other: keep one",
        ),
        ("credentails = ['s/a']", "g.toml:3:1: unknown key `credentails`: did you mean `credentials`?"),
        ("credentials = []", "g.toml:3:15: `credentials` is empty: name at least one, or leave it out"),
        ("credentials = 's/a'", "g.toml:3:15: `credentials` is a string: use a list in brackets"),
        ("max_lifetime = 24", "g.toml:3:16: `max_lifetime` is a whole number: use a duration in quotes, as in \"15s\""),
        (
            "max_lifetime = '24x'",
            "g.toml:3:16: `max_lifetime`: `24x` is not a duration: use a number and ms, s, m, h or d, as in `15s`",
        ),
        ("max_lifetime = '0s'", "g.toml:3:16: `max_lifetime` is less than a second: no token could have this grant"),
        ("credential_route = [{ resources = ['*'] }]", "g.toml:3:21: `credential` is missing in `credential_route[0]`"),
        (
            "datalog = '''\nallow if grant(\"g\");\nallow iff true;\n'''",
            "g.toml:5:9: datalog: `allow iff true` is no statement: use a fact",
        ),
        (
            "datalog = '''\ncheck if \"s: all\".extern::allows();\n'''",
            "g.toml:4:1: `extern::allows` belongs to checks of tokens",
        ),
        ("datalog = '''\n  allow if x(1) trusting previous;\n'''", "g.toml:4:3: `trusting` is not supported"),
        ("datalog = '''\n\nreject if x($a), $a.matches(\"(\");\n'''", "g.toml:5:1: `(` is not a regular expression"),
        (
            "credential = 's/a'\ndatalog = '''use_credential(\"s/aa\") <- x(1);'''",
            "g.toml:4:14: `s/aa` is not one of this grant's `credentials`: did you mean `s/a`?",
        ),
        ("datalog = '''use_credential(1, 2) <- x(1);'''", "`use_credential` has one term"),
        ("card = '''\nhello\n{{ x'''", "g.toml:5:1: the card is not a template"),
    ] {
        let told = wrong(&grant_with(text));
        assert!(told.contains(expected), "{text}:\n{told}");
    }
    assert_eq!(wrong("service = 's'"), "g.toml:1:1: `name` is missing");
    assert!(wrong("name = 'a b'\nservice = 's'").starts_with("g.toml:1:8: `name`: `a b` is not a name for a grant"));
}

#[test]
fn anonymous_is_a_fallback_beside_which_rules_may_choose() {
    let text = grant_with("anonymous = true\ncredentials = ['s/a']\ndatalog = 'use_credential(\"s/a\") <- x(1);'");
    assert_eq!(Grant::parse(&text, "g.toml").unwrap().fallback, Fallback::Anonymous);
    assert_eq!(Grant::parse(&grant_with("anonymous = false"), "g.toml").unwrap().fallback, Fallback::Nothing);
}

#[test]
fn the_version_is_of_the_text() {
    let version = |text: &str| Grant::parse(text, "g.toml").unwrap().version;
    assert_ne!(version(&grant_with("")), version(&grant_with("# x")));
    assert_eq!(version_of("").as_ref(), "e3b0c44298fc1c14");
}

proptest! {
    #[test]
    fn no_text_panics(cut in 0..FULL.len(), insert in "[ -~\n]{0,6}") {
        if let (Some(before), Some(after)) = (FULL.get(..cut), FULL.get(cut..)) {
            let _ = Grant::parse(&format!("{before}{insert}{after}"), "g.toml");
            let _ = Grant::parse(before, "g.toml");
        }
    }
}
