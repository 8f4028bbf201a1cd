//! Words are looked up, and a word that is not there is an error.

use super::*;

#[test]
fn an_unknown_word_is_an_error_with_the_nearest() {
    for (text, expected) in [
        ("hbu: all", "unknown service `hbu`: did you mean `hub`? (column 1)"),
        ("mail: all", "unknown service `mail`: use one of `hub` (column 1)"),
        ("hub: only raed", "unknown verb `raed`: did you mean `read`? (column 11)"),
        ("hub: only read, flag", "unknown verb `flag`: use one of `read`, `push`, `delete` (column 17)"),
        ("hub: all except fetch", "unknown verb `fetch`: use one of `read`, `push`, `delete` (column 17)"),
        ("hub: only read where repos is a/b", "unknown selector `repos`: did you mean `repo`? (column 22)"),
        ("hub: only read where ref is a", "`ref` says nothing about `read`: no operation of it has one (column 22)"),
    ] {
        assert_eq!(resolve(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_resolved_line_tells_its_parts() {
    let line = resolve("hub/work: only read, push where repo is a/* or b/c and ref is x").unwrap();
    assert_eq!((line.service().as_str(), line.account()), ("hub", Some("work")));
    assert_eq!(line.predicates(), ["discover_service", "ref_update", "repository"]);
    assert_eq!(line.items()[1].verb().as_ref(), "push");
    let conditions = line.items()[1].conditions();
    assert_eq!(conditions[0].selector().name().as_ref(), "repo");
    assert_eq!(conditions[0].patterns().collect::<Vec<_>>(), ["a/*", "b/c"]);
    assert_eq!(resolve("hub: all").unwrap().predicates(), [""; 0]);
}
