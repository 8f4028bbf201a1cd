//! What holds for every text and every request.

use proptest::prelude::*;

use super::super::{RoutePattern, Service, forbidden_path, forbidden_variable};
use super::requests::Request;
use crate::facts::{Path, Query};

/// Pieces of manifests, so that a random text is often nearly right.
fn fragment() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "[[route]]\n",
        "match = 'GET a.test /{x}/{y%.git}/{rest*}'\n",
        "match = '* a.test /{n:int}'\n",
        "emit = ['operation(\"o\")', 'p($x, $y)']\n",
        "emit = ['operation($x)']\n",
        "each = 'body:a.*.b'\n",
        "capture = { l = 'lower:x', e = 'each:', b = 'body:c' }\n",
        "where = { x = ['a', 'b'] }\n",
        "encoded_slash = 'data'\n",
        "fallback = true\n",
        "[credential]\nhosts = ['a.test']\n",
        "[[credential.inject]]\nkind = 'header'\nname = 'a'\ntemplate = 'x{{secret}}'\n",
        "[verbs.v]\noperations = ['o']\n",
        "[selectors.s]\npredicate = 'p'\n",
        "datalog = 'q($a) <- p($a, $b);'\n",
        "[refusal]\nmedia = 'text/plain'\ntemplate = '{{ reason }}'\n",
        "[setup.env]\nA = 'b'\n",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[ -~\n]{0,20}", 1 => any::<String>()]
}

proptest! {
    #[test]
    fn no_manifest_panics_and_errors_have_a_place(pieces in prop::collection::vec(fragment(), 0..12)) {
        let text = format!("name = 's'\nhosts = ['a.test']\n{}", pieces.concat());
        match Service::parse(&text, "s.toml") {
            Ok(service) => {
                for line in ["GET https://a.test/1/r.git/x/y", "POST https://a.test/7", "GET https://a.test/a/b/"] {
                    let request = Request::new(line).json(r#"{"a": [{"b": [1, "x"]}], "c": null}"#);
                    if let Ok(facts) = request.facts(&service) {
                        prop_assert!(!facts.items.is_empty());
                    }
                }
            }
            Err(errors) => prop_assert!(errors.0.iter().all(|error| error.line.is_some() && !error.message.is_empty())),
        }
    }

    #[test]
    fn no_pattern_panics(text in "[A-Z|* ]{1,6} [a-z.*:0-9]{1,12} /[a-z{}/*+:%.0-9 ]{0,30}") {
        let _ = RoutePattern::parse(&text);
    }

    #[test]
    fn no_name_panics(text in any::<String>()) {
        let _ = (forbidden_path(&text), forbidden_variable(&text), RoutePattern::parse(&text));
    }

    /// The index finds what trying each pattern finds.
    #[test]
    fn the_index_agrees_with_the_patterns(
        patterns in prop::collection::vec("/([abAB]|\\{x\\}|\\{n:int\\}|a\\{y\\})(/([ab]|\\{z%b\\}|1))?(/([ab]|\\{w%b\\}))?(/\\{rest[*+]\\})?", 1..12),
        path in "/([abAB1]|ab|7)(/([ab1]|bb|abb)){0,3}/?",
        lenient: bool,
    ) {
        let routes: String =
            patterns.iter().map(|p| format!("[[route]]\nmatch = 'GET a.test {p}'\nemit = ['operation(\"{}\")']\n", p.replace(['{', '}'], "_"))).collect();
        let text = format!("name = 's'\nhosts = ['a.test']\nignore_case = {lenient}\nignore_trailing_slash = {lenient}\n{routes}");
        let service = Service::parse(&text, "s.toml").unwrap();
        let line = format!("GET https://a.test{path}");
        let request = Request::new(&line);
        let parsed = Path::parse(&path).unwrap();
        let reading = service.reading(&request.view(), &parsed, &Query::default()).unwrap();
        let found: Vec<usize> = reading.matched.iter().map(|one| one.route).collect();
        let tried: Vec<usize> = patterns.iter().enumerate()
            .filter(|(_, p)| RoutePattern::parse(&format!("GET a.test {p}")).unwrap().matches("GET", &request.authority, &parsed, service.taste))
            .map(|(index, _)| index)
            .collect();
        prop_assert_eq!(found, tried);
    }

    /// A capture's text comes out as it went in, whatever it is.
    #[test]
    fn captured_text_is_the_segment(owner in "[^/\\\\;\\x00-\\x1f\\x7f-\\u{9f}]{1,12}") {
        prop_assume!(owner != "." && owner != "..");
        let encoded: String = owner.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/{encoded}");
        prop_assume!(Path::parse(&path).is_ok());
        let service = Service::parse(
            "name = 's'\nhosts = ['a.test']\n[[route]]\nmatch = 'GET a.test /{owner}'\nemit = ['operation($owner)']",
            "s.toml",
        ).unwrap();
        let line = format!("GET https://a.test{path}");
        let facts = Request::new(&line).facts(&service).unwrap();
        prop_assert_eq!(facts.items[0].operation.as_deref(), Some(owner.as_str()));
    }
}

#[test]
fn every_variable_of_the_list_of_dangers_is_forbidden() {
    let listed = include_str!("forbidden-variables.txt");
    let names: Vec<&str> =
        listed.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect();
    assert!(names.len() > 150);
    for name in names {
        assert!(forbidden_variable(name).is_some(), "{name}");
        assert!(forbidden_variable(&name.to_ascii_lowercase()).is_some(), "{name} in lower case");
    }
    for fine in [
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GIT_HTTP_PROXY_AUTHMETHOD",
        "GIT_TERMINAL_PROMPT",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "CODEX_API_KEY",
        "GEMINI_API_KEY",
        "HF_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_EC2_METADATA_DISABLED",
        "CLOUDSDK_AUTH_ACCESS_TOKEN",
        "GH_PROMPT_DISABLED",
        "SLACK_BOT_TOKEN",
        "LINEAR_API_KEY",
        "STRIPE_API_KEY",
        "TELEGRAM_BOT_TOKEN",
        "NODE_USE_ENV_PROXY",
        "ZULIP_API_KEY",
        "SENTRY_AUTH_TOKEN",
    ] {
        assert_eq!(forbidden_variable(fine), None, "{fine}");
    }
}

#[test]
fn setup_files_stay_below_home_and_start_nothing() {
    for wrong in [
        "",
        "/etc/passwd",
        "~/x",
        "../x",
        "a/../b",
        "a/./b",
        "a//b",
        "a/",
        "./a",
        "a\\b",
        "a\nb",
        "$HOME/x",
        ".BASHRC",
        ".ssh/config",
        ".config/fish/config.fish",
        ".config/git/config",
        ".gitconfig",
        ".local/bin/git",
        "a*b",
    ] {
        assert!(forbidden_path(wrong).is_some(), "{wrong}");
    }
    for fine in [".config/gh/hosts.yml", ".netrc", ".zuliprc", "notes/a b.md", ".config/himalaya/config.toml"] {
        assert_eq!(forbidden_path(fine), None, "{fine}");
    }
}
