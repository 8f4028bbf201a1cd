//! Bodies: what the bytes of a request mean (DESIGN §5).
//!
//! Layer 1, pure: bytes in, a tree out. The rule of the room is that a tree says what a real server would
//! understand. Whatever two servers could read differently (duplicate keys, two operations without a
//! name, a boundary inside a boundary) is unreadable, and an unreadable body is refused by the
//! authorizer's own check. The text of a failure says what was wrong and never repeats the body.

mod body_paths;
mod decoder;
mod encoding;
mod form;
mod git;
mod graphql;
mod json;
mod media;
mod multipart;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use body_paths::{BodyPathError, BodyPaths};
pub use decoder::{Decoder, DecoderError, Reach};
use encoding::{EncodingError, Upto};
pub use git::PushReport;

use crate::facts::{Query, Term};

/// A field that frameworks read as the request's method (R97): kept whatever `body_paths` says.
const METHOD_FIELD: &str = "_method";

/// How much work a decoder may do.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Bytes that a whole body may have, before and behind its `Content-Encoding`: `max_body`.
    pub max_decoded: usize,
    /// Bytes, behind the `Content-Encoding`, within which a prefix decoder must have come to its end:
    /// `max_decode_prefix`.
    pub max_prefix: usize,
    /// Nodes (scalars and empty containers) that a tree may have: `max_body_facts`.
    pub max_nodes: usize,
    /// Which nodes of a JSON, form or GraphQL body are kept.
    pub body_paths: BodyPaths,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { max_decoded: 32 << 20, max_prefix: 1 << 20, max_nodes: 512, body_paths: BodyPaths::default() }
    }
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
    match decoder.reach() {
        Reach::Prefix => decode_prefix(decoder, encoding, bytes, complete, bounds),
        Reach::Whole if bytes.len() > bounds.max_decoded => Decoded::TooLarge,
        Reach::Whole if !complete => Decoded::NeedMore,
        Reach::Whole => match plain(encoding, bytes, true, Upto::End(bounds.max_decoded)) {
            Ok((bytes, _)) => decode_whole(decoder, media_type, &bytes, bounds),
            Err(decoded) => decoded,
        },
        Reach::Nothing => Decoded::Failed("no decoder is configured".into()),
    }
}

fn decode_whole(decoder: &Decoder, media_type: &str, bytes: &[u8], bounds: &Bounds) -> Decoded {
    match decoder {
        Decoder::Json => match media::Media::parse(media_type).and_then(|media| media.require_utf8()) {
            Ok(()) => {
                json::parse(bytes, &bounds.body_paths, bounds.max_nodes).map_or_else(Decoded::from, Decoded::Ready)
            }
            Err(what) => Decoded::Failed(format!("not readable as JSON: {what}")),
        },
        Decoder::Form => form::parse(media_type, bytes, &bounds.body_paths, bounds.max_nodes),
        Decoder::Multipart => multipart::parse(media_type, bytes, bounds.max_nodes),
        Decoder::Graphql => graphql::parse(media_type, bytes, bounds),
        Decoder::Exec(_) => Decoded::Failed("a command decodes this body".into()),
        Decoder::GitReceivePack | Decoder::GitUploadPack | Decoder::None => {
            Decoded::Failed("no decoder for a whole body".into())
        }
    }
}

fn decode_prefix(decoder: &Decoder, encoding: &str, bytes: &[u8], complete: bool, bounds: &Bounds) -> Decoded {
    // One byte more than may be needed, to tell "at the bound" from "beyond it".
    let most = bounds.max_prefix.saturating_add(1);
    let (plain, ended) = match plain(encoding, bytes, complete, Upto::Prefix(most)) {
        Ok(plain) => plain,
        Err(decoded) => return decoded,
    };
    let seen = plain.get(..bounds.max_prefix).unwrap_or(&plain);
    let all = ended && plain.len() <= bounds.max_prefix;
    let decoded = match decoder {
        Decoder::GitReceivePack => git::receive_pack(seen, all, bounds.max_nodes),
        _ => git::upload_pack(seen, all, bounds.max_nodes),
    };
    match decoded {
        Decoded::NeedMore if plain.len() > bounds.max_prefix || bytes.len() > bounds.max_decoded => Decoded::TooLarge,
        decoded => decoded,
    }
}

/// The bytes without their encoding, and whether they are all.
fn plain<'a>(encoding: &str, bytes: &'a [u8], complete: bool, upto: Upto) -> Result<(Cow<'a, [u8]>, bool), Decoded> {
    if encoding::is_identity(encoding) {
        return Ok((Cow::Borrowed(bytes), complete));
    }
    match encoding::undo(encoding, bytes, complete, upto) {
        Ok(undone) => Ok((Cow::Owned(undone.bytes), undone.ended)),
        Err(EncodingError::TooLarge) => Err(Decoded::TooLarge),
        Err(EncodingError::Wrong(what)) => Err(Decoded::Failed(what.into())),
    }
}

/// Undoes a `Content-Encoding` of a complete body within `max` bytes; for `exec:` decoders, which get what
/// it gives. The error is [`Decoded::TooLarge`] or [`Decoded::Failed`].
pub fn inflate<'a>(encoding: &str, bytes: &'a [u8], max: usize) -> Result<Cow<'a, [u8]>, Decoded> {
    if bytes.len() > max {
        return Err(Decoded::TooLarge);
    }
    plain(encoding, bytes, true, Upto::End(max)).map(|(bytes, _)| bytes)
}

/// Decodes the GraphQL request that stands in a query string (`GET /graphql?query=…&variables=…`), as the
/// `graphql` decoder does a body. Without any GraphQL parameter it fails.
pub fn decode_graphql_query(query: &Query, bounds: &Bounds) -> Decoded {
    graphql::parse_query(query, bounds)
}

/// Whether a query string has GraphQL parameters. Servers prefer them to the body's, or the other way
/// round: a request with a GraphQL body and these is ambiguous and unreadable.
pub fn has_graphql_parameters(query: &Query) -> bool {
    graphql::has_parameters(query)
}
