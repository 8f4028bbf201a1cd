//! A GraphQL request, as a body, as a bare document and as a query string.
#![no_main]

use kleis::facts::{Query, Term, lookup};
use kleis::wire::{Bounds, Decoded, Decoder, decode, decode_graphql_query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let bounds = Bounds::default();
    let _ = decode(&Decoder::Graphql, "application/json", "", bytes, true, &bounds);
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(query) = Query::parse(Some(text)) {
            let _ = decode_graphql_query(&query, &bounds);
        }
        let request = serde_json::json!({"query": text, "variables": {"a": [1, {"b": null}]}}).to_string();
        let in_json = decode(&Decoder::Graphql, "application/json", "", request.as_bytes(), true, &bounds);
        let bare = decode(&Decoder::Graphql, "application/graphql", "", bytes, true, &bounds);
        if let Decoded::Ready(tree) = &in_json {
            let kind = lookup(tree, &["$operations", "0", "type"]).and_then(Term::as_str);
            assert!(matches!(kind, Some("query" | "mutation" | "subscription")));
            // a document that says `mutation` nowhere is none
            assert!(kind != Some("mutation") || text.contains("mutation"));
        }
        if let Decoded::Ready(tree) = &bare {
            assert!(lookup(tree, &["$operations", "0", "fields"]).is_some());
        }
    }
});
