//! What `git push` and `git fetch` send over smart HTTP (gitprotocol-pack, gitprotocol-v2).
//!
//! What matters stands in front: a push names every ref that it writes before its pack begins, so a few
//! hundred bytes decide and the pack streams through unseen (R86). Whether a push rewrites history is not
//! on the wire: the server alone can tell.

mod pkt;
mod receive_pack;
mod report;
mod upload_pack;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Decoded;
use crate::facts::{Key, Term};
use pkt::Stop;
pub(super) use receive_pack::receive_pack;
pub use report::PushReport;
pub(super) use upload_pack::upload_pack;

/// Why a body is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    /// It may become readable with more bytes.
    Short,
    TooMany,
    Wrong(&'static str),
}

impl From<Stop> for Unread {
    fn from(stop: Stop) -> Unread {
        match stop {
            Stop::Short => Unread::Short,
            Stop::Malformed(what) => Unread::Wrong(what),
        }
    }
}

/// Turns a result into what the room's callers see; `all` says whether no more bytes follow.
fn decoded(result: Result<Term, Unread>, all: bool) -> Decoded {
    match result {
        Ok(tree) => Decoded::Ready(tree),
        Err(Unread::Short) if !all => Decoded::NeedMore,
        Err(Unread::Short) => Decoded::Failed("not readable as a git request: it ends in the middle".into()),
        Err(Unread::TooMany) => Decoded::Truncated,
        Err(Unread::Wrong(what)) => Decoded::Failed(format!("not readable as a git request: {what}")),
    }
}

/// An object id: 40 lower-case hex digits, or 64 in a SHA-256 repository.
fn object_id(bytes: &[u8]) -> Result<&str, Unread> {
    let plain = matches!(bytes.len(), 40 | 64) && bytes.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    std::str::from_utf8(bytes).ok().filter(|_| plain).ok_or(Unread::Wrong("something where an object id should be"))
}

fn text(bytes: &[u8]) -> Result<&str, Unread> {
    let text = std::str::from_utf8(bytes).map_err(|_| Unread::Wrong("bytes that are no UTF-8"))?;
    if text.chars().any(char::is_control) { Err(Unread::Wrong("a control character in a line")) } else { Ok(text) }
}

/// The words of a capability list.
fn capabilities(bytes: &[u8]) -> Result<Vec<&str>, Unread> {
    Ok(text(bytes)?.split(' ').filter(|word| !word.is_empty()).collect())
}

fn strings<S: AsRef<str>>(texts: &[S]) -> Term {
    texts.iter().map(Term::str).collect::<Vec<_>>().into_term()
}

fn count(number: usize) -> Term {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn map<const N: usize>(entries: [(&str, Term); N]) -> Term {
    Term::Map(Arc::new(
        entries.into_iter().map(|(key, value)| (Key::Str(key.into()), value)).collect::<BTreeMap<_, _>>(),
    ))
}

trait IntoTerm {
    fn into_term(self) -> Term;
}

impl IntoTerm for Vec<Term> {
    fn into_term(self) -> Term {
        Term::Array(self.into())
    }
}
