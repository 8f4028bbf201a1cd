//! The decoders through the room's door, on bodies as clients and attackers send them.

mod form;
mod git;
mod graphql;
mod json;
mod multipart;

use std::sync::Arc;

use super::*;
use crate::facts::Key;

/// A tree from its JSON, for comparing.
fn tree(json: serde_json::Value) -> Term {
    match json {
        serde_json::Value::Null => Term::Null,
        serde_json::Value::Bool(value) => Term::Bool(value),
        serde_json::Value::Number(number) => Term::Integer(number.as_i64().unwrap()),
        serde_json::Value::String(text) => Term::str(text),
        serde_json::Value::Array(items) => Term::Array(items.into_iter().map(tree).collect()),
        serde_json::Value::Object(entries) => Term::Map(Arc::new(
            entries.into_iter().map(|(key, value)| (Key::Str(key.as_str().into()), tree(value))).collect(),
        )),
    }
}

fn bounds(paths: &[&str]) -> Bounds {
    Bounds { body_paths: BodyPaths::parse(paths).unwrap(), ..Bounds::default() }
}

/// What is wrong with a body; panics if nothing is.
fn failure(decoded: Decoded) -> String {
    match decoded {
        Decoded::Failed(what) => what,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn r100_a_whole_body_is_judged_whole_or_not_at_all() {
    let exactly = |size: usize| format!("\"{}\"", "a".repeat(size - 2));
    let bounds = Bounds { max_decoded: 1 << 20, ..Bounds::default() };
    let json = |bytes: &[u8], complete| decode(&Decoder::Json, "", "", bytes, complete, &bounds);
    assert!(matches!(json(exactly(1 << 20).as_bytes(), true), Decoded::Ready(_)));
    assert_eq!(json(exactly((1 << 20) + 1).as_bytes(), true), Decoded::TooLarge);
    assert_eq!(json(exactly((1 << 20) + 1).as_bytes(), false), Decoded::TooLarge);
    assert_eq!(json(exactly(1 << 20).as_bytes(), false), Decoded::NeedMore);
    let bomb = zstd::bulk::compress(exactly((1 << 20) + 1).as_bytes(), 3).unwrap();
    assert_eq!(decode(&Decoder::Json, "", "zstd", &bomb, true, &bounds), Decoded::TooLarge);
}

#[test]
fn r92_a_compressed_body_is_judged_as_the_server_will_read_it() {
    let body = zstd::bulk::compress(br#"{"action":"delete"}"#, 3).unwrap();
    let decoded = |encoding| decode(&Decoder::Json, "application/json", encoding, &body, true, &Bounds::default());
    assert_eq!(decoded("zstd"), Decoded::Ready(tree(serde_json::json!({"action": "delete"}))));
    for encoding in ["", "gzip", "br", "unknown", "zstd, zstd"] {
        failure(decoded(encoding));
    }
}

#[test]
fn what_reads_nothing_fails_and_says_so() {
    for decoder in [Decoder::None, Decoder::Exec("x".into())] {
        failure(decode(&decoder, "", "", b"", true, &Bounds::default()));
    }
    assert_eq!(inflate("", b"abc", 2), Err(Decoded::TooLarge));
    assert_eq!(inflate("identity", b"abc", 3).unwrap().as_ref(), b"abc");
}
