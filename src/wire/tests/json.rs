use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::facts::count_nodes;

fn read(text: &str) -> Decoded {
    decode(&Decoder::Json, "application/json", "", text.as_bytes(), true, &Bounds::default())
}

fn ready(text: &str) -> Term {
    match read(text) {
        Decoded::Ready(term) => term,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn values_come_out_as_they_stand() {
    let text = r#" { "a" : [ 1 , -2 , true , null , { } , [ ] ] , "b\u0041\n\/" : "ü\ud83d\ude00\"\\" } "#;
    assert_eq!(ready(text), tree(json!({"a": [1, -2, true, null, {}, []], "bA\n/": "ü😀\"\\"})));
    assert_eq!(ready("9223372036854775807"), Term::Integer(i64::MAX));
    assert_eq!(ready("-9223372036854775808"), Term::Integer(i64::MIN));
}

#[test]
fn a_number_that_is_no_64_bit_integer_is_its_literal() {
    for literal in ["9223372036854775808", "1.0", "1e3", "-0.5E-7", "123456789012345678901234567890"] {
        assert_eq!(ready(literal), Term::str(literal));
    }
    assert_eq!(ready("-0"), Term::Integer(0));
}

#[test]
fn r94_a_key_twice_is_unreadable_wherever_it_stands() {
    for text in [
        r#"{"action":"read","action":"delete"}"#,
        r#"{"action":"read","\u0061ction":"delete"}"#,
        r#"{"a":{"b":[{"x":1,"y":2,"x":3}]}}"#,
        r#"{"":1,"":2}"#,
        // what differs only in case is one field to some servers
        r#"{"action":"read","Action":"delete"}"#,
        r#"{"status":1,"ſtatus":2}"#,
        r#"{"key":1,"\u212aey":2}"#,
    ] {
        assert!(failure(read(text)).contains("twice"), "{text}");
    }
    ready(r#"[{"x":1},{"x":2}]"#);
    ready(r#"{"a":{"a":{"a":1}}}"#);
}

#[test]
fn r94_also_outside_the_demanded_paths_and_in_large_objects() {
    let read = |text: &str| decode(&Decoder::Json, "", "", text.as_bytes(), true, &bounds(&["model"]));
    failure(read(r#"{"model":"x","other":{"a":1,"a":2}}"#));
    failure(read(r#"{"model":"x","Model":"y"}"#));
    // outside, case is text: environments have both
    assert_eq!(
        read(r#"{"model":"x","e":{"http_proxy":1,"HTTP_PROXY":2}}"#),
        Decoded::Ready(tree(json!({"model": "x"})))
    );
    let members: Vec<String> = (0..300).map(|i| format!("\"k{i}\":{i}")).collect();
    assert_eq!(count_nodes(&ready(&format!("{{{}}}", members.join(",")))), 300);
    for at in [0, 23, 24, 25, 299] {
        failure(self::read(&format!("{{{},\"k{at}\":0}}", members.join(","))));
    }
}

#[test]
fn only_demanded_paths_are_kept() {
    let body = r#"{"model":"m","stream":true,"tools":[{"name":"a","input":{"x":1}},"odd",{"n":1}],"messages":[[1,2],{"role":"u"}],
        "deep":{"a":{"name":1,"b":2},"c":3},"_method":"DELETE"}"#;
    let read = |paths: &[&str]| decode(&Decoder::Json, "", "", body.as_bytes(), true, &bounds(paths));
    assert_eq!(
        read(&["model", "tools.*.name", "deep.*.name"]),
        Decoded::Ready(tree(json!({
            "model": "m", "tools": [{"name": "a"}, "odd", {}], "deep": {"a": {"name": 1}, "c": 3}, "_method": "DELETE",
        })))
    );
    assert_eq!(
        read(&["messages.role", "tools", "deep.a.b", "deep.*.name"]),
        Decoded::Ready(tree(json!({
            "tools": [{"name": "a", "input": {"x": 1}}, "odd", {"n": 1}], "deep": {"a": {"name": 1, "b": 2}, "c": 3},
            "_method": "DELETE",
        })))
    );
    assert_eq!(decode(&Decoder::Json, "", "", b"[1]", true, &bounds(&["a"])), Decoded::Ready(tree(json!([]))));
}

#[test]
fn a_body_path_is_keys_and_stars() {
    for wrong in ["", "a.", ".a", "a..b", "tools.0.name"] {
        assert!(BodyPaths::parse(&[wrong]).is_err(), "{wrong}");
    }
    assert!(BodyPaths::parse::<&str>(&[]).unwrap().is_everything());
}

#[test]
fn what_is_not_strictly_json_is_unreadable() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "[1 2]",
        "1 2",
        "{} {}",
        "nul",
        "truee",
        "NaN",
        "Infinity",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "0x1",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\t\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "\u{feff}{}",
        "// c\n1",
        "[1]\u{a0}",
        "{\"a\" 1}",
        "{1:2}",
        "[",
        "[1",
        "{\"a\"",
        "{\"a\":",
        "\u{0}",
    ] {
        failure(read(text));
    }
    let raw = |bytes: &[u8]| decode(&Decoder::Json, "", "", bytes, true, &Bounds::default());
    for bytes in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\xfe\xff\x00\"", b"\"\xc0\xaf\""] {
        failure(raw(bytes));
    }
    for media in ["application/json; charset=utf-16", "application/json; charset=latin1", "application/json; a=b; a=c"]
    {
        failure(decode(&Decoder::Json, media, "", b"{}", true, &Bounds::default()));
    }
    assert!(matches!(
        decode(&Decoder::Json, "application/json; charset=\"UTF-8\"", "", b"{}", true, &Bounds::default()),
        Decoded::Ready(_)
    ));
}

#[test]
fn depth_and_nodes_are_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    ready(&nested(128));
    failure(read(&nested(129)));
    failure(read(&"[".repeat(1_000_000)));
    failure(read(&"{\"a\":".repeat(1_000_000)));
    let many = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    assert_eq!(count_nodes(&ready(&many(512))), 512);
    assert_eq!(read(&many(513)), Decoded::Truncated);
    assert_eq!(read(&format!("[{}]", vec!["[]"; 513].join(","))), Decoded::Truncated);
}

#[test]
fn a_failure_never_repeats_the_body() {
    for text in ["{\"s3cret\":1,\"s3cret\":2}", "s3cret", "[s3cret]", "{\"a\":s3cret}", "\"s3cret"] {
        assert!(!failure(read(text)).contains("s3cret"));
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        ".{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            proptest::collection::btree_map("[a-zß\"\\\\]{0,3}", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_writes_comes_back(value in any_json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(read(&text), Decoded::Ready(tree(value.clone())));
        }
    }

    #[test]
    fn what_is_accepted_serde_accepts_too(text in "[\\[\\]{}:, \"\\\\atrufelsn01.eE+-]{0,20}") {
        if let Decoded::Ready(_) = read(&text) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
        } else {
            // the other way round only repeated keys are left
            let lax = serde_json::from_str::<serde_json::Value>(&text);
            prop_assert!(lax.is_err() || failure(read(&text)).contains("twice"), "{}", text);
        }
    }

    #[test]
    fn a_path_keeps_what_stands_there_and_nothing_else(value in any_json(), key in "[a-z]{1,2}") {
        let text = json!({"x": value, "y": {key.clone(): value, "Y": value}}).to_string();
        let read = |paths: &[&str]| decode(&Decoder::Json, "", "", text.as_bytes(), true, &bounds(paths));
        prop_assert_eq!(read(&["x"]), Decoded::Ready(tree(json!({"x": value}))));
        if key != "y" {
            prop_assert_eq!(read(&[&format!("y.{key}")]), Decoded::Ready(tree(json!({"y": {key: value}}))));
        }
    }
}
