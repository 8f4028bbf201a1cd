//! JSON, strictly (RFC 8259), in one pass, with only the demanded nodes kept.
//!
//! Written here rather than taken from a library, because the strictness is the point: a repeated key is
//! refused after unescaping and wherever it stands (R94), numbers keep their literal, lone surrogates and
//! trailing text are refused, and what nobody reads is checked without being built.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::hash::Hasher;
use std::sync::Arc;

use super::Decoded;
use super::body_paths::{BodyPaths, Keep};
use crate::facts::{Key, Term};

/// Arrays and objects inside each other. Servers stop at 64 to 1000; deeper is an attack on a stack.
const MAX_DEPTH: usize = 128;
/// Members of one object.
const MAX_MEMBERS: usize = 200_000;

/// Why a text is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonError {
    /// What was wrong, and at which byte.
    Wrong(&'static str, usize),
    /// More kept nodes than allowed.
    TooMany,
}

impl From<JsonError> for Decoded {
    fn from(error: JsonError) -> Decoded {
        match error {
            JsonError::Wrong(what, at) => Decoded::Failed(format!("not readable as JSON: {what} at byte {at}")),
            JsonError::TooMany => Decoded::Truncated,
        }
    }
}

/// Reads one JSON text. The tree has what `paths` demands, at most `max_nodes` scalars and empty
/// containers.
pub(super) fn parse(bytes: &[u8], paths: &BodyPaths, max_nodes: usize) -> Result<Term, JsonError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| JsonError::Wrong("bytes that are no UTF-8", error.valid_up_to()))?;
    let mut parser = Parser { text, at: 0, nodes: 0, max_nodes, seen: Vec::new(), shared: [const { None }; 64] };
    parser.space();
    // Only an array can be there and not be kept: no path leads into it.
    let root = parser.value(paths.keep(), 0)?.unwrap_or_else(|| Term::Array([].into()));
    parser.space();
    match parser.peek() {
        None => Ok(root),
        Some(_) => Err(parser.wrong("more text behind the value")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    nodes: usize,
    max_nodes: usize,
    /// The keys of the objects that are open, innermost last.
    seen: Vec<Cow<'a, str>>,
    /// Keys that came lately: the elements of a list have the same ones.
    shared: [Option<Arc<str>>; 64],
}

impl<'a> Parser<'a> {
    fn wrong(&self, what: &'static str) -> JsonError {
        JsonError::Wrong(what, self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether the byte comes next; eats it.
    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn count(&mut self) -> Result<(), JsonError> {
        self.nodes += 1;
        if self.nodes > self.max_nodes { Err(JsonError::TooMany) } else { Ok(()) }
    }

    /// A value; `None` if it isn't kept.
    fn value(&mut self, keep: Keep<'_>, depth: usize) -> Result<Option<Term>, JsonError> {
        let term = match self.peek() {
            Some(b'{') => return self.object(keep, depth),
            Some(b'[') => return self.array(keep, depth),
            Some(b'"') if keep.is_kept() => Term::Str(self.string()?.into()),
            Some(b'"') => return self.string().map(|_| None),
            Some(b't') => self.word("true", Term::Bool(true))?,
            Some(b'f') => self.word("false", Term::Bool(false))?,
            Some(b'n') => self.word("null", Term::Null)?,
            Some(b'-' | b'0'..=b'9') => {
                let literal = self.number()?;
                if !keep.is_kept() {
                    return Ok(None);
                }
                // Also what is too big for 64 bits, and every fraction: the literal, as sent.
                literal.parse().map_or_else(|_| Term::Str(literal.into()), Term::Integer)
            }
            Some(_) => return Err(self.wrong("something that is no value")),
            None => return Err(self.wrong("the end where a value should be")),
        };
        if !keep.is_kept() {
            return Ok(None);
        }
        self.count()?;
        Ok(Some(term))
    }

    fn word(&mut self, word: &str, term: Term) -> Result<Term, JsonError> {
        match self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            true => {
                self.at += word.len();
                Ok(term)
            }
            false => Err(self.wrong("something that is no value")),
        }
    }

    /// The literal of a number, after the grammar of RFC 8259 §6.
    fn number(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        self.text.get(start..self.at).ok_or_else(|| self.wrong("a broken number"))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong("a broken number")) } else { Ok(()) }
    }

    /// A string, unescaped; borrowed when it has no escapes.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        if !self.eat(b'"') {
            return Err(self.wrong("something where a key should be"));
        }
        let start = self.at;
        let mut unescaped: Option<String> = None;
        let mut run = start;
        loop {
            self.plain();
            let piece = self.text.get(run..self.at).unwrap_or_default();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(piece),
                        Some(text) => Cow::Owned(text + piece),
                    });
                }
                Some(b'\\') => {
                    self.at += 1;
                    let text = unescaped.get_or_insert_default();
                    text.push_str(piece);
                    let escaped = self.escape()?;
                    unescaped.get_or_insert_default().push(escaped);
                    run = self.at;
                }
                Some(_) => return Err(self.wrong("a control character in a string")),
                None => return Err(self.wrong("the end inside a string")),
            }
        }
    }

    /// Skips to the next quote, backslash or control character, eight bytes at a time: most of a large body
    /// is long strings that nobody demands.
    fn plain(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let (words, _) = rest.as_chunks::<8>();
        let mut skipped = 0;
        for word in words {
            let marks = special_bytes(u64::from_le_bytes(*word));
            if marks != 0 {
                self.at += skipped + marks.trailing_zeros() as usize / 8;
                return;
            }
            skipped += 8;
        }
        let special = |b: &u8| matches!(b, b'"' | b'\\' | 0..0x20);
        let tail = rest.get(skipped..).unwrap_or_default();
        self.at += skipped + tail.iter().position(special).unwrap_or(tail.len());
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let escaped = self.peek().ok_or_else(|| self.wrong("the end inside a string"))?;
        self.at += 1;
        Ok(match escaped {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.wrong("an escape that JSON doesn't have")),
        })
    }

    /// `\uXXXX`, or two of them that make one character. Halves alone are refused: servers replace them,
    /// drop them or keep them.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        let code = if (0xD800..0xDC00).contains(&first) {
            if !(self.eat(b'\\') && self.eat(b'u')) {
                return Err(self.wrong("half a surrogate pair"));
            }
            let second = self.hex4()?;
            if !(0xDC00..0xE000).contains(&second) {
                return Err(self.wrong("half a surrogate pair"));
            }
            0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.wrong("half a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            value = value << 4 | digit.ok_or_else(|| self.wrong("a broken \\u escape"))?;
            self.at += 1;
        }
        Ok(value)
    }

    fn array(&mut self, keep: Keep<'_>, depth: usize) -> Result<Option<Term>, JsonError> {
        self.enter(depth)?;
        let inner = keep.element();
        let mut items = Vec::new();
        self.space();
        if !self.eat(b']') {
            loop {
                self.space();
                items.extend(self.value(inner, depth + 1)?);
                self.space();
                if self.eat(b']') {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.wrong("something where `,` or `]` should be"));
                }
            }
        }
        if !keep.keeps_array() {
            return Ok(None);
        }
        if items.is_empty() {
            self.count()?;
        }
        Ok(Some(Term::Array(items.into())))
    }

    fn object(&mut self, keep: Keep<'_>, depth: usize) -> Result<Option<Term>, JsonError> {
        self.enter(depth)?;
        let mut names = Names::open(self, keep.is_kept());
        let mut entries = BTreeMap::new();
        self.space();
        if !self.eat(b'}') {
            loop {
                self.space();
                let key = self.string()?;
                names.add(self, &key)?;
                self.space();
                if !self.eat(b':') {
                    return Err(self.wrong("something where `:` should be"));
                }
                self.space();
                let inner = if depth == 0 && key == super::METHOD_FIELD { Keep::EVERYTHING } else { keep.member(&key) };
                if let Some(value) = self.value(inner, depth + 1)? {
                    entries.insert(Key::Str(self.share(&key)), value);
                }
                self.space();
                if self.eat(b'}') {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.wrong("something where `,` or `}` should be"));
                }
            }
        }
        names.close(self);
        if !keep.is_kept() {
            return Ok(None);
        }
        if entries.is_empty() {
            self.count()?;
        }
        Ok(Some(Term::Map(Arc::new(entries))))
    }

    /// A key, shared with an equal one if that came lately.
    fn share(&mut self, key: &str) -> Arc<str> {
        let ends = (key.bytes().next(), key.bytes().next_back());
        let at = usize::from(ends.0.unwrap_or(0)) ^ usize::from(ends.1.unwrap_or(0)) << 3 ^ key.len();
        match self.shared.get_mut(at % 64) {
            Some(Some(shared)) if **shared == *key => Arc::clone(shared),
            Some(slot) => Arc::clone(slot.insert(key.into())),
            None => key.into(),
        }
    }

    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth >= MAX_DEPTH {
            return Err(self.wrong("more than 128 arrays and objects inside each other"));
        }
        self.at += 1;
        Ok(())
    }
}

/// The high bit of each byte that ends a plain run of a string; the lowest one set is exact.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    below(word ^ (ONES * u64::from(b'"')), 1) | below(word ^ (ONES * u64::from(b'\\')), 1) | below(word, 0x20)
}

/// The keys of one object, to find a second one of the same name.
struct Names {
    /// Where this object's keys begin in `Parser::seen`.
    start: usize,
    /// Hashes instead, once there are many. Equal keys always meet, so no repetition is missed; two
    /// different ones meet once in 10^13 objects of a thousand keys, and then an honest body is refused.
    many: HashSet<u64>,
    /// In objects that policy may look at, keys that differ only in case count as equal: some servers
    /// (Go's standard library) take either. In the rest of a body they are only text.
    fold: bool,
    /// Whether all keys so far are ASCII.
    ascii: bool,
}

/// Up to here comparing all is faster than hashing.
const FEW: usize = 24;

impl Names {
    fn open(parser: &Parser<'_>, fold: bool) -> Names {
        Names { start: parser.seen.len(), many: HashSet::new(), fold, ascii: true }
    }

    #[allow(clippy::ptr_arg, reason = "what is borrowed from the text is kept as such")]
    fn add<'a>(&mut self, parser: &mut Parser<'a>, key: &Cow<'a, str>) -> Result<(), JsonError> {
        let repeated = if self.many.is_empty() {
            self.ascii &= !self.fold || key.is_ascii();
            let few = parser.seen.get(self.start..).unwrap_or_default();
            let repeated = few.iter().any(|given| self.same(given, key));
            if few.len() == FEW {
                self.many = few.iter().chain([key]).map(|key| hash(key, self.fold)).collect();
                parser.seen.truncate(self.start);
            } else {
                parser.seen.push(key.clone());
            }
            repeated
        } else {
            !self.many.insert(hash(key, self.fold))
        };
        if repeated {
            return Err(parser.wrong("a key that stands there twice"));
        }
        if self.many.len() > MAX_MEMBERS {
            return Err(parser.wrong("an object with more than 200000 members"));
        }
        Ok(())
    }

    fn same(&self, a: &str, b: &str) -> bool {
        match (self.fold, self.ascii) {
            (false, _) => a == b,
            (true, true) => a.eq_ignore_ascii_case(b),
            (true, false) => folded(a) == folded(b),
        }
    }

    fn close(self, parser: &mut Parser<'_>) {
        parser.seen.truncate(self.start);
    }
}

fn hash(key: &str, fold: bool) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(if fold { folded(key) } else { Cow::Borrowed(key) }.as_bytes());
    hasher.finish()
}

/// Without case. Up and down again: `ſ` and the Kelvin sign fold into `s` and `k`, as Go folds them.
fn folded(key: &str) -> Cow<'_, str> {
    if key.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        return Cow::Borrowed(key);
    }
    Cow::Owned(key.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect())
}
