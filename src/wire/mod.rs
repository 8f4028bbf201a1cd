//! Bodies: what the bytes of a request mean (DESIGN §5).
//!
//! Layer 1, pure: bytes in, a tree out. The rule of the room is that a tree says what a real server would
//! understand. Whatever two servers could read differently (duplicate keys, two operations without a
//! name, a boundary inside a boundary) is unreadable, and an unreadable body is refused by the
//! authorizer's own check. The text of a failure says what was wrong and never repeats the body.

mod body_paths;
mod decoder;

pub use body_paths::{BodyPathError, BodyPaths};
pub use decoder::{Decoder, DecoderError, Reach};

use crate::facts::{Query, Term};

/// How much work a decoder may do.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Bytes that may come out of a `Content-Encoding`, and that a whole body may have: `max_body`. A
    /// prefix decoder is bounded by `max_prefix` instead.
    pub max_decoded: usize,
    /// Bytes, decoded, within which a prefix decoder must have come to its end: `max_decode_prefix`.
    pub max_prefix: usize,
    /// Nodes (scalars and empty containers) that a tree may have: `max_body_facts`.
    pub max_nodes: usize,
    /// Which nodes are kept.
    pub body_paths: BodyPaths,
}

/// What a decoder makes of the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// The tree.
    Ready(Term),
    /// Ask again with more bytes. Never the answer to a complete body.
    NeedMore,
    /// A readable body with more nodes than allowed: `body_truncated(true)`.
    Truncated,
    /// More bytes than may be read for judging, before or behind a `Content-Encoding`:
    /// `body_too_large_to_judge`, 413, before any contact with the upstream (R100).
    TooLarge,
    /// Unreadable: `body_undecodable(true)`. What was wrong, without repeating the body.
    Failed(String),
}

/// Decodes a body, or the beginning of one.
///
/// `media_type` is the `Content-Type` with its parameters, `encoding` the `Content-Encoding` (empty: none),
/// `bytes` what has arrived so far, as sent, `complete` whether that is all. `Decoder::None` and
/// `Decoder::Exec` are not decoded here: they fail.
pub fn decode(
    decoder: &Decoder,
    media_type: &str,
    encoding: &str,
    bytes: &[u8],
    complete: bool,
    bounds: &Bounds,
) -> Decoded {
    let _ = (decoder, media_type, encoding, bytes, complete, bounds);
    todo!()
}

/// Undoes a `Content-Encoding` within `max` bytes; for `exec:` decoders, which get what it gives.
/// `Err` says what was wrong.
pub fn inflate(encoding: &str, bytes: &[u8], max: usize) -> Result<Vec<u8>, String> {
    let _ = (encoding, bytes, max);
    todo!()
}

/// Decodes the GraphQL request that stands in a query string (`GET /graphql?query=…&variables=…`), as the
/// `graphql` decoder does a body. Without any GraphQL parameter it fails.
pub fn decode_graphql_query(query: &Query, bounds: &Bounds) -> Decoded {
    let _ = (query, bounds);
    todo!()
}

/// Whether a query string has GraphQL parameters. Servers prefer them to the body's, or the other way
/// round: a request with a GraphQL body and these is ambiguous and unreadable.
pub fn has_graphql_parameters(query: &Query) -> bool {
    let _ = query;
    todo!()
}
