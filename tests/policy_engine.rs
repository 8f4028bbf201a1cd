//! What the policy decides: candidates, items, blocks, credentials, narrowings, errors, budgets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test"
)]

mod policy_world;

use kleis::facts::{Body, Fact, Term};
use kleis::policy::{
    Candidate, CredentialChoice, Decision, Limits, Origin, admit, compile, compile_endpoint, decide, explain,
};
use kleis::words::{Reason, ServiceName};
use policy_world::*;

fn named(choice: &CredentialChoice) -> &str {
    match choice {
        CredentialChoice::Named(name) => name.as_str(),
        CredentialChoice::Anonymous => "",
    }
}

const ALLOW: &str = "allow if grant(\"g\");";

// --- candidates -------------------------------------------------------------------------------------

#[test]
fn a_grant_allows_what_its_policy_allows_and_nothing_else() {
    let world = World::of("allow if operation(\"read\");");
    let token = world.token().make();
    let permit = world.permit(&token, &Ask::to("read"));
    assert!(matches!(permit.candidate(), Candidate::Grant { name, .. } if name.as_str() == "g"));
    assert_eq!(named(permit.credential()), "hub/app");
    assert_eq!(permit.items()[0].operation.as_deref(), Some("read"));
    assert_eq!(permit.items()[0].resources, fact_list("repository(\"o\", \"r\");"));
    assert_eq!(world.denial(&token, &Ask::to("push")).reason, Reason::PolicyDenied);
}

#[test]
fn r155_nothing_configured_means_nothing_allowed() {
    for datalog in ["", "// only a comment", "deny if operation(\"push\");", "check if true;"] {
        let world = World::of(datalog);
        assert_eq!(world.denial(&world.token().make(), &Ask::to("read")).reason, Reason::PolicyDenied, "{datalog}");
    }
    let world = World::new(&[], &[("empty", "about nothing\n")]);
    for token in [world.token().make(), world.token().spec("empty").make(), world.token().spec("gone").make()] {
        assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::NoGrantForService);
    }
}

#[test]
fn candidates_are_tried_in_order_and_never_merged() {
    let grants = [
        grant_text("a", "allow if operation(\"read\"), half($x), $x == 1; half(2);", ""),
        grant_text(
            "b",
            "half(1); deny if operation(\"delete\"); allow if operation($o), half(1);",
            "credential = \"hub/b\"",
        ),
    ];
    let world = World::new(&grants, &[("both", "grant a\ngrant b\n")]);
    for token in [world.token().grants(&["a", "b"]).make(), world.token().spec("both").make()] {
        let permit = world.permit(&token, &Ask::to("read"));
        assert_eq!(named(permit.credential()), "hub/b");
        assert!(matches!(permit.candidate(), Candidate::Grant { name, .. } if name.as_str() == "b"));
        assert_eq!(world.denial(&token, &Ask::to("delete")).reason, Reason::PolicyDenied);
    }
}

#[test]
fn a_grant_of_the_token_satisfies_no_other_grants_rules() {
    let grants = [
        grant_text("weak", "allow if grant(\"strong\");", ""),
        grant_text("strong", "allow if grant(\"strong\"), operation(\"read\");", "credential = \"hub/strong\""),
    ];
    let world = World::new(&grants, &[]);
    let token = world.token().grants(&["weak", "strong"]).make();
    assert_eq!(named(world.permit(&token, &Ask::to("read")).credential()), "hub/strong");
    assert_eq!(world.denial(&token, &Ask::to("push")).reason, Reason::PolicyDenied);
}

#[test]
fn a_grant_that_names_itself_works_in_a_spec_unchanged() {
    let world = World::new(&[grant_text("g", ALLOW, "")], &[("s", "grant g\n")]);
    world.permit(&world.token().spec("s").make(), &Ask::to("read"));
}

// --- blocks -----------------------------------------------------------------------------------------

#[test]
fn a_block_can_restate_nothing_that_the_authorizer_would_believe() {
    let world = World::new(
        &[
            grant_text("g", "allow if operation(\"read\"), bearer(\"test:1\"), task(\"a\");", ""),
            grant_text("other", "allow if grant(\"other\");", ""),
        ],
        &[("all", "allow hub: all\n")],
    );
    let hostile = "grant(\"other\"); grant(\"g\"); spec(\"all\"); bearer(\"test:1\"); issuer(\"x\"); issued_by(\"x\");
        operation(\"read\"); task(\"a\"); use_credential(\"hub/other\"); time(2020-01-01T00:00:00Z);
        repository(\"o\", \"r\"); body_truncated(false); allow(true);
        operation(\"read\") <- operation($o); task(\"a\") <- task($t); grant(\"other\") <- bearer($b);";
    let plain = world.token().facts("task(\"b\");");
    let token = plain.block(hostile).make();
    assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::PolicyDenied);
    let token = world.token().facts("task(\"a\");").block(hostile).make();
    assert_eq!(named(world.permit(&token, &Ask::to("read")).credential()), "hub/app");
    assert_eq!(world.denial(&token, &Ask::to("push")).reason, Reason::PolicyDenied);
}

#[test]
fn an_expired_token_is_refused_whatever_time_its_blocks_state() {
    let world = World::of(ALLOW);
    let token = world.token().expires(NOW).block("time(2020-01-01T00:00:00Z);").make();
    assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::TokenExpired);
    let token = world.token().check("check if time($t), $t < 2026-05-31T00:00:00Z").make();
    assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::TokenExpired);
    let odd = world.token().check("check if time($t), $t + 0 < 1 or time($t), 2026-05-31T00:00:00Z > $t").make();
    let denial = world.denial(&odd, &Ask::to("read"));
    assert_eq!(denial.reason, Reason::PolicyError, "dates are no integers");
    let odd = world.token().check("check if time($t), 2026-06-02T00:00:00Z > $t").make();
    assert!(world.permit(&odd, &Ask::to("read")).watch().decide_again);
    // a request can't bring a time of its own
    let early = Ask::to("read").with("time(2020-01-01T00:00:00Z);");
    let token = world.token().check("check if time($t), 2020-06-01T00:00:00Z > $t").make();
    assert_eq!(world.denial(&token, &early).reason, Reason::PolicyDenied);
}

#[test]
fn checks_of_every_block_hold_and_are_told_with_their_origin() {
    let world = World::of(ALLOW);
    let token = world
        .token()
        .check("check if operation(\"read\")")
        .block("check if repository(\"o\", $r), $r != \"x\";")
        .make();
    world.permit(&token, &Ask::to("read"));
    let denial = world.denial(&token, &Ask::items(&["operation(\"push\"); repository(\"o\", \"x\");"]));
    assert_eq!(denial.reason, Reason::PolicyDenied);
    let failed: Vec<_> = denial.failed.iter().map(|check| (check.origin, check.text.as_str())).collect();
    assert_eq!(
        failed,
        [
            (Origin::Block(0), "check if operation(\"push\")".replace("push", "read").as_str()),
            (Origin::Block(1), "check if repository(\"o\", $r), $r != \"x\""),
        ]
    );
    assert!(denial.message.contains("`push`") && denial.message.contains("check if"), "{}", denial.message);
}

#[test]
fn third_party_blocks_and_trusting_are_refused_with_their_own_reason() {
    let world = World::of(ALLOW);
    let token = world.token().block("check if operation($o) trusting authority;").make();
    assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::TokenUnsupported);
    let Decision::Denial(denial) = world.pass(&token, &Ask::elsewhere()) else { panic!() };
    assert_eq!(denial.reason, Reason::TokenUnsupported);
}

#[test]
fn what_a_token_may_not_say_refuses_it() {
    let world = World::of("task_ok(1) <- task(1); allow if task_ok(1) or grant(\"g\");");
    for facts in [
        "operation(\"read\");",
        "use_credential(\"hub/x\");",
        "task_ok(1);",
        "repository(\"a\", \"b\");",
        "client_ip(\"1.2.3.4\");",
    ] {
        let token = world.token().facts(facts).make();
        assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::TokenUnsupported, "{facts}");
    }
    world.permit(&world.token().facts("task(1);").make(), &Ask::to("read"));
}

#[test]
fn what_can_not_be_compiled_in_a_block_refuses_the_token() {
    let world = World::of(ALLOW);
    for block in [
        "reject if operation($o), $o.matches(\"(\");",
        "check if \"x\".extern::unknown();",
        "check if operation($o), $o.extern::allows();",
        "x(1) <- operation($o), \"hub: all\".extern::allows();",
        "check if operation($o), $o.extern::glob(\"[\");",
    ] {
        let denial = world.denial(&world.token().block(block).make(), &Ask::to("read"));
        assert!(matches!(denial.reason, Reason::TokenUnsupported | Reason::Narrowed), "{block}: {denial:?}");
    }
}

// --- errors -----------------------------------------------------------------------------------------

#[test]
fn a_reject_fails_on_any_match_of_any_alternative() {
    // biscuit-auth 6 passes it when only one of them matches; the specification fails it
    for (a, b) in [("read", "never"), ("never", "read"), ("read", "read")] {
        let world = World::of(&format!("reject if operation(\"{a}\") or operation(\"{b}\"); {ALLOW}"));
        assert_eq!(world.denial(&world.token().make(), &Ask::to("read")).reason, Reason::PolicyDenied);
        world.permit(&world.token().make(), &Ask::to("push"));
        let world = World::of(ALLOW);
        let token = world.token().check(&format!("reject if operation(\"{a}\") or operation(\"{b}\")")).make();
        assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::PolicyDenied);
    }
}

#[test]
fn an_invalid_regex_is_an_error_and_not_false() {
    assert!(
        rulebook_with(
            &[grant_text("g", "reject if operation($o), $o.matches(\"(\"); allow if true;", "")],
            &[],
            Limits::default()
        )
        .is_err()
    );
    // known only at decision time
    let world = World::of("reject if operation($o), pattern($p), $o.matches($p); allow if true;");
    let denial = world.denial(&world.token().facts("pattern(\"(\");").make(), &Ask::to("read"));
    assert_eq!(denial.reason, Reason::PolicyError);
    assert_eq!(
        world.denial(&world.token().facts("pattern(\"^re\");").make(), &Ask::to("read")).reason,
        Reason::PolicyDenied
    );
    world.permit(&world.token().facts("pattern(\"^x\");").make(), &Ask::to("read"));
}

#[test]
fn an_error_in_anything_needed_denies() {
    for datalog in [
        "reject if operation($o), $o > 1; allow if true;",
        "deny if operation($o), $o + 1 == 2; allow if true;",
        "ok(1) <- operation($o), 1 / 0 == 1; allow if ok(1) or true;",
        "check if operation($o), 9223372036854775807 + 1 > 0 or true; allow if true;",
        // one binding errors, another matches: whichever a library meets first
        "check if item($x), 10 / $x > 0; allow if true;",
        "allow if item($x), 10 / $x > 0;",
        // a later filter that is false must not hide an earlier one's error
        "reject if item($x), item($y), 10 / $x > 100, $y == 7; allow if true;",
    ] {
        let world = World::of(datalog);
        let denial = world.denial(&world.token().facts("item(0); item(5);").make(), &Ask::to("read"));
        assert_eq!(denial.reason, Reason::PolicyError, "{datalog}");
        assert!(denial.message.contains("can't be evaluated"), "{}", denial.message);
    }
}

#[test]
fn sets_and_maps_have_no_order() {
    // an array is read from its beginning, and what stands behind the answer is not evaluated
    for (over, permitted) in [
        ("[1, 0]", true),
        ("[0, 1]", false),
        ("{0, 1}", false),
        ("{\"a\": 1, \"b\": 0}", false),
        ("{\"b\": 1, \"a\": 0}", false),
    ] {
        let element = if over.contains(':') { "$x.get(1)" } else { "$x" };
        let world = World::of(&format!("allow if {over}.any($x -> 1 / {element} == 1);"));
        let decision = world.decide(&world.token().make(), &Ask::to("read"));
        assert_eq!(matches!(decision, Decision::Permit(_)), permitted, "{over}");
    }
}

#[test]
fn an_error_whose_body_never_matches_is_not_needed() {
    for datalog in [
        "reject if item($x), 10 / $x > 100, never($x); allow if true;",
        "reject if item($x), $x == 5, 10 / $x > 100; allow if true;",
        "unread(1) <- operation($o), $o > 1; allow if true;",
        "allow if true; allow if operation($o), $o > 1;",
        "check if (1 / 0 == 1).try_or(true); allow if true;",
    ] {
        let world = World::of(datalog);
        world.permit(&world.token().facts("item(0); item(5);").make(), &Ask::to("read"));
    }
}

#[test]
fn an_error_of_one_candidate_is_not_skipped_for_the_next() {
    let grants = [grant_text("a", "allow if operation($o), $o > 1;", ""), grant_text("b", "allow if true;", "")];
    let world = World::new(&grants, &[]);
    assert_eq!(world.denial(&world.token().grants(&["a", "b"]).make(), &Ask::to("read")).reason, Reason::PolicyError);
    world.permit(&world.token().grants(&["b", "a"]).make(), &Ask::to("read"));
}

#[test]
fn r157_absent_never_satisfies_and_types_are_not_mixed() {
    let world = World::of("allow if request_header(\"x-team\", $t), $t != \"evil\" or body([\"n\"], $n), $n === 3;");
    let token = world.token().make();
    assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::PolicyDenied);
    world.permit(&token, &Ask::to("read").with("request_header(\"x-team\", \"good\");"));
    world.permit(&token, &Ask::to("read").body("{\"n\": 3}"));
    assert_eq!(world.denial(&token, &Ask::to("read").body("{\"n\": \"3\"}")).reason, Reason::PolicyError);
    let world = World::of("check all absent(1); allow if true;");
    assert_eq!(world.denial(&world.token().make(), &Ask::to("read")).reason, Reason::PolicyDenied);
}

#[test]
fn r157_a_misspelt_predicate_is_a_load_error_with_the_nearest_word() {
    for (datalog, near) in [
        ("allow if operaton(\"read\");", "operation"),
        ("allow if request_heade(\"a\", $x);", "request_header"),
        ("x(1) <- repositry($o, $n); allow if x(1);", "repository"),
        ("check if body_trunctated(false); allow if true;", "body_truncated"),
    ] {
        let errors = rulebook_with(&[grant_text("g", datalog, "")], &[], Limits::default()).unwrap_err().to_string();
        assert!(errors.contains(near) && errors.contains("grant-0.toml:"), "{errors}");
    }
    // an issuer's fact looks like nothing known
    World::of("allow if task_fork($o, $n), repository($o, $n);");
}

#[test]
fn grants_can_not_say_what_is_not_theirs() {
    for datalog in [
        "grant(\"x\") <- operation($o);",
        "bearer(\"root\");",
        "body_truncated(false);",
        "time(2020-01-01T00:00:00Z);",
        "check if \"hub: all\".extern::allows();",
        "allow if \"hub: all\".extern::allows();",
        "check if operation($o) trusting authority;",
        "check if \"x\".extern::nothing();",
        "check if $unbound > 1;",
    ] {
        assert!(rulebook_with(&[grant_text("g", datalog, "")], &[], Limits::default()).is_err(), "{datalog}");
    }
    let unknown = grant_text("g", "allow if true;", "").replace("service = \"hub\"", "service = \"hbu\"");
    assert!(rulebook_with(&[unknown], &[], Limits::default()).unwrap_err().to_string().contains("hub"));
}

#[test]
fn r154_request_text_is_data_and_never_datalog() {
    let world = World::of("deny if request_path($p), $p.contains(\"secret\"); allow if operation(\"read\");");
    let token = world.token().make();
    for text in ["/x\"); allow if true; //", "{param} $var\n", "') <- x", &"a".repeat(1 << 20)] {
        let ask = |operation: &str| {
            let mut ask = Ask::to(operation);
            ask.facts.shared.push(Fact::new("request_path", [Term::str(text)]));
            ask.facts.shared.push(Fact::new("request_header", [Term::str("x"), Term::str(text)]));
            ask
        };
        world.permit(&token, &ask("read"));
        assert_eq!(world.denial(&token, &ask("push")).reason, Reason::PolicyDenied);
    }
}

// --- items ------------------------------------------------------------------------------------------

#[test]
fn every_item_must_be_allowed_not_only_one() {
    let world = World::of("allow if ref_change($r, $k), $r.starts_with(\"refs/heads/agent/\");");
    let token = world.token().make();
    let push = |refs: &[&str]| {
        let items: Vec<String> = refs
            .iter()
            .map(|r| format!("operation(\"push\"); repository(\"o\", \"r\"); ref_change(\"{r}\", \"update\");"))
            .collect();
        Ask::items(&items.iter().map(String::as_str).collect::<Vec<_>>())
    };
    world.permit(&token, &push(&["refs/heads/agent/a", "refs/heads/agent/b"]));
    let denial = world.denial(&token, &push(&["refs/heads/agent/a", "refs/heads/main", "refs/heads/agent/b"]));
    assert_eq!(denial.failed_item, Some(1));
    assert_eq!(denial.items.len(), 3);
}

#[test]
fn all_items_by_one_candidate_and_one_credential() {
    let grants =
        [grant_text("a", "allow if operation(\"read\");", ""), grant_text("b", "allow if operation(\"push\");", "")];
    let both = ["operation(\"read\"); repository(\"o\", \"r\");", "operation(\"push\"); repository(\"o\", \"r\");"];
    let world = World::new(&grants, &[("lines", "allow hub: only read\nallow hub: only push\n")]);
    for token in [world.token().grants(&["a", "b"]).make(), world.token().spec("lines").make()] {
        world.permit(&token, &Ask::items(&both[..1]));
        world.permit(&token, &Ask::items(&both[1..]));
        assert_eq!(world.denial(&token, &Ask::items(&both)).reason, Reason::PolicyDenied);
    }
    let by_operation = "use_credential(\"hub/x\") <- operation(\"push\"); allow if true;";
    let world =
        World::new(&[grant_text("g", by_operation, "credential = \"hub/app\"\ncredentials = [\"hub/x\"]")], &[]);
    let token = world.token().make();
    assert_eq!(named(world.permit(&token, &Ask::items(&both[1..])).credential()), "hub/x");
    assert!(world.denial(&token, &Ask::items(&both)).message.contains("different credentials"));
}

#[test]
fn an_items_facts_are_not_there_for_the_next() {
    let world = World::of("seen($x) <- mark($x); allow if seen(\"a\");");
    let denial = world.denial(
        &world.token().make(),
        &Ask::items(&["operation(\"x\"); mark(\"a\");", "operation(\"x\"); mark(\"b\");"]),
    );
    assert_eq!(denial.failed_item, Some(1));
}

// --- credentials ------------------------------------------------------------------------------------

#[test]
fn a_route_beats_a_rule_which_beats_the_fallback() {
    let more = "credential = \"hub/fallback\"\ncredentials = [\"hub/ruled\", \"hub/other\"]
[[credential_route]]
resources = [\"acme/*\"]
credential = \"hub/acme\"
[[credential_route]]
resources = [\"acme/special\"]
credential = \"hub/special\"";
    let datalog = "use_credential(\"hub/ruled\") <- operation(\"push\");
        use_credential(\"hub/ruled\") <- operation(\"add_labels\"); use_credential(\"hub/other\") <- operation(\"add_labels\");
        use_credential($c) <- chosen($c);
        allow if true;";
    let world = World::new(&[grant_text("g", datalog, more)], &[]);
    let token = world.token().make();
    let on = |operation: &str, repos: &str| Ask::items(&[&format!("operation(\"{operation}\"); {repos}")]);
    let choice = |ask: &Ask| named(world.permit(&token, ask).credential()).to_owned();
    assert_eq!(choice(&on("push", "repository(\"ACME\", \"x\");")), "hub/acme");
    assert_eq!(choice(&on("push", "repository(\"acme\", \"special\");")), "hub/special");
    assert_eq!(choice(&on("push", "repository(\"acme\", \"x\"); repository(\"b\", \"x\");")), "hub/ruled");
    assert_eq!(choice(&on("read", "repository(\"b\", \"x\");")), "hub/fallback");
    assert_eq!(choice(&on("read", "")), "hub/fallback");
    assert!(world.denial(&token, &on("add_labels", "")).message.contains("two credentials"));
    let chosen = |facts: &str| world.token().facts(facts).make();
    assert_eq!(named(world.permit(&chosen("chosen(\"hub/other\");"), &on("read", "")).credential()), "hub/other");
    for wrong in ["chosen(\"hub/unlisted\");", "chosen(\"x\");", "chosen(3);"] {
        assert_eq!(world.denial(&chosen(wrong), &on("read", "")).reason, Reason::PolicyDenied, "{wrong}");
    }
    let token = world.token().block("chosen(\"hub/other\"); use_credential(\"hub/other\");").make();
    assert_eq!(named(world.permit(&token, &on("read", "")).credential()), "hub/fallback");
}

#[test]
fn a_grant_without_any_credential_refuses() {
    let more = "credentials = [\"hub/x\"]";
    let world =
        World::new(&[grant_text("g", "use_credential(\"hub/x\") <- operation(\"push\"); allow if true;", more)], &[]);
    world.permit(&world.token().make(), &Ask::to("push"));
    world.denial(&world.token().make(), &Ask::to("read"));
    let world = World::new(&[grant_text("g", "allow if true;", "anonymous = true")], &[]);
    assert_eq!(world.permit(&world.token().make(), &Ask::to("read")).credential(), &CredentialChoice::Anonymous);
}

#[test]
fn a_credential_is_narrowed_to_what_the_request_names() {
    let more = "narrow = { repositories = [\"{repo}\"], permissions = { contents = \"write\" } }";
    let world = World::new(&[grant_text("g", "allow if true;", more)], &[]);
    let token = world.token().make();
    let permit = world.permit(&token, &Ask::to("read"));
    let narrowing = permit.narrowing();
    assert_eq!(narrowing.repositories.as_deref(), Some(["r".into()].as_slice()));
    assert_eq!(narrowing.owner.as_deref(), Some("o"));
    assert_eq!(narrowing.permissions.get("contents").map(|a| &**a), Some("write"));
    let two = ["operation(\"read\"); repository(\"o\", \"r\");", "operation(\"read\"); repository(\"O\", \"q\");"];
    let permit = world.permit(&token, &Ask::items(&two));
    assert_eq!(permit.narrowing().repositories.as_deref(), Some(["q".into(), "r".into()].as_slice()));
    for unresolved in [
        &["operation(\"read\");"][..],
        &["operation(\"read\"); organization(\"o\");"],
        &["operation(\"read\"); organization(\"o\"); new_repository(\"o\", \"n\");"],
        &["operation(\"read\"); repository(\"o\", \"r\");", "operation(\"read\"); repository(\"p\", \"r\");"],
        &["operation(\"read\"); repository(\"o\", \"r\");", "operation(\"read\");"],
    ] {
        let denial = world.denial(&token, &Ask::items(unresolved));
        assert!(denial.message.contains("narrows"), "{unresolved:?} {}", denial.message);
    }
    let whole =
        World::new(&[grant_text("g", "allow if true;", &format!("{more}\nnarrow_unresolved = \"whole\""))], &[]);
    let permit = whole.permit(&whole.token().make(), &Ask::items(&["operation(\"read\"); organization(\"o\");"]));
    assert_eq!((permit.narrowing().repositories.as_ref(), permit.narrowing().owner.as_deref()), (None, Some("o")));
}

// --- allow lines ------------------------------------------------------------------------------------

#[test]
fn a_line_gives_its_verbs_on_the_services_only_account() {
    let mut world =
        World::new(&[], &[("s", "allow hub: only read, push where repo is o/* and ref is refs/heads/agent/**\n")]);
    let token = world.token().spec("s").make();
    let push = |reference: &str| Ask::to("push").body(&format!("{{\"updates\": [{{\"ref\": \"{reference}\"}}]}}"));
    let permit = world.permit(&token, &Ask::to("read"));
    assert_eq!(named(permit.credential()), "hub/app");
    assert!(matches!(permit.candidate(), Candidate::SpecLine { line: 1, .. }));
    world.permit(&token, &push("refs/heads/agent/x"));
    world.denial(&token, &push("refs/heads/main"));
    world.denial(&token, &Ask::to("push"));
    let denial = world.denial(&token, &Ask::to("delete"));
    assert!(denial.message.contains("allowed is: hub: only read"), "{}", denial.message);
    world.denial(&token, &Ask::items(&["repository(\"o\", \"r\");"]));

    world.accounts = accounts(&[("hub", "hub/app"), ("hub", "hub/work")]);
    assert!(world.denial(&token, &Ask::to("read")).message.contains("account"));
    world.accounts = accounts(&[]);
    assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::CredentialMissing);
}

#[test]
fn a_block_can_not_satisfy_a_where() {
    let world = World::new(&[], &[("s", "allow hub: only push where ref is refs/heads/agent/**\n")]);
    let token = world.token().spec("s").block("ref_update(\"refs/heads/agent/x\");").make();
    world.denial(&token, &Ask::to("push"));
    let token = world
        .token()
        .spec("s")
        .narrow("hub: only push where repo is o/good")
        .block("repository(\"o\", \"good\");")
        .make();
    world.denial(&token, &Ask::to("push").body("{\"updates\": [{\"ref\": \"refs/heads/agent/x\"}]}"));
}

#[test]
fn the_placeholder_picks_the_account_and_without_one_the_first_line_decides() {
    let mut world = World::new(&[], &[("s", "allow hub/app: only read\nallow hub/work: only read, push\n")]);
    world.accounts = accounts(&[("hub", "hub/app"), ("hub", "hub/work")]);
    let token = world.token().spec("s").make();
    assert_eq!(named(world.permit(&token, &Ask::to("read")).credential()), "hub/app");
    assert_eq!(named(world.permit(&token, &Ask::to("push")).credential()), "hub/work");
    world.account = Some("work");
    assert_eq!(named(world.permit(&token, &Ask::to("read")).credential()), "hub/work");
    world.account = Some("app");
    world.denial(&token, &Ask::to("push"));
    world.account = Some("nobody");
    world.denial(&token, &Ask::to("read"));
}

#[test]
fn narrowings_take_away_and_add_up() {
    let world = World::of(ALLOW);
    let token = world.token().narrow("hub: only read, push").make();
    world.permit(&token, &Ask::to("push"));
    assert_eq!(world.denial(&token, &Ask::to("delete")).reason, Reason::Narrowed);
    let token = world.token().narrow("hub: only read, push").narrow("hub: all except push").make();
    world.permit(&token, &Ask::to("read"));
    let denial = world.denial(&token, &Ask::to("push"));
    assert_eq!(denial.failed[0].text, "check if \"hub: all except push\".extern::allows()");
    // no operation: not covered
    assert_eq!(world.denial(&token, &Ask::items(&[""])).reason, Reason::Narrowed);
    // another service's line touches nothing here
    world.permit(&world.token().narrow("post: none").make(), &Ask::to("delete"));
    // an account that is not the one that would be spent
    world.permit(&world.token().narrow("hub/app: all").make(), &Ask::to("read"));
    assert_eq!(world.denial(&world.token().narrow("hub/work: all").make(), &Ask::to("read")).reason, Reason::Narrowed);
    // inside larger checks, as any biscuit tool may write them
    let token =
        world.token().block("check if operation($o), \"hub: only read\".extern::allows() || $o == \"delete\";").make();
    world.denial(&token, &Ask::to("push"));
    let token = world.token().block("reject if \"hub: only push\".extern::allows();").make();
    world.denial(&token, &Ask::to("push"));
    world.permit(&token, &Ask::to("read"));
}

#[test]
fn a_narrowing_that_does_not_hold_up_refuses_everything() {
    let world = World::of(ALLOW);
    for line in ["gone: only read", "hub: only fly", "hub: only read where colour is red", "nonsense"] {
        let token = world.token().narrow(line).make();
        assert_eq!(world.denial(&token, &Ask::to("read")).reason, Reason::Narrowed, "{line}");
        let Decision::Denial(denial) = world.pass(&token, &Ask::elsewhere()) else { panic!("{line}") };
        assert_eq!(denial.reason, Reason::Narrowed);
    }
}

// --- passthrough, issuers, endpoints ----------------------------------------------------------------

#[test]
fn passthrough_is_decided_by_the_tokens_checks_alone() {
    let world = World::of("deny if true;");
    let Decision::Permit(permit) = world.pass(&world.token().narrow("hub: none").make(), &Ask::elsewhere()) else {
        panic!()
    };
    assert_eq!((permit.candidate(), permit.credential()), (&Candidate::Passthrough, &CredentialChoice::Anonymous));
    assert!(permit.service().is_none());
    let token = world.token().check("check if request_host(\"other.test\")").make();
    let Decision::Denial(denial) = world.pass(&token, &Ask::elsewhere().with("request_host(\"example.test\");")) else {
        panic!()
    };
    assert_eq!(denial.reason, Reason::PolicyDenied);
    assert!(matches!(world.pass(&token, &Ask::elsewhere().with("request_host(\"other.test\");")), Decision::Permit(_)));
    let Decision::Denial(denial) = world.pass(&world.token().expires(NOW - 1).make(), &Ask::elsewhere()) else {
        panic!()
    };
    assert_eq!(denial.reason, Reason::TokenExpired);
}

#[test]
fn an_issuers_token_gets_no_permit_anywhere() {
    let world = World::of("allow if true;");
    let issuer = world.issuer();
    assert_eq!(world.denial(&issuer, &Ask::to("read")).reason, Reason::PolicyDenied);
    assert!(matches!(world.pass(&issuer, &Ask::elsewhere()), Decision::Denial(_)));
    let endpoint = compile_endpoint(&world.rulebook, &issuer).unwrap();
    assert!(admit(&endpoint, &Ask::elsewhere().facts(), &world.situation()).is_ok());
    assert!(matches!(decide(&endpoint, &Ask::elsewhere().facts(), &world.situation()), Decision::Denial(_)));
}

#[test]
fn allows_is_false_at_endpoints() {
    let world = World::of(ALLOW);
    let token = world.token().narrow("hub: all").make();
    let endpoint = compile_endpoint(&world.rulebook, &token).unwrap();
    assert!(admit(&endpoint, &Ask::elsewhere().facts(), &world.situation()).is_err());
    let expired = compile_endpoint(&world.rulebook, &world.token().expires(NOW - 5).make()).unwrap();
    assert_eq!(
        admit(&expired, &Ask::elsewhere().facts(), &world.situation()).unwrap_err().reason,
        Reason::TokenExpired
    );
    let program = world.compile(&token).unwrap();
    assert!(admit(&program, &Ask::to("read").facts(), &world.situation()).is_err());
}

#[test]
fn a_program_decides_for_its_own_service_only() {
    let world = World::of("allow if true;");
    let program = world.compile(&world.token().make()).unwrap();
    let mut facts = Ask::to("read").facts();
    facts.service = Some(ServiceName::parse("post").unwrap());
    assert!(matches!(decide(&program, &facts, &world.situation()), Decision::Denial(_)));
    let none = compile(&world.rulebook, &ServiceName::parse("post").unwrap(), &world.token().make()).unwrap_err();
    assert_eq!(none.reason, Reason::NoGrantForService);
}

// --- bodies -----------------------------------------------------------------------------------------

#[test]
fn a_body_that_can_not_be_judged_is_refused_whatever_the_policy() {
    let world = World::of("allow if true;");
    let token = world.token().make();
    let mut ask = Ask::to("read");
    ask.facts.body = Body::Truncated;
    assert_eq!(world.denial(&token, &ask).reason, Reason::BodyTooLargeToJudge);
    ask.facts.body = Body::Undecodable("two keys".to_owned());
    assert_eq!(world.denial(&token, &ask).reason, Reason::BodyUnreadable);
    // also if only the facts say so
    let mut ask = Ask::to("read");
    ask.facts.shared =
        fact_list("body_present(true); body_truncated(true); body_opaque(false); body_undecodable(false);");
    assert_eq!(world.denial(&token, &ask).failed[0].text, "check if body_truncated(false)");
    ask.facts.shared.clear();
    assert_eq!(world.denial(&token, &ask).failed.len(), 2);
}

#[test]
fn body_nodes_are_found_by_path_and_by_shape() {
    let body =
        "{\"action\": \"read\", \"updates\": [{\"ref\": \"a\", \"n\": 1}, {\"ref\": \"b\", \"n\": 2}], \"empty\": []}";
    for (datalog, allowed) in [
        ("allow if body([\"action\"], \"read\");", true),
        ("allow if body([\"action\"], \"write\");", false),
        ("allow if body([\"updates\", 1, \"ref\"], \"b\");", true),
        ("allow if ref_update(\"a\"), ref_update(\"b\");", true),
        ("allow if ref_update(\"c\");", false),
        ("reject if ref_update($r), $r != \"a\", $r != \"b\"; allow if true;", true),
        ("allow if body($p, $n), $p.length() == 3, $p.get(2) == \"n\", $n === 2;", true),
        ("allow if body($p, 1), body($p, $v), $v == 1, $p.get(0) == \"updates\";", true),
        ("allow if body_kind([\"updates\"], \"array\"), body_len([\"updates\"], 2), body_len([], 3);", true),
        ("allow if body_len([\"empty\"], 0);", true),
        ("allow if body([\"empty\"], $x);", false),
        ("allow if request_body($b), $b.get(\"action\") == \"read\", $b.get(\"updates\").length() == 2;", true),
        ("allow if request_body($b), $b.extern::json_pointer(\"/updates/1/ref\") == \"b\";", true),
        ("check all body($p, $v), $p.get(2) != \"ref\" || {\"a\", \"b\"}.contains($v); allow if true;", true),
    ] {
        let world = World::of(datalog);
        let token = world.token().make();
        let decision = world.decide(&token, &Ask::to("read").body(body));
        assert_eq!(matches!(decision, Decision::Permit(_)), allowed, "{datalog}: {decision:#?}");
    }
}

#[test]
fn leaving_nodes_out_hides_no_error() {
    // the third filter would leave every node out; the first has an error on some of them
    let world = World::of("reject if body($p, $v), $v > 5, $p.length() == 9; allow if true;");
    let token = world.token().make();
    assert_eq!(world.denial(&token, &Ask::to("read").body("{\"a\": \"text\"}")).reason, Reason::PolicyError);
    world.permit(&token, &Ask::to("read").body("{\"a\": 7}"));
    // and a path that a block states needs not be an array
    let token = world
        .token()
        .block("body(\"x\", 1); check if body($p, $v), $p.length() == 1, $p.get(0) == \"a\", $v == 7;")
        .make();
    assert_eq!(world.denial(&token, &Ask::to("read").body("{\"a\": 7}")).reason, Reason::PolicyError);
}

// --- budgets ----------------------------------------------------------------------------------------

fn with_headers(count: usize) -> Ask {
    let headers: String = (0..count).map(|i| format!("request_header(\"h{i}\", \"v{i}\");")).collect();
    Ask::to("read").with(&headers)
}

#[test]
fn hostile_blocks_end_at_their_budget_and_say_whose_rule_it_was() {
    let world = World::of(ALLOW);
    let header = "request_header($a, $b), request_header($c, $d), request_header($e, $f)";
    let many: String = (0..200).map(|i| format!("p({i}); q({i}); r({i});")).collect();
    let double = "s(\"a\");";
    let sum = vec!["$a"; 60].join(" + ");
    for block in [
        format!("x(1) <- {header}, $b + $d == $f; check if x(1);"),
        format!("x($a, $c, $e) <- {header}; check if x(\"a\", \"b\", \"c\");"),
        format!("{many} check if p($x), q($y), r($z), $x + $y + $z < 0;"),
        format!("{many} t($x, $y) <- p($x), q($y); t($x, $z) <- t($x, $y), t($y, $z); check if t(-1, -1);"),
        format!("{double} check if {header}, ($a + $b + $c + {sum}).length() == 1;"),
        format!("check if {header}, $a.matches($d);"),
    ] {
        let token = world.token().block(&block).make();
        let program = world.compile(&token).unwrap();
        let facts = with_headers(60).facts();
        let started = std::time::Instant::now();
        let Decision::Denial(denial) = decide(&program, &facts, &world.situation()) else { panic!("{block}") };
        let took = started.elapsed();
        assert_eq!(denial.reason, Reason::PolicyTooExpensive, "{block}: {denial:?}");
        assert!(denial.message.contains("block 1"), "{}", denial.message);
        assert!(denial.fuel <= 2 * Limits::default().token_fuel + 1000, "{}", denial.fuel);
        // generous: a debug build on a busy machine; the benches measure it
        assert!(took < std::time::Duration::from_secs(2), "{took:?} {block}");
    }
}

#[test]
fn the_policys_own_budget_is_larger_and_counted_apart() {
    let limits = Limits { policy_fuel: 5_000, ..Limits::default() };
    let world = World::with_limits(
        &[grant_text(
            "g",
            "x(1) <- request_header($a, $b), request_header($c, $d), $b == $c; allow if x(1) or true;",
            "",
        )],
        &[],
        limits,
    );
    let denial = world.denial(&world.token().make(), &with_headers(100));
    assert_eq!(denial.reason, Reason::PolicyTooExpensive);
    assert!(denial.message.contains("the policy's rule"), "{}", denial.message);
    world.permit(&world.token().make(), &with_headers(10));
    let limits = Limits { max_facts: 50, ..Limits::default() };
    let world = World::with_limits(&[grant_text("g", "allow if request_header($a, $b);", "")], &[], limits);
    assert_eq!(world.denial(&world.token().make(), &with_headers(60)).reason, Reason::PolicyTooExpensive);
}

#[test]
fn r150_the_same_inputs_cost_the_same_every_time() {
    let world = World::of("x($a) <- request_header($a, $b); allow if x($a), $a != \"h0\";");
    let token = world.token().make();
    let program = world.compile(&token).unwrap();
    let facts = with_headers(40).facts();
    let fuel = |decision: Decision| match decision {
        Decision::Permit(permit) => permit.fuel(),
        other => panic!("{other:?}"),
    };
    let first = fuel(decide(&program, &facts, &world.situation()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(fuel(decide(&program, &facts, &world.situation())), first);
                }
            });
        }
    });
}

// --- explaining -------------------------------------------------------------------------------------

#[test]
fn a_refusal_names_the_rule_that_came_closest_and_what_was_missing() {
    let world = World::of(
        "can_push($r) <- ref_update($r), task_writable(true), $r.starts_with(\"refs/heads/\");
         allow if operation(\"read\");
         allow if operation(\"push\"), can_push($r);",
    );
    let token = world.token().facts("task_writable(false);").make();
    let denial = world.denial(&token, &Ask::to("push").body("{\"updates\": [{\"ref\": \"refs/heads/x\"}]}"));
    let closest = denial.closest.unwrap();
    assert!(closest.contains("allow if operation(\"push\"), can_push($r)"), "{closest}");
    assert!(closest.contains("nothing matches `can_push($r)`"), "{closest}");
    assert!(closest.contains("nothing matches `task_writable(true)`"), "{closest}");
    let token = world.token().facts("task_writable(true);").make();
    let denial = world.denial(&token, &Ask::to("push").body("{\"updates\": [{\"ref\": \"refs/tags/x\"}]}"));
    assert!(denial.closest.unwrap().contains("conditions don't hold"));
    let world = World::of("deny if operation(\"delete\"); allow if true;");
    let denial = world.denial(&world.token().make(), &Ask::to("delete"));
    assert!(denial.closest.unwrap().contains("`deny if operation(\"delete\")` matched"));
}

#[test]
fn only_what_is_read_is_demanded() {
    let world = World::of("allow if request_header(\"x\", $v), request_method(\"GET\");");
    let program = world.compile(&world.token().check("check if client_ip($c)").make()).unwrap();
    let demand = program.demand();
    assert!(demand.wants_key("request_header", "x") && !demand.wants_key("request_header", "y"));
    assert!(demand.wants("client_ip") && demand.wants("repository") && demand.wants("body_truncated"));
    assert!(!demand.wants("request_query") && !demand.wants("request_body") && !demand.wants("body"));
}

#[test]
fn a_decision_explains_itself_as_text_and_as_json() {
    let world = World::of("check if operation($o), $o != \"delete\"; allow if operation(\"read\");");
    let token = world.token().make();
    let allow = explain(&world.decide(&token, &Ask::to("read")));
    assert!(allow.to_string().starts_with("allow by grant g, with hub/app\n"), "{allow}");
    let deny = explain(&world.decide(&token, &Ask::to("delete")));
    let text = deny.to_string();
    assert!(text.starts_with("deny (policy_denied) by grant g\n"), "{text}");
    assert!(text.contains("✗ delete repository(\"o\", \"r\")"), "{text}");
    assert!(text.contains("failed, policy: check if operation($o), $o != \"delete\""), "{text}");
    let json = serde_json::to_value(&deny).unwrap();
    assert_eq!((json["reason"].as_str(), json["failed_item"].as_u64()), (Some("policy_denied"), Some(0)));
}
