//! Putting a secret into a request: the last thing that happens to it.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use zeroize::Zeroizing;

use super::strip::Head;
use crate::service::{Injection, Piece, SecretTemplate, Target};
use crate::words::Secret;

/// What may stand in a query value or a segment as it is (RFC 3986 §2.3).
const UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// A segment also has these; Telegram's tokens have a colon, and not every server decodes one.
const SEGMENT: AsciiSet = UNRESERVED.remove(b':').remove(b'@');

/// Why a secret can't be put where the manifest wants it. The text says nothing of the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsendable(pub(super) String);

/// Whether the request has the place that an injection fills.
pub(super) fn has_place(injection: &Injection, head: &Head) -> bool {
    match injection.target() {
        Target::Header(_) | Target::Query(_) => true,
        Target::Segment(index) => segment_range(&head.path, *index)
            .and_then(|range| head.path.get(range))
            .is_some_and(|text| fits(injection.template(), text)),
    }
}

/// Renders one injection into the head.
pub(super) fn inject(injection: &Injection, secret: &Secret, head: &mut Head) -> Result<(), Unsendable> {
    let mut value = Zeroizing::new(Vec::with_capacity(secret.expose().len() + 32));
    injection.template().render_into(secret.expose(), &mut value);
    match injection.target() {
        Target::Header(name) if injection.is_basic() => {
            let value = Zeroizing::new(format!("Basic {}", STANDARD.encode(&*value)));
            set_header(head, name, value.as_bytes())
        }
        Target::Header(name) => set_header(head, name, &value),
        Target::Query(key) => {
            let pair = format!("{}={}", utf8_percent_encode(key, &UNRESERVED), percent_encode(&value, &UNRESERVED));
            head.query = Some(match head.query.take().filter(|query| !query.is_empty()) {
                Some(query) => format!("{query}&{pair}"),
                None => pair,
            });
            Ok(())
        }
        Target::Segment(index) => {
            let no_place = || Unsendable(format!("the path has no segment {index}"));
            let range = segment_range(&head.path, *index).ok_or_else(no_place)?;
            head.path.replace_range(range, &percent_encode(&value, &SEGMENT).to_string());
            Ok(())
        }
    }
}

fn set_header(head: &mut Head, name: &str, value: &[u8]) -> Result<(), Unsendable> {
    let wrong = |why: &str| Unsendable(format!("the secret cannot stand in the header `{name}`: {why}"));
    if !value.iter().all(|b| (0x20..0x7f).contains(b)) {
        return Err(wrong("it has a character outside ASCII"));
    }
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("that is no header's name"))?;
    let mut value = HeaderValue::from_bytes(value).map_err(|_| wrong("it is no header's value"))?;
    // Kept out of `Debug`, and out of HPACK's tables.
    value.set_sensitive(true);
    head.headers.insert(parsed, value);
    Ok(())
}

/// Where the segment with that index stands in a path.
pub(super) fn segment_range(path: &str, index: usize) -> Option<Range<usize>> {
    let mut start = path.strip_prefix('/').map(|_| 1)?;
    for (at, segment) in path.get(start..)?.split('/').enumerate() {
        if at == index {
            return Some(start..start + segment.len());
        }
        start += segment.len() + 1;
    }
    None
}

/// Whether a segment has the template's form: what stands before the secret and behind it. A client that
/// speaks of something else in that place (`/file/bot…` beside `/bot…`) is left alone.
pub(super) fn fits(template: &SecretTemplate, segment: &str) -> bool {
    let literal = |piece: Option<&Piece>| match piece {
        Some(Piece::Literal(text)) => text.to_string(),
        Some(Piece::Secret) | None => String::new(),
    };
    let (before, behind) = (literal(template.pieces().first()), literal(template.pieces().last()));
    segment.len() > before.len() + behind.len() && segment.starts_with(&before) && segment.ends_with(&behind)
}
