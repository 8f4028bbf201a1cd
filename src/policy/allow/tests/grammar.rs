//! The grammar and its one spelling.

use proptest::prelude::*;

use super::super::*;
use crate::service::Datalog;
use crate::token::ast;

fn line(text: &str) -> AllowLine {
    AllowLine::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn wrong(text: &str) -> String {
    AllowLine::parse(text).unwrap_err().to_string()
}

#[test]
fn a_line_prints_in_one_spelling_whatever_its_spaces() {
    for (given, printed) in [
        ("mail: only read, flag", "mail: only read, flag"),
        ("  mail/work :only read,flag ", "mail/work: only read, flag"),
        ("calendar:all except delete", "calendar: all except delete"),
        ("x:all", "x: all"),
        ("x: none", "x: none"),
        (
            "github: only read, push where repo is acme/site and ref is refs/heads/agent/** or refs/heads/wip/*",
            "github: only read, push where repo is acme/site and ref is refs/heads/agent/** or refs/heads/wip/*",
        ),
        ("github: only push where ref is {a,b}/*, read", "github: only push where ref is {a,b}/*, read"),
        (
            "github: only label where label is \"good first issue\"",
            "github: only label where label is \"good first issue\"",
        ),
        ("github: only label where label is \"or\" or bug", "github: only label where label is \"or\" or bug"),
        ("github: only label where label is \"a,b\"", "github: only label where label is \"a,b\""),
        ("github: only label where label is \"bug\"", "github: only label where label is bug"),
    ] {
        assert_eq!(line(given).to_string(), printed);
        assert_eq!(line(printed), line(given));
    }
}

#[test]
fn what_is_no_line_is_told_with_its_column_and_what_is_accepted() {
    for (text, expected) in [
        ("", "use a service, a colon, and what it may do, as in `mail: only read` (column 1)"),
        ("mail only read", "use a service, a colon, and what it may do, as in `mail: only read` (column 1)"),
        ("mail:", "nothing follows the colon: use `all`, `all except …`, `only …` or `none` (column 6)"),
        ("mail: read", "`read` is no clause: use `all`, `all except …`, `only …` or `none` (column 7)"),
        ("mail: only", "a verb is missing here (column 11)"),
        ("mail: only read,", "a verb is missing here (column 17)"),
        ("mail: only ,read", "a verb is missing here (column 12)"),
        ("mail: only where", "`where` is not a verb (column 12)"),
        ("mail: only re*d", "`re*d` is not a verb (column 12)"),
        ("mail: none at all", "`at` is not expected here: use nothing after `none` (column 12)"),
        ("mail: all but x", "`but` is not expected here: use `except`, or end the line (column 11)"),
        ("mail: all except", "a verb is missing here (column 17)"),
        ("mail: only read where", "a selector is missing here (column 22)"),
        ("mail: only read where folder", "use `is` and a pattern behind `folder` (column 29)"),
        ("mail: only read where folder is", "a pattern is missing here (column 32)"),
        ("mail: only read where folder is a or", "a pattern is missing here (column 37)"),
        ("mail: only read where folder is a and", "a selector is missing here (column 38)"),
        ("mail: only read where folder is \"a", "the quote is never closed (column 33)"),
        ("mail: only read where folder is \"\"", "a pattern is missing here (column 33)"),
        ("mail: only read where folder is \"a\"b", "a space or a comma is missing behind the pattern (column 36)"),
    ] {
        assert_eq!(wrong(text), expected, "{text}");
    }
    assert!(wrong("m/a/b: all").contains("`a/b` is not an account"));
    assert!(wrong("mail: only x where y is [").contains("is not a pattern"));
    assert!(wrong("mail: only x where y is or").contains("quote it"));
    assert!(wrong("mäil: all").contains("is not a name for a service"));
    assert!(wrong(&format!("mail: only {}", "x, ".repeat(4000))).contains("longer"));
}

#[test]
fn r155_an_empty_list_is_no_line() {
    assert!(AllowLine::parse("mail: only").is_err());
    assert!(AllowLine::parse("mail: all except").is_err());
}

#[test]
fn a_check_holds_the_line_and_nothing_else() {
    let text = line("github: only label where label is \"a b\" or x\\*y").check_text();
    let parsed = Datalog::parse(&format!("{text};"), "t").unwrap();
    assert_eq!(parsed.checks.len(), 1);
    let ops = &parsed.checks[0].statement.queries[0].expressions[0].ops;
    let expected = "github: only label where label is \"a b\" or x\\*y";
    assert!(matches!(&ops[0], ast::Op::Value(ast::Term::Str(receiver)) if receiver == expected), "{ops:?}");
}

fn word() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_.-]{0,8}".prop_filter("a keyword", |word| {
        !["all", "except", "only", "none", "where", "is", "and", "or"].contains(&word.as_str())
    })
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/*?]{1,10}",
        "[a-z ,#:/*]{1,10}".prop_filter("only spaces", |text| !text.trim().is_empty()),
        Just("{a,b}/**".to_owned()),
        Just("and".to_owned()),
        Just("\\*".to_owned()),
    ]
}

fn any_line() -> impl Strategy<Value = AllowLine> {
    let named = |word: String| Word { word: Arc::<str>::from(word), column: 1 };
    let condition = (word(), prop::collection::vec(pattern(), 1..3)).prop_map(move |(selector, patterns)| Condition {
        selector: named(selector),
        patterns: patterns.into_iter().map(Arc::from).collect(),
    });
    let item = (word(), prop::collection::vec(condition, 0..3))
        .prop_map(move |(verb, conditions)| OnlyItem { verb: named(verb), conditions });
    let clause = prop_oneof![
        Just(Clause::All),
        Just(Clause::None),
        prop::collection::vec(word(), 1..4)
            .prop_map(move |verbs| Clause::AllExcept(verbs.into_iter().map(named).collect())),
        prop::collection::vec(item, 1..4).prop_map(Clause::Only),
    ];
    (word(), prop::option::of(word()), clause).prop_map(|(service, account, clause)| AllowLine {
        service: Word { word: ServiceName::parse(&service).unwrap(), column: 1 },
        account: account.map(Arc::from),
        clause,
    })
}

proptest! {
    #[test]
    fn every_line_reads_back_as_itself(line in any_line()) {
        let printed = line.to_string();
        prop_assert_eq!(&AllowLine::parse(&printed).unwrap(), &line, "{}", printed);
    }

    #[test]
    fn no_text_panics(text in "[a-z :,/\"{}\\[\\]*\\\\é]{0,60}") {
        let _ = AllowLine::parse(&text);
    }

    #[test]
    fn no_words_panic(words in prop::collection::vec("mail:|only|all|except|read|where|is|and|or|,|none|\"|a/\\*\\*|[ -~]", 0..12)) {
        if let Ok(line) = AllowLine::parse(&words.join(" ")) {
            prop_assert_eq!(AllowLine::parse(&line.to_string()).unwrap(), line);
        }
    }
}
