//! `application/x-www-form-urlencoded`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Decoded;
use super::body_paths::BodyPaths;
use super::media::Media;
use crate::facts::percent::{self, Broken};
use crate::facts::{Key, Term};

/// Reads a form: a name once is its value, a name several times the array of its values in order. Names
/// are kept flat: `labels[]` is a name like any other.
///
/// Refused: `;` (a separator to some servers, an error to others, text to the rest; clients write `%3B`),
/// broken escapes, and what is not UTF-8.
pub(super) fn parse(media_type: &str, bytes: &[u8], paths: &BodyPaths, max_nodes: usize) -> Decoded {
    match read(media_type, bytes, paths, max_nodes) {
        Ok(Some(tree)) => Decoded::Ready(tree),
        Ok(None) => Decoded::Truncated,
        Err(what) => Decoded::Failed(format!("not readable as a form: {what}")),
    }
}

fn read(media_type: &str, bytes: &[u8], paths: &BodyPaths, max_nodes: usize) -> Result<Option<Term>, String> {
    Media::parse(media_type)?.require_utf8()?;
    let text = std::str::from_utf8(bytes).map_err(|_| "bytes that are no UTF-8")?;
    if text.bytes().any(|b| b == b';' || b < 0x20 || b == 0x7f) {
        return Err("`;` or a control character that is not percent-encoded".into());
    }
    let keep = paths.keep();
    let mut fields: BTreeMap<Key, Vec<Term>> = BTreeMap::new();
    let mut nodes = 0;
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        if !(keep.member(&name).is_kept() || name == super::METHOD_FIELD) {
            continue;
        }
        nodes += 1;
        if nodes > max_nodes {
            return Ok(None);
        }
        fields.entry(Key::Str(name.into())).or_default().push(Term::Str(value.into()));
    }
    let tree: BTreeMap<Key, Term> = fields.into_iter().map(|(name, values)| (name, one_or_all(values))).collect();
    Ok(Some(Term::Map(Arc::new(tree))))
}

fn one_or_all(mut values: Vec<Term>) -> Term {
    match (values.len(), values.pop()) {
        (1, Some(value)) => value,
        (_, last) => Term::Array(values.into_iter().chain(last).collect()),
    }
}

fn decode(text: &str) -> Result<Cow<'_, str>, String> {
    percent::decode(text, true).map_err(|broken| match broken {
        Broken::Escape => "a broken percent escape".to_owned(),
        Broken::Utf8 => "bytes that are no UTF-8 behind escapes".to_owned(),
    })
}
