//! What a line says about an item.

use proptest::prelude::*;

use super::*;
use crate::facts::{Fact, Term};

/// An item by hand.
#[derive(Debug, Clone, Default)]
struct Item {
    operation: Option<String>,
    facts: Vec<Fact>,
}

impl ItemView for Item {
    fn operation(&self) -> Option<&str> {
        self.operation.as_deref()
    }

    fn each(&self, predicate: &str, visit: &mut dyn FnMut(&[Term])) {
        self.facts.iter().filter(|fact| fact.predicate.as_ref() == predicate).for_each(|fact| visit(&fact.terms));
    }
}

/// `push acme/site ref=refs/heads/x ref=…`: an operation, a repository, and more facts.
fn item(text: &str) -> Item {
    let mut words = text.split_whitespace();
    let mut item = Item { operation: words.next().filter(|word| *word != "-").map(str::to_owned), facts: Vec::new() };
    for word in words {
        let fact = match word.split_once('=') {
            Some(("ref", value)) => Fact::new("ref_update", vec![Term::str(value)]),
            Some((_, value)) => Fact::new("discover_service", vec![Term::str(value)]),
            None => Fact::new("repository", word.split('/').map(Term::str).collect::<Vec<_>>()),
        };
        item.facts.push(fact);
    }
    item
}

fn allows(line: &str, text: &str) -> bool {
    satisfied(&resolve(line).unwrap_or_else(|error| panic!("{line}: {error}")), &item(text))
}

#[test]
fn a_clause_covers_what_it_names() {
    for (line, text, expected) in [
        ("hub: all", "fetch a/b", true),
        ("hub: all", "anything", true),
        ("hub: none", "fetch a/b", false),
        ("hub: only read", "fetch a/b", true),
        ("hub: only read", "push a/b", false),
        ("hub: only read, push", "push a/b", true),
        ("hub: all except push", "fetch a/b", true),
        ("hub: all except push", "push a/b", false),
        ("hub: all except push, delete", "delete_repository a/b", false),
        // an operation of no verb could be any verb's: not covered where some are excepted
        ("hub: all except push", "anything", false),
    ] {
        assert_eq!(allows(line, text), expected, "{line} / {text}");
    }
}

#[test]
fn a_fact_tells_operations_of_one_name_apart() {
    assert!(allows("hub: only read", "discover a/b for=git-upload-pack"));
    assert!(!allows("hub: only read", "discover a/b for=git-receive-pack"));
    assert!(!allows("hub: only read", "discover a/b"));
    assert!(!allows("hub: all except push", "discover a/b for=git-receive-pack"));
    assert!(allows("hub: all except push", "discover a/b for=git-upload-pack"));
    // both at once (`?service=a&service=b`): who knows which one the upstream heeds
    for line in ["hub: all except push", "hub: only read", "hub: only push"] {
        assert!(!allows(line, "discover a/b for=git-upload-pack for=git-receive-pack"), "{line}");
    }
}

#[test]
fn a_request_without_an_operation_is_not_covered() {
    for line in ["hub: all", "hub: only read", "hub: all except push", "hub: none"] {
        assert!(!allows(line, "- a/b"), "{line}");
    }
}

#[test]
fn r157_a_condition_needs_a_value_and_every_value_to_match() {
    let line = "hub: only push where ref is refs/heads/dev/*";
    assert!(allows(line, "push a/b ref=refs/heads/dev/x"));
    assert!(allows(line, "push a/b ref=refs/heads/dev/x ref=refs/heads/dev/y"));
    assert!(!allows(line, "push a/b ref=refs/heads/dev/x ref=refs/heads/main"));
    assert!(!allows(line, "push a/b ref=refs/heads/dev/x/y"));
    assert!(!allows(line, "push a/b"));
    let number = Item { operation: Some("push".into()), facts: vec![Fact::new("ref_update", vec![Term::Null])] };
    assert!(!satisfied(&resolve("hub: only push where ref is **").unwrap(), &number));
}

#[test]
fn a_selector_leaves_other_operations_of_its_verb_alone() {
    assert!(allows("hub: only push where ref is x", "discover a/b for=git-receive-pack"));
    assert!(!allows("hub: only push where ref is x and repo is c/d", "discover a/b for=git-receive-pack"));
}

#[test]
fn conditions_and_items_combine_as_they_read() {
    let line = "hub: only read where repo is acme/*, push where repo is acme/site and ref is a or b";
    assert!(allows(line, "fetch acme/other"));
    assert!(!allows(line, "fetch other/site"));
    assert!(allows(line, "push acme/site ref=b"));
    assert!(!allows(line, "push acme/other ref=b"));
    assert!(!allows(line, "push acme/site ref=c"));
    // the same verb twice: either will do
    let twice = "hub: only push where ref is a, push where ref is b";
    assert!(allows(twice, "push x/y ref=a") && allows(twice, "push x/y ref=b"));
    assert!(!allows(twice, "push x/y ref=a ref=b"));
}

#[test]
fn r26_a_selector_may_ignore_case() {
    assert!(allows("hub: only read where repo is Acme/site", "fetch acme/SITE"));
    assert!(!allows("hub: only push where ref is Main", "push a/b ref=main"));
}

#[test]
fn r27_patterns_know_segments() {
    assert!(!allows("hub: only read where repo is acme/*", "fetch acme-evil/x"));
    assert!(!allows("hub: only read where repo is acme", "fetch acme/x"));
    // an owner with a slash in it is not an owner of `acme`
    let odd = Item {
        operation: Some("fetch".into()),
        facts: vec![Fact::new("repository", vec![Term::str("acme/x"), Term::str("y")])],
    };
    assert!(!satisfied(&resolve("hub: only read where repo is acme/*").unwrap(), &odd));
}

fn any_item() -> impl Strategy<Value = Item> {
    let operation =
        prop_oneof![Just("push"), Just("fetch"), Just("discover"), Just("delete_repository"), Just("other"), Just("-")];
    let fact = prop_oneof!["(a|b)/(x|y)", "ref=(a|b|a/b)", "for=git-(upload|receive)-pack"];
    (operation, prop::collection::vec(fact, 0..4))
        .prop_map(|(operation, facts)| item(&format!("{operation} {}", facts.join(" "))))
}

fn any_clause() -> impl Strategy<Value = String> {
    let only = prop_oneof![
        Just("read".to_owned()),
        Just("push".to_owned()),
        Just("delete".to_owned()),
        "read where repo is (a/x|a/\\*|b/\\*\\*)",
        "push where repo is (a/x|\\*/y) and ref is (a|\\*|\\*\\*)",
        "push where ref is (a|b) or (a/\\*|b)",
    ];
    prop_oneof![
        Just("all".to_owned()),
        Just("none".to_owned()),
        prop::sample::subsequence(vec!["read", "push", "delete"], 1..=3)
            .prop_map(|verbs| format!("all except {}", verbs.join(", "))),
        prop::collection::vec(only, 1..3).prop_map(|items| format!("only {}", items.join(", "))),
    ]
}

proptest! {
    #[test]
    fn every_clause_is_within_all_and_holds_none(item in any_item(), clause in any_clause()) {
        let says = |clause: &str| satisfied(&resolve(&format!("hub: {clause}")).unwrap(), &item);
        prop_assert!(!says("none"));
        prop_assert!(!says(&clause) || says("all"));
    }

    #[test]
    fn a_condition_never_adds(item in any_item(), condition in "(repo is (a/x|b/\\*)|ref is (a|\\*))") {
        let says = |clause: &str| satisfied(&resolve(&format!("hub: {clause}")).unwrap(), &item);
        let (one, two) = (format!("only push where {condition}"), format!("only push where repo is a/* and {condition}"));
        prop_assert!(!says(&one) || says("only push"));
        prop_assert!(!says(&two) || says("only push where repo is a/*"));
    }

    #[test]
    fn only_and_except_part_the_verbs(item in any_item()) {
        let says = |clause: &str| satisfied(&resolve(&format!("hub: {clause}")).unwrap(), &item);
        prop_assert!(!(says("only push") && says("all except push")));
        prop_assert_eq!(says("all except push"), says("only read, delete"));
    }

    #[test]
    fn printing_changes_no_meaning(item in any_item(), clause in any_clause()) {
        let line = resolve(&format!("hub: {clause}")).unwrap();
        let again = resolve(&line.line().to_string()).unwrap();
        prop_assert_eq!(satisfied(&line, &item), satisfied(&again, &item));
    }
}
