use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::facts::lookup;

fn body(request: serde_json::Value) -> Decoded {
    decode(&Decoder::Graphql, "application/json", "", request.to_string().as_bytes(), true, &Bounds::default())
}

fn document(text: &str) -> Decoded {
    body(json!({"query": text}))
}

fn operations(decoded: Decoded) -> Term {
    match decoded {
        Decoded::Ready(tree) => lookup(&tree, &["$operations"]).cloned().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// `type name: field field`.
fn summary(decoded: Decoded) -> String {
    let operations = operations(decoded);
    let word = |path: &[&str]| lookup(&operations, path).and_then(Term::as_str).unwrap().to_owned();
    let Some(Term::Array(fields)) = lookup(&operations, &["0", "fields"]) else { panic!() };
    let names: Vec<_> = fields.iter().map(|field| lookup(field, &["name"]).and_then(Term::as_str).unwrap()).collect();
    format!("{} {}: {}", word(&["0", "type"]), word(&["0", "name"]), names.join(" "))
}

#[test]
fn fields_come_with_their_arguments_and_variables_put_in() {
    let decoded = body(json!({
        "query": "mutation M($in: CreateInput!, $n: Int = 5, $s: [State!] = [OPEN], $gone: String, $nil: Int = 3) {
            create(input: $in, first: $n, states: $s, note: $gone, nil: $nil) { id }
            other: close(id: \"a\\u0041\", force: true, x: null, f: 1.5, big: 99999999999999999999, o: {a: [1, $n, $gone], b: $gone})
        }",
        "variables": {"in": {"repositoryId": "R_1", "title": "t"}, "unused": 1, "nil": null},
        "operationName": "M",
    }));
    assert_eq!(
        operations(decoded),
        tree(json!([{"type": "mutation", "name": "M", "fields": [
            {"name": "create", "args": {
                "input": {"repositoryId": "R_1", "title": "t"}, "first": 5, "states": ["OPEN"], "nil": null,
            }},
            {"name": "close", "args": {
                "id": "aA", "force": true, "x": null, "f": "1.5", "big": "99999999999999999999", "o": {"a": [1, 5, null]},
            }},
        ]}]))
    );
}

#[test]
fn the_rest_of_the_request_stays_in_the_tree() {
    let Decoded::Ready(decoded) = body(json!({"query": "{a}", "variables": {"x": 1}, "operationName": null})) else {
        panic!()
    };
    assert_eq!(lookup(&decoded, &["query"]), Some(&Term::str("{a}")));
    assert_eq!(lookup(&decoded, &["variables", "x"]), Some(&Term::Integer(1)));
    let request = json!({"query": "{a}", "variables": {"x": 1}, "model": "m"}).to_string();
    let Decoded::Ready(cut) = decode(&Decoder::Graphql, "", "", request.as_bytes(), true, &bounds(&["model"])) else {
        panic!()
    };
    assert_eq!(lookup(&cut, &["model"]), Some(&Term::str("m")));
    assert_eq!((lookup(&cut, &["query"]), lookup(&cut, &["variables"])), (None, None));
    assert!(lookup(&cut, &["$operations", "0", "type"]).is_some());
}

#[test]
fn r98_the_operation_is_the_one_a_server_would_run() {
    assert_eq!(summary(document("{ viewer { login } }")), "query : viewer");
    assert_eq!(summary(document("query Q { a }")), "query Q: a");
    assert_eq!(summary(document("subscription { a }")), "subscription : a");
    let two = "query Q { a } mutation M { b } # mutation X { y }";
    let chosen = |name: &str| body(json!({"query": two, "operationName": name}));
    assert_eq!(summary(chosen("M")), "mutation M: b");
    assert_eq!(summary(chosen("Q")), "query Q: a");
    failure(document(two));
    failure(chosen(""));
    failure(chosen("X"));
    failure(chosen("q"));
    assert_eq!(summary(body(json!({"query": "query Q {a}", "operationName": ""}))), "query Q: a");
    failure(body(json!({"query": "query Q {a}", "operationName": "R"})));
    for text in ["{ a } query Q { b }", "{ a } { b }", "query Q { a } query Q { b }", "{ a } mutation M { b }"] {
        failure(body(json!({"query": text, "operationName": "Q"})));
    }
}

#[test]
fn r98_fields_hide_neither_in_fragments_nor_behind_aliases_or_directives() {
    assert_eq!(
        summary(document(
            "mutation { read: deleteRepo(id: 1) ...F ... on Mutation @include(if: false) { c @skip(if: true) ...G } ...G }
             fragment F on Mutation { b ...G } fragment G on Mutation { d } fragment Unused on X { e }"
        )),
        "mutation : deleteRepo b d c"
    );
    let aliases: Vec<String> = (0..5).map(|i| format!("a{i}: merge(id: {i})")).collect();
    assert_eq!(
        summary(document(&format!("mutation {{ {} }}", aliases.join(" ")))),
        "mutation : merge merge merge merge merge"
    );
}

#[test]
fn r98_ambiguous_and_invalid_documents_are_unreadable() {
    for text in [
        "",
        "query",
        "{",
        "{}",
        "{ a",
        "a",
        "mutation M { b } }",
        "fragment F on Q { a }",
        "{ ...F }",
        "{ a { ...F } }",
        "{ ...F } fragment F on Q { ...F }",
        "{ ...F } fragment F on Q { a { ...G } } fragment G on Q { b { ...F } }",
        "{ a } fragment F on Q { ...G } fragment G on Q { ...F }",
        "{ ...F } fragment F on Q { a } fragment F on Q { b }",
        "type T { a: Int } { a }",
        "extend type T { a: Int } query { a }",
        "{ a(x: 1, x: 2) }",
        "{ a(x: {y: 1, y: 2}) }",
        "{ a(x: $v) }",
        "query ($v: Int, $v: Int) { a(x: $v) }",
        "query ($v: Int!) { a(x: $v) }",
        "{ a(x: \"\\ud800\") }",
        "{ a(x: \"\\q\") }",
        "{ a(x: 01) }",
        "{ a(x: ) }",
        "query ($v: Int = $w) { a }",
        "{ a \u{0} }",
        "mutation\u{200b}{ a }",
    ] {
        failure(document(text));
    }
}

#[test]
fn r98_batches_and_stored_documents_are_unreadable() {
    failure(body(json!([{"query": "{a}"}, {"query": "mutation {b}"}])));
    failure(body(json!([])));
    failure(body(json!("{a}")));
    failure(body(json!({})));
    failure(body(json!({"query": null})));
    failure(body(json!({"query": ["{a}"]})));
    for key in ["id", "documentId", "doc_id", "queryId", "hash", "sha256Hash"] {
        failure(body(json!({key: "x"})));
        failure(body(json!({"query": "{a}", key: "x"})));
    }
    let hashed =
        |hash: &str| json!({"query": "{a}", "extensions": {"persistedQuery": {"version": 1, "sha256Hash": hash}}});
    let right = "e70c9d4b4b0c5cd2b3a5c8bf7c6a1b2b";
    failure(body(hashed(right)));
    failure(body(json!({"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "x"}}})));
    let right = hex::encode(<sha2::Sha256 as sha2::Digest>::digest("{a}"));
    assert_eq!(summary(body(hashed(&right))), "query : a");
    for request in [
        r#"{"query":"{a}","query":"mutation{b}"}"#,
        r#"{"query":"{a}","Query":"mutation{b}"}"#,
        r#"{"query":"{a}","variables":"{}"}"#,
        r#"{"query":"{a}","operationName":1}"#,
        r#"{"query":"{a}","extensions":1}"#,
        r#"{"query":"{a}","$operations":[]}"#,
        "query=%7Ba%7D",
    ] {
        failure(decode(&Decoder::Graphql, "application/json", "", request.as_bytes(), true, &Bounds::default()));
    }
}

#[test]
fn r98_a_query_string_is_read_as_a_body_is() {
    let get = |raw: &str| decode_graphql_query(&Query::parse(Some(raw)).unwrap(), &Bounds::default());
    assert_eq!(summary(get("query=mutation%7Bb%7D")), "mutation : b");
    assert_eq!(
        operations(get("query=query($v:Int)%7Ba(x:$v)%7D&variables=%7B%22v%22:2%7D&other=1")),
        tree(json!([{"type": "query", "name": "", "fields": [{"name": "a", "args": {"x": 2}}]}]))
    );
    for raw in [
        "",
        "variables=%7B%7D",
        "query=%7Ba%7D&query=mutation%7Bb%7D",
        "query=%7Ba%7D&variables=x",
        "query=%7Ba%7D&documentId=1",
        "query=%7Ba%7D&variables=%7B%22v%22:1,%22v%22:2%7D",
        "extensions=%7B%22persistedQuery%22:%7B%7D%7D",
    ] {
        failure(get(raw));
    }
    assert!(has_graphql_parameters(&Query::parse(Some("x=1&operationName=M")).unwrap()));
    assert!(!has_graphql_parameters(&Query::parse(Some("x=1")).unwrap()));
}

#[test]
fn a_bare_document_is_read_when_the_type_says_so() {
    let raw = |media: &str, text: &str| decode(&Decoder::Graphql, media, "", text.as_bytes(), true, &Bounds::default());
    assert_eq!(summary(raw("application/graphql; charset=utf-8", "mutation { b }")), "mutation : b");
    failure(raw("application/json", "mutation { b }"));
    failure(raw("multipart/form-data; boundary=x", "--x--"));
}

#[test]
fn block_strings_are_text() {
    let decoded = document("{ a(x: \"\"\"\n    mutation { b }\n      \\\"\"\" c\n  \"\"\", y: \"{\") }");
    assert_eq!(
        lookup(&operations(decoded), &["0", "fields", "0", "args", "x"]),
        Some(&Term::str("mutation { b }\n  \"\"\" c"))
    );
}

#[test]
fn depth_tokens_and_fields_are_bounded() {
    for open in ["{a", "{a(x:[", "{a(x:{y:{y:"] {
        failure(document(&open.repeat(100_000)));
    }
    failure(document(&format!("{{a(x:{}1{})}}", "{y:".repeat(20_000), "}".repeat(20_000))));
    failure(document(&format!("{{a(x:{}1{})}}", "[".repeat(20_000), "]".repeat(20_000))));
    assert_eq!(document(&format!("{{{}}}", "a ".repeat(600))), Decoded::Truncated);
    failure(document(&format!("{{{}}}", "a ".repeat(60_000))));
    // fragments that spread twice each would double with every step
    let chain: String = (0..200).map(|i| format!("fragment F{i} on Q {{ ...F{} ...F{} }} ", i + 1, i + 1)).collect();
    assert_eq!(summary(document(&format!("{{ ...F0 }} {chain} fragment F200 on Q {{ a }}"))), "query : a");
    // one large variable used everywhere
    let list: Vec<i64> = (0..400).collect();
    let uses = "a(x: $v) ".repeat(500);
    assert_eq!(
        body(json!({"query": format!("query($v: [Int]) {{ {uses} }}"), "variables": {"v": list}})),
        Decoded::Truncated
    );
}

proptest! {
    #[test]
    fn noise_never_panics(text in "[{}()\\[\\]:!$@.\"\\\\#,a-c0-9 \n\u{feff}=&|-]{0,60}") {
        let _ = document(&text);
        let _ = document(&format!("query Q($a: Int = 1) {{ {text} }}"));
        let _ = document(&format!("{{ a(x: {text}) }}"));
    }

    #[test]
    fn strings_mean_what_they_say(text in ".{0,12}") {
        let literal = serde_json::to_string(&text).unwrap();
        let found = operations(document(&format!("{{ a(x: {literal}) }}")));
        prop_assert_eq!(lookup(&found, &["0", "fields", "0", "args", "x"]), Some(&Term::str(&text)));
    }
}
