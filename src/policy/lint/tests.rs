//! Each warning, and the silence about what is fine.

use super::*;
use crate::service::Service;

const HUB: &str = r#"
name = "hub"
hosts = ["hub.test"]
resources = ["repository"]
datalog = '''ref_update($ref) <- body(["updates", 0, "ref"], $ref);'''
[[route]]
match = "GET hub.test /{owner}/{repo}/info/refs"
capture = { service = "query:service" }
emit = ['operation("discover")', 'repository($owner, $repo)', 'discover_service($service)']
[[route]]
match = "POST hub.test /{owner}/{repo}/git-receive-pack"
emit = ['operation("push")', 'repository($owner, $repo)']
[[route]]
match = "POST hub.test /{owner}/{repo}/git-upload-pack"
emit = ['operation("fetch")', 'repository($owner, $repo)']
[[route]]
match = "GET hub.test /api/{rest*}"
emit = ['operation("read")']
"#;

const MAIL: &str = r#"
name = "mail"
hosts = ["mail.test"]
[[route]]
match = "GET mail.test /{folder}/{id}"
emit = ['operation("read")', 'mail_folder($folder)']
"#;

fn warnings_of(file: &str) -> Vec<String> {
    let services = [HUB, MAIL].map(|text| Service::parse(text, "m.toml").unwrap());
    let catalog = Catalog::new(services.into()).unwrap();
    let grant = Grant::parse(file, "g.toml").unwrap();
    lint(&catalog, &grant, &|name| name.starts_with("task_")).iter().map(Warning::to_string).collect()
}

fn warnings(datalog: &str) -> Vec<String> {
    warnings_of(&format!("name = \"g\"\nservice = \"hub\"\ncredential = \"hub/a\"\ndatalog = '''\n{datalog}\n'''\n"))
}

#[track_caller]
fn one(datalog: &str, expected: &str) {
    let found = warnings(datalog);
    assert!(found.len() == 1 && found[0].contains(expected), "{found:#?}");
}

#[test]
fn a_sound_grant_gives_no_warning() {
    let sound = r#"
mine(1) <- repository($o, $r), task_fork($o, $r);
right("fetch") <- operation("fetch"), mine(1);
right("push") <- operation("push"), mine(1), ref_update($ref), $ref.starts_with("refs/heads/dev/");
right("discover") <- operation("discover"), mine(1);
reject if ref_update("refs/heads/main");
check if time($t), $t < 2030-01-01T00:00:00Z;
check all operation($op), ["fetch", "push", "discover"].contains($op);
allow if right($x);"#;
    assert_eq!(warnings(sound), [""; 0]);
    assert_eq!(warnings("allow if grant(\"g\");"), [""; 0]);
}

#[test]
fn reject_with_alternatives_is_warned_of() {
    one(
        "reject if operation(\"push\") or operation(\"fetch\");\nallow if grant(\"g\");",
        "g.toml:5:1: `reject if … or …`",
    );
}

#[test]
fn check_all_that_can_never_match_is_warned_of() {
    one("check all operation(\"push\"), operation(\"read\");\nallow if grant(\"g\");", "can never match");
    one("check all ref_update($r), $r != \"x\";\nallow if grant(\"g\");", "refuses every request without `ref_update`");
}

#[test]
fn a_push_without_its_discovery_is_warned_of() {
    let push = "`push` is allowed and `discover` for `git-receive-pack` is not";
    one("allow if operation(\"push\");", push);
    one("allow if operation($o), [\"push\", \"read\"].contains($o);", push);
    one("allow if operation($o), $o == \"push\" || $o == \"read\";", push);
    one("ok(1) <- operation(\"push\");\nallow if ok(1);", push);
    one("allow if operation(\"push\") or operation(\"discover\"), discover_service(\"git-upload-pack\");", push);
    one(
        "allow if grant(\"g\");\ncheck if operation(\"fetch\");",
        "`fetch` is allowed and `discover` for `git-upload-pack`",
    );
    assert_eq!(warnings("allow if operation(\"push\") or operation(\"discover\");"), [""; 0]);
    assert_eq!(warnings("allow if operation(\"read\");"), [""; 0]);
}

#[test]
fn r157_a_rule_that_nothing_feeds_is_warned_of() {
    one(
        "ok(1) <- ref_updat($r);\nallow if grant(\"g\");",
        "g.toml:5:1: nothing emits `ref_updat`: did you mean `ref_update`?",
    );
    one("ok(1) <- mail_folder($f);\nallow if grant(\"g\");", "only `mail` emits it, and this grant is about `hub`");
    one("ok(1) <- whatever($f);\nallow if grant(\"g\");", "nothing emits `whatever`: it comes from a token, or never");
    let chain = warnings("a(1) <- whatever(1);\nb(1) <- a(1);\nallow if grant(\"g\");");
    assert!(chain[1].contains("g.toml:6:1: nothing emits `a`: no rule that derives it can fire"), "{chain:#?}");
    assert_eq!(warnings("a(1) <- task_tool(\"x\");\nallow if a(1) or a2(1);\na2(1) <- a(1);"), [""; 0]);
}

#[test]
fn an_operation_that_no_route_emits_is_warned_of() {
    one("allow if operation(\"raed\");", "no route of `hub` emits the operation `raed`: did you mean `read`?");
    one("allow if operation($o), [\"read\", \"open_pr\"].contains($o);", "emits the operation `open_pr`");
    assert_eq!(warnings("allow if operation($o), ref_update($r), $r == \"main\", $o != \"x\";"), [""; 0]);
}

#[test]
fn r155_a_grant_that_can_do_nothing_says_so() {
    let found = warnings_of("name = 'g'\nservice = 'hub'\n");
    assert_eq!(
        found,
        [
            "g.toml: no `allow if`: this grant allows nothing (end it in `allow if grant(\"g\");`)",
            "g.toml: no credential: name one in `credential`, or say `anonymous = true`",
        ]
    );
    assert_eq!(warnings_of("name = 'g'\nservice = 'hbu'\n"), ["g.toml: unknown service `hbu`: did you mean `hub`?"]);
}
