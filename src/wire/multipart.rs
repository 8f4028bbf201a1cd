//! `multipart/*` (RFC 2046, RFC 7578): what the parts are called, and what the fields hold.
//!
//! Parsers of multipart bodies disagree on nearly everything that is odd: line ends without CR, a
//! boundary with something behind it, a boundary in the middle of a line, text before the first part,
//! folded or repeated headers, `filename*`. All of that is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Decoded;
use super::media::{Media, is_token, parameter};
use crate::facts::{Key, Term};

const MAX_HEADERS: usize = 8 * 1024;
/// `name`, `filename`, `content_type`, `size`, `value`.
const NODES_OF_A_PART: usize = 5;

/// Reads the parts: `{"parts": [{"name", "filename", "content_type", "size", "value"}], "part_count"}`.
/// What a part doesn't have is null. `value` is the text of a part without a file name, when it is text.
pub(super) fn parse(media_type: &str, bytes: &[u8], max_nodes: usize) -> Decoded {
    match read(media_type, bytes) {
        Ok(parts) if parts.len() * NODES_OF_A_PART + 1 > max_nodes => Decoded::Truncated,
        Ok(parts) => {
            let count = i64::try_from(parts.len()).unwrap_or(i64::MAX);
            Decoded::Ready(map([("parts", Term::Array(parts.into())), ("part_count", count.into())]))
        }
        Err(what) => Decoded::Failed(format!("not readable as multipart: {what}")),
    }
}

fn read(media_type: &str, bytes: &[u8]) -> Result<Vec<Term>, &'static str> {
    let media = Media::parse(media_type).map_err(|_| "a broken content type")?;
    if !media.essence.starts_with("multipart/") {
        return Err("a content type that is not multipart");
    }
    let boundary = media.param("boundary").ok_or("no boundary in the content type")?;
    if boundary.is_empty() || boundary.len() > 70 || !boundary.bytes().all(is_boundary) || boundary.ends_with(' ') {
        return Err("a boundary that RFC 2046 doesn't allow");
    }
    let is_form = media.essence == "multipart/form-data";
    split(bytes, format!("--{boundary}").as_bytes())?.into_iter().map(|part| describe(part, is_form)).collect()
}

fn is_boundary(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte)
}

/// Cuts the body at its delimiters. The boundary may stand nowhere else: not in a line, not behind a bare
/// LF, not as the beginning of a longer one.
fn split<'a>(bytes: &'a [u8], delimiter: &[u8]) -> Result<Vec<&'a [u8]>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    rest = rest.strip_prefix(delimiter).ok_or("something before the first part")?;
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return match end {
                b"" | b"\r\n" => Ok(parts),
                _ => Err("something behind the last part"),
            };
        }
        rest = rest.strip_prefix(b"\r\n").ok_or("a boundary with something behind it")?;
        let at = find(rest, delimiter).ok_or("no boundary at the end")?;
        let (part, behind) = rest.split_at_checked(at).ok_or("no boundary at the end")?;
        parts.push(part.strip_suffix(b"\r\n").ok_or("a boundary that doesn't begin a line")?);
        rest = behind.strip_prefix(delimiter).ok_or("no boundary at the end")?;
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut at = 0;
    loop {
        at += haystack.get(at..)?.iter().position(|b| *b == first)?;
        if haystack.get(at..)?.starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
}

/// What the headers of a part say.
#[derive(Default)]
struct Headers {
    disposition: Option<String>,
    content_type: Option<String>,
    transfer_encoding: Option<String>,
}

fn describe(part: &[u8], is_form: bool) -> Result<Term, &'static str> {
    // A part without headers begins with the empty line.
    let (head, content) = match part.strip_prefix(b"\r\n") {
        Some(content) => (&b""[..], content),
        None => {
            let at = find(part, b"\r\n\r\n").ok_or("a part without an empty line behind its headers")?;
            part.split_at_checked(at).and_then(|(head, rest)| Some((head, rest.get(4..)?))).unwrap_or_default()
        }
    };
    let headers = read_headers(head)?;
    let (name, filename) = match &headers.disposition {
        Some(text) => disposition(text, is_form)?,
        None => (None, None),
    };
    if is_form && name.is_none() {
        return Err("a part without a name");
    }
    let value = if filename.is_none() { text_of(content, &headers, is_form)? } else { None };
    let or_null = |text: Option<&str>| text.map_or(Term::Null, Term::from);
    Ok(map([
        ("name", or_null(name.as_deref())),
        ("filename", or_null(filename.as_deref())),
        ("content_type", or_null(headers.content_type.as_deref())),
        ("size", i64::try_from(content.len()).unwrap_or(i64::MAX).into()),
        ("value", or_null(value)),
    ]))
}

/// The content of a field. In a form a field must be text, or say that it is not.
fn text_of<'a>(content: &'a [u8], headers: &Headers, is_form: bool) -> Result<Option<&'a str>, &'static str> {
    let plain = match headers.transfer_encoding.as_deref() {
        None | Some("7bit" | "8bit" | "binary") => true,
        Some(_) if is_form => return Err("a field with a transfer encoding"),
        Some(_) => false,
    };
    let is_text = match &headers.content_type {
        None => true,
        Some(text) => {
            let media = Media::parse(text).map_err(|_| "a broken content type in a part")?;
            let is_text = media.essence.starts_with("text/") || media.essence == "application/json";
            if is_text && media.require_utf8().is_err() {
                return Err("a field in a character set other than UTF-8");
            }
            is_text
        }
    };
    if !plain || !is_text {
        return Ok(None);
    }
    std::str::from_utf8(content).map(Some).map_err(|_| "a field that is no UTF-8")
}

fn read_headers(head: &[u8]) -> Result<Headers, &'static str> {
    if head.len() > MAX_HEADERS {
        return Err("a part with more than 8 KiB of headers");
    }
    let head = std::str::from_utf8(head).map_err(|_| "a part whose headers are no UTF-8")?;
    let mut headers = Headers::default();
    for line in head.split("\r\n").filter(|_| !head.is_empty()) {
        let (name, value) = line.split_once(':').ok_or("a part with a broken header")?;
        if name.is_empty() || !name.bytes().all(is_token) || value.chars().any(|c| c.is_control() && c != '\t') {
            return Err("a part with a broken header");
        }
        let value = value.trim_matches([' ', '\t']);
        let slot = match name.to_ascii_lowercase().as_str() {
            "content-disposition" => &mut headers.disposition,
            "content-type" => &mut headers.content_type,
            "content-transfer-encoding" => &mut headers.transfer_encoding,
            _ => continue,
        };
        if slot.replace(value.to_owned()).is_some() {
            return Err("a part with a header that stands there twice");
        }
    }
    if let Some(encoding) = &mut headers.transfer_encoding {
        encoding.make_ascii_lowercase();
    }
    Ok(headers)
}

/// Name and file name of a `Content-Disposition`. `filename*` is refused: RFC 7578 §4.2 forbids it, and
/// servers that don't know it see a field where others see a file.
fn disposition(text: &str, is_form: bool) -> Result<(Option<String>, Option<String>), &'static str> {
    let broken = "a part with a broken content disposition";
    let (kind, mut rest) = text.split_once(';').unwrap_or((text, ""));
    if is_form && !kind.trim_matches([' ', '\t']).eq_ignore_ascii_case("form-data") {
        return Err(broken);
    }
    let (mut name, mut filename) = (None, None);
    loop {
        rest = rest.trim_matches([' ', '\t']);
        if rest.is_empty() {
            return Ok((name, filename));
        }
        let (key, value, behind) = parameter(rest).ok_or(broken)?;
        let slot = match key.to_ascii_lowercase().as_str() {
            "name" => &mut name,
            "filename" => &mut filename,
            "size" | "creation-date" | "modification-date" | "read-date" => &mut None,
            _ => return Err("a part with a content disposition that servers read differently"),
        };
        if slot.replace(value).is_some() {
            return Err(broken);
        }
        rest = behind.strip_prefix(';').unwrap_or(behind);
    }
}

fn map<const N: usize>(entries: [(&str, Term); N]) -> Term {
    Term::Map(Arc::new(
        entries.into_iter().map(|(key, value)| (Key::Str(key.into()), value)).collect::<BTreeMap<_, _>>(),
    ))
}
