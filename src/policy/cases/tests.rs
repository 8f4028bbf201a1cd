//! Test files against the shipped GitHub manifest.

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::policy::{Grant, Limits, Rulebook, Spec};
use crate::service::Catalog;
use crate::words::{FileErrors, SpecName};
use std::sync::Arc;

const GRANT: &str = r#"
name = "fork"
service = "github"
credential = "github/app"
credentials = ["github/pat"]
datalog = '''
mine(1) <- repository($o, $r), task_fork($o, $r);
use_credential("github/pat") <- operation("open_pr");
reject if operation("push"), ref_update("refs/heads/main");
allow if mine(1), operation($op), ["discover", "fetch", "push", "push_probe", "open_pr"].contains($op);
'''
"#;

const SPEC: &str = "grant fork\nallow github/app: only read where repo is acme/*\n";

fn rulebook() -> Arc<Rulebook> {
    let catalog = Catalog::embedded().unwrap();
    let grant = Grant::parse(GRANT, "fork.toml").unwrap();
    let spec = Spec::parse(SpecName::parse("worker").unwrap(), SPEC, "worker.spec").unwrap();
    Arc::new(
        Rulebook::compile_knowing(&catalog, vec![grant], vec![spec], Limits::default(), &|name| {
            name.starts_with("task_")
        })
        .unwrap(),
    )
}

fn report(text: &str) -> Result<Report, String> {
    let file = CaseFile::parse(text, "t.toml").map_err(|errors| errors.to_string())?;
    let mut rng = StdRng::seed_from_u64(7);
    run(&file, &rulebook(), [], &|authority| authority.host().as_name() == Some("open.test"), 1_790_000_000, &mut rng)
        .map_err(|error| error.to_string())
}

fn problems(text: &str) -> Vec<String> {
    let report = report(text).unwrap_or_else(|error| panic!("{error}"));
    report
        .results
        .iter()
        .filter_map(|result| Some(format!("{}: {}", result.case.name, result.problem.as_ref()?)))
        .collect()
}

#[test]
fn a_file_of_true_expectations_passes() {
    let text = r#"
grant = "fork"
facts = ['task_fork("bot", "proj")']
cases = [
  "allow GET https://github.com/bot/proj.git/info/refs?service=git-receive-pack",
  "allow POST https://github.com/bot/proj.git/git-receive-pack push refs/heads/dev/x",
  "allow POST https://github.com/bot/proj.git/git-receive-pack push +refs/heads/new -refs/heads/old",
  "allow POST https://github.com/bot/proj.git/git-receive-pack push",
  "deny  POST https://github.com/bot/proj.git/git-receive-pack push refs/heads/dev/x refs/heads/main",
  "deny  POST https://github.com/other/proj.git/git-receive-pack push refs/heads/dev/x",
  "deny  GET https://unknown.test/",
  "deny  GET https://api.github.com/repos/bot/proj",
  'allow POST https://api.github.com/repos/bot/proj/pulls json {"title": "x", "head": "dev", "base": "main"}',
]
[[case]]
name = "a pull request goes out on the other credential"
request = "POST https://api.github.com/repos/bot/proj/pulls"
json = { title = "x", head = "dev", base = "main" }
expect = "allow"
credential = "github/pat"
[[case]]
name = "somebody else's fork, if the token says so"
request = "POST https://github.com/other/proj.git/git-receive-pack"
push = ["refs/heads/dev/x"]
facts = ['task_fork("other", "proj")']
expect = "allow"
credential = "github/app"
[[case]]
name = "a path that can be read in two ways"
request = "GET https://github.com/bot/../proj.git/info/refs"
expect = "deny"
reason = "ambiguous_path"
[[case]]
name = "a body that is no JSON"
request = "POST https://api.github.com/repos/bot/proj/pulls"
headers = { Content-Type = "application/json" }
body = "{"
expect = "deny"
[[case]]
name = "nobody claims it"
request = "GET https://unknown.test/"
expect = "deny"
reason = "host_unclaimed"
[[case]]
name = "passed through"
request = "CONNECT https://open.test"
expect = "allow"
"#;
    assert_eq!(problems(text), [""; 0]);
    assert_eq!(report(text).unwrap().passed(), 15);
}

#[test]
fn what_is_not_as_expected_says_what_came_instead() {
    let found = problems(
        r#"
grants = ["fork"]
facts = ['task_fork("bot", "proj")']
cases = [
  "deny POST https://github.com/bot/proj.git/git-receive-pack push refs/heads/x",
  "allow POST https://github.com/bot/proj.git/git-receive-pack push refs/heads/main",
]
[[case]]
name = "wrong credential"
request = "POST https://github.com/bot/proj.git/git-receive-pack"
push = ["refs/heads/x"]
expect = "allow"
credential = "github/pat"
[[case]]
name = "wrong reason"
request = "GET https://github.com/x/y.git/info/refs?service=git-upload-pack"
expect = "deny"
reason = "body_unreadable"
"#,
    );
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].ends_with("refs/heads/x: allowed, expected to be denied"), "{}", found[0]);
    assert!(found[1].contains("main: denied (`policy_denied`), expected to be allowed: "), "{}", found[1]);
    assert!(found[2].contains("wrong credential: goes out on `github/app`, expected `github/pat`"), "{}", found[2]);
    assert!(
        found[3].contains("wrong reason: denied because of `policy_denied`, expected `body_unreadable`"),
        "{}",
        found[3]
    );
}

#[test]
fn a_spec_is_tested_with_its_accounts_and_narrowings() {
    let head = "spec = 'worker'\nfacts = ['task_fork(\"bot\", \"proj\")']\n";
    let cases = "cases = [
  'allow GET https://api.github.com/repos/acme/site',
  'deny GET https://api.github.com/repos/other/site',
  'allow POST https://github.com/bot/proj.git/git-receive-pack push refs/heads/x',
]";
    assert_eq!(problems(&format!("{head}{cases}")), [""; 0]);
    let narrowed = problems(&format!("{head}narrow = ['github: only read']\n{cases}"));
    assert!(narrowed.len() == 1 && narrowed[0].contains("expected to be allowed"), "{narrowed:#?}");
}

#[test]
fn the_time_of_the_file_is_the_time_of_its_requests() {
    let report =
        report("grant = 'fork'\ntime = '2026-11-30T12:00:00Z'\ncases = ['deny GET https://api.github.com/']").unwrap();
    assert_eq!(report.failed(), 0);
    let file = CaseFile::parse("grant = 'g'\ntime = '2026-11-30T12:00:00Z'\ncases = []", "t.toml").unwrap();
    assert_eq!(file.time, Some(1_796_040_000));
}

#[test]
fn names_that_do_not_exist_are_errors_and_not_refusals() {
    for (text, expected) in [
        ("grant = 'frok'\ncases = []", "there is no grant `frok`"),
        ("spec = 'x'\ncases = []", "there is no spec `x`"),
        ("grant = 'fork'\nnarrow = ['github: only raed']\ncases = []", "did you mean `read`?"),
        ("grant = 'fork'\nfacts = ['repository(\"a\", \"b\")']\ncases = []", "no token states `repository`"),
    ] {
        let told = report(text).unwrap_err();
        assert!(told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let case = "grant = 'g'\n[[case]]\nrequest = 'GET https://a.test/'\nexpect = 'deny'\n";
    for (text, expected) in [
        ("cases = []", "name what is tested in one of `grant`, `grants` and `spec`"),
        ("grant = 'g'\nspec = 's'\ncases = []", "name what is tested in one of"),
        ("grant = 'g'", "there is no case"),
        ("grant = 'g'\ncases = ['refuse GET https://a.test/']", "t.toml:2:10: `cases[0]`: `refuse` begins no case"),
        ("grant = 'g'\ncases = ['deny get https://a.test/']", "`get` is not a method"),
        ("grant = 'g'\ncases = ['deny GET a.test']", "`a.test` is not a URL: use `https://host/path`"),
        ("grant = 'g'\ncases = ['deny GET https://a_b:x/']", "the port must be a number"),
        ("grant = 'g'\ncases = ['deny GET https://a.test/ puhs x']", "did you mean `push`?"),
        ("grant = 'g'\ncases = ['deny GET https://a.test/ json {']", "what follows `json` is not JSON"),
        ("grant = 'g'\ncases = ['deny GET https://a.test/ push main']", "`main` is not a ref"),
        ("grant = 'g'\ntime = 'noon'\ncases = []", "`noon` is not a time"),
        ("grant = 'g'\nnarrow = ['mail']\ncases = []", "`narrow[0]`: use a service, a colon"),
        ("grant = 'g'\nfacts = ['x(']\ncases = []", "`facts[0]`: "),
        (&format!("{case}reason = 'policy_deny'"), "did you mean `policy_denied`?"),
        (&format!("{case}credential = 'a/b'"), "what is denied spends no `credential`"),
        (&format!("{case}json = {{}}\nbody = 'x'"), "a request has one body"),
        (&format!("{case}headers = {{ 'a b' = 'x' }}"), "`a b` is not a header"),
        (&format!("{case}client = 'x'"), "`x` is not an address"),
        (&format!("{case}expct = 'x'"), "did you mean `expect`?"),
    ] {
        let told = CaseFile::parse(text, "t.toml").map_err(|errors: FileErrors| errors.to_string()).unwrap_err();
        assert!(told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn a_described_url_is_what_would_be_sent() {
    let parsed = |url: &str| Described::parse("GET", url).map(|d| (d.authority.to_string(), d.path, d.query));
    assert_eq!(parsed("https://A.test"), Ok(("https://a.test:443".into(), "/".into(), None)));
    assert_eq!(
        parsed("http://a.test:81/x/?a=b&c#frag"),
        Ok(("http://a.test:81".into(), "/x/".into(), Some("a=b&c".into())))
    );
    assert_eq!(parsed("https://a.test?q"), Ok(("https://a.test:443".into(), "/".into(), Some("q".into()))));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(allow|deny|GET|POST|https://a.test/|push|json|refs/heads/x|\\{|[ -&(-~]){0,12}") {
        let _ = CaseFile::parse(&format!("grant = 'g'\ncases = ['{text}']"), "t.toml");
    }
}
