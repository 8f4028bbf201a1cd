//! Values by number: a base layer that a compiled program keeps, and an overlay for one request.

#![allow(
    clippy::indexing_slicing,
    reason = "a word's number was given out by the layer that is asked; a foreign one must not pass as some other value"
)]

use std::hash::BuildHasher;
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::word::{Kind, Tag, Word};
use crate::facts::{Key, Term};
use crate::token::ast;

/// Strings longer than this are kept as the `Arc` they came in instead of being copied.
const COPIED: usize = 256;

/// How deep a value may be nested: deeper ones are refused, so that nothing here can exhaust a stack.
pub const MAX_NESTING: usize = 128;

/// Keyed once a process: request text can't be chosen to collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Why a term was not interned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TermError {
    /// Nested deeper than [`MAX_NESTING`].
    #[error("a value is nested too deeply")]
    TooDeep,
    /// A variable or a parameter where a value belongs.
    #[error("a variable or parameter stands where a value belongs")]
    NotGround,
}

#[derive(Debug, Clone, Copy)]
enum TextSpan {
    Copied { start: usize, len: usize },
    Shared(usize),
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    len: usize,
}

/// Interned values of one lifetime.
#[derive(Debug, Default)]
pub struct Layer {
    table: HashTable<(u64, Word)>,
    text: String,
    texts: Vec<TextSpan>,
    shared: Vec<Arc<str>>,
    raw: Vec<u8>,
    raws: Vec<Span>,
    words: Vec<Word>,
    lists: Vec<Span>,
    wides: Vec<u64>,
    /// Numbers below these belong to the layer underneath.
    first: First,
    stack: Vec<Word>,
}

#[derive(Debug, Clone, Copy, Default)]
struct First {
    text: usize,
    raw: usize,
    list: usize,
    wide: usize,
}

impl Layer {
    /// Forgets everything (keeping the memory) and goes on numbering where `base` ends.
    pub fn reset(&mut self, base: &Layer) {
        self.table.clear();
        self.text.clear();
        self.texts.clear();
        self.shared.clear();
        self.raw.clear();
        self.raws.clear();
        self.words.clear();
        self.lists.clear();
        self.wides.clear();
        self.stack.clear();
        self.first = First {
            text: base.first.text + base.texts.len(),
            raw: base.first.raw + base.raws.len(),
            list: base.first.list + base.lists.len(),
            wide: base.first.wide + base.wides.len(),
        };
    }

    /// Gives memory back after an unusually large request.
    pub fn trim(&mut self, bytes: usize) {
        if self.text.capacity() + self.raw.capacity() + self.words.capacity() * 8 > bytes {
            *self = Layer::default();
        }
    }

    fn text_at(&self, index: usize) -> &str {
        match self.texts[index] {
            #[allow(clippy::string_slice, reason = "spans are made from whole strings")]
            TextSpan::Copied { start, len } => &self.text[start..start + len],
            TextSpan::Shared(index) => &self.shared[index],
        }
    }

    fn list_at(&self, index: usize) -> &[Word] {
        let Span { start, len } = self.lists[index];
        &self.words[start..start + len]
    }

    fn raw_at(&self, index: usize) -> &[u8] {
        let Span { start, len } = self.raws[index];
        &self.raw[start..start + len]
    }

    fn find_text(&self, hash: u64, text: &str) -> Option<Word> {
        let same = |(h, word): &(u64, Word)| {
            *h == hash && word.tag() == Tag::Str && self.text_at(word.id() - self.first.text) == text
        };
        self.table.find(hash, same).map(|(_, word)| *word)
    }

    fn find_list(&self, hash: u64, tag: Tag, words: &[Word]) -> Option<Word> {
        let same = |(h, word): &(u64, Word)| {
            *h == hash && word.tag() == tag && self.list_at(word.id() - self.first.list) == words
        };
        self.table.find(hash, same).map(|(_, word)| *word)
    }

    fn find_raw(&self, hash: u64, bytes: &[u8]) -> Option<Word> {
        let same = |(h, word): &(u64, Word)| {
            *h == hash && word.tag() == Tag::Bytes && self.raw_at(word.id() - self.first.raw) == bytes
        };
        self.table.find(hash, same).map(|(_, word)| *word)
    }

    fn find_wide(&self, hash: u64, tag: Tag, bits: u64) -> Option<Word> {
        let same = |(h, word): &(u64, Word)| {
            *h == hash && word.tag() == tag && self.wides[word.id() - self.first.wide] == bits
        };
        self.table.find(hash, same).map(|(_, word)| *word)
    }

    fn enter(&mut self, hash: u64, word: Word) {
        self.table.insert_unique(hash, (hash, word), |(h, _)| *h);
    }
}

/// Both layers together: reads in both, writes to the upper one.
#[derive(Debug)]
pub struct Terms<'a> {
    base: &'a Layer,
    over: &'a mut Layer,
}

impl<'a> Terms<'a> {
    /// The overlay must have been reset to the base.
    pub fn new(base: &'a Layer, over: &'a mut Layer) -> Terms<'a> {
        Terms { base, over }
    }

    /// Interns a string, copying it.
    pub fn str(&mut self, text: &str) -> Word {
        self.text(text, |layer| {
            let start = layer.text.len();
            layer.text.push_str(text);
            TextSpan::Copied { start, len: text.len() }
        })
    }

    /// Interns a string, keeping a long one's allocation.
    pub fn arc(&mut self, text: &Arc<str>) -> Word {
        if text.len() <= COPIED {
            return self.str(text);
        }
        self.text(text, |layer| {
            layer.shared.push(text.clone());
            TextSpan::Shared(layer.shared.len() - 1)
        })
    }

    fn text(&mut self, text: &str, store: impl FnOnce(&mut Layer) -> TextSpan) -> Word {
        let hash = HASHER.hash_one(text);
        if let Some(word) = self.base.find_text(hash, text).or_else(|| self.over.find_text(hash, text)) {
            return word;
        }
        let word = Word::interned(Tag::Str, self.over.first.text + self.over.texts.len());
        let span = store(self.over);
        self.over.texts.push(span);
        self.over.enter(hash, word);
        word
    }

    /// The word of a string, if it is interned already.
    pub fn known_str(&self, text: &str) -> Option<Word> {
        let hash = HASHER.hash_one(text);
        self.base.find_text(hash, text).or_else(|| self.over.find_text(hash, text))
    }

    /// Interns bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Word {
        let hash = HASHER.hash_one((3u8, bytes));
        if let Some(word) = self.base.find_raw(hash, bytes).or_else(|| self.over.find_raw(hash, bytes)) {
            return word;
        }
        let word = Word::interned(Tag::Bytes, self.over.first.raw + self.over.raws.len());
        let start = self.over.raw.len();
        self.over.raw.extend_from_slice(bytes);
        self.over.raws.push(Span { start, len: bytes.len() });
        self.over.enter(hash, word);
        word
    }

    /// A 64-bit integer.
    pub fn integer(&mut self, value: i64) -> Word {
        Word::small_integer(value).unwrap_or_else(|| self.wide(Tag::WideInteger, value as u64))
    }

    /// A date.
    pub fn date(&mut self, value: u64) -> Word {
        Word::small_date(value).unwrap_or_else(|| self.wide(Tag::WideDate, value))
    }

    fn wide(&mut self, tag: Tag, bits: u64) -> Word {
        let hash = HASHER.hash_one((tag as u64, bits));
        if let Some(word) = self.base.find_wide(hash, tag, bits).or_else(|| self.over.find_wide(hash, tag, bits)) {
            return word;
        }
        let word = Word::interned(tag, self.over.first.wide + self.over.wides.len());
        self.over.wides.push(bits);
        self.over.enter(hash, word);
        word
    }

    /// Interns an array as given; a set sorted and without repeats; a map as sorted pairs, flat.
    /// The caller has put them into that form: see [`Terms::set`] and [`Terms::map`].
    fn list(&mut self, tag: Tag, words: &[Word]) -> Word {
        let hash = hash_list(tag, words);
        if let Some(word) = self.base.find_list(hash, tag, words).or_else(|| self.over.find_list(hash, tag, words)) {
            return word;
        }
        let word = Word::interned(tag, self.over.first.list + self.over.lists.len());
        let start = self.over.words.len();
        self.over.words.extend_from_slice(words);
        self.over.lists.push(Span { start, len: words.len() });
        self.over.enter(hash, word);
        word
    }

    /// An array.
    pub fn array(&mut self, words: &[Word]) -> Word {
        self.list(Tag::Array, words)
    }

    /// A set. Its order is that of the words: canonical, and without meaning.
    pub fn set(&mut self, words: &mut Vec<Word>) -> Word {
        words.sort_unstable();
        words.dedup();
        self.list(Tag::Set, words)
    }

    /// A map from pairs with distinct keys.
    pub fn map(&mut self, pairs: &mut [(Word, Word)]) -> Word {
        pairs.sort_unstable_by_key(|(key, _)| *key);
        let flat: Vec<Word> = pairs.iter().flat_map(|(key, value)| [*key, *value]).collect();
        self.list(Tag::Map, &flat)
    }

    /// The string behind a word of that tag; of another tag, the empty string.
    pub fn get_str(&self, word: Word) -> &str {
        if word.tag() != Tag::Str {
            return "";
        }
        match word.id().checked_sub(self.over.first.text) {
            Some(index) => self.over.text_at(index),
            None => self.base.text_at(word.id() - self.base.first.text),
        }
    }

    /// The elements of an array or set, or the flat pairs of a map.
    pub fn get_list(&self, word: Word) -> &[Word] {
        match word.id().checked_sub(self.over.first.list) {
            Some(index) => self.over.list_at(index),
            None => self.base.list_at(word.id() - self.base.first.list),
        }
    }

    /// The bytes behind a word of that tag.
    pub fn get_bytes(&self, word: Word) -> &[u8] {
        match word.id().checked_sub(self.over.first.raw) {
            Some(index) => self.over.raw_at(index),
            None => self.base.raw_at(word.id() - self.base.first.raw),
        }
    }

    fn get_wide(&self, word: Word) -> u64 {
        match word.id().checked_sub(self.over.first.wide) {
            Some(index) => self.over.wides[index],
            None => self.base.wides[word.id() - self.base.first.wide],
        }
    }

    /// The integer, if the word is one.
    pub fn get_integer(&self, word: Word) -> Option<i64> {
        match word.tag() {
            Tag::Integer => Some(word.inline_integer()),
            Tag::WideInteger => Some(self.get_wide(word) as i64),
            _ => None,
        }
    }

    /// The date, if the word is one.
    pub fn get_date(&self, word: Word) -> Option<u64> {
        match word.tag() {
            Tag::Date => Some(word.inline_date()),
            Tag::WideDate => Some(self.get_wide(word)),
            _ => None,
        }
    }

    /// Interns a fact's term.
    pub fn term(&mut self, term: &Term) -> Result<Word, TermError> {
        self.term_at(term, 0)
    }

    fn term_at(&mut self, term: &Term, depth: usize) -> Result<Word, TermError> {
        if depth > MAX_NESTING {
            return Err(TermError::TooDeep);
        }
        Ok(match term {
            Term::Integer(value) => self.integer(*value),
            Term::Str(text) => self.arc(text),
            Term::Date(value) => self.date(*value),
            Term::Bytes(bytes) => self.bytes(bytes),
            Term::Bool(value) => Word::bool(*value),
            Term::Null => Word::NULL,
            Term::Set(items) => {
                let mut words = Vec::with_capacity(items.len());
                for item in items.iter() {
                    words.push(self.term_at(item, depth + 1)?);
                }
                self.set(&mut words)
            }
            Term::Array(items) => {
                let bottom = self.over.stack.len();
                for item in items.iter() {
                    let word = self.term_at(item, depth + 1)?;
                    self.over.stack.push(word);
                }
                self.array_from_stack(bottom)
            }
            Term::Map(entries) => {
                let mut pairs = Vec::with_capacity(entries.len());
                for (key, value) in entries.iter() {
                    let key = self.key(key);
                    pairs.push((key, self.term_at(value, depth + 1)?));
                }
                self.map(&mut pairs)
            }
        })
    }

    /// A map's key as a word.
    pub fn key(&mut self, key: &Key) -> Word {
        match key {
            Key::Integer(value) => self.integer(*value),
            Key::Str(text) => self.arc(text),
        }
    }

    /// Interns the array that stands on the stack above `bottom`, and takes it off.
    fn array_from_stack(&mut self, bottom: usize) -> Word {
        let stack = std::mem::take(&mut self.over.stack);
        let word = self.list(Tag::Array, &stack[bottom..]);
        self.over.stack = stack;
        self.over.stack.truncate(bottom);
        word
    }

    /// Interns a ground term of the syntax tree.
    pub fn ast(&mut self, term: &ast::Term) -> Result<Word, TermError> {
        self.ast_at(term, 0)
    }

    fn ast_at(&mut self, term: &ast::Term, depth: usize) -> Result<Word, TermError> {
        if depth > MAX_NESTING {
            return Err(TermError::TooDeep);
        }
        Ok(match term {
            ast::Term::Variable(_) | ast::Term::Parameter(_) => return Err(TermError::NotGround),
            ast::Term::Integer(value) => self.integer(*value),
            ast::Term::Str(text) => self.str(text),
            ast::Term::Date(value) => self.date(*value),
            ast::Term::Bytes(bytes) => self.bytes(bytes),
            ast::Term::Bool(value) => Word::bool(*value),
            ast::Term::Null => Word::NULL,
            ast::Term::Set(items) => {
                let mut words = items.iter().map(|item| self.ast_at(item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                self.set(&mut words)
            }
            ast::Term::Array(items) => {
                let words = items.iter().map(|item| self.ast_at(item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                self.array(&words)
            }
            ast::Term::Map(entries) => {
                let mut pairs = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let key = match key {
                        ast::MapKey::Integer(value) => self.integer(*value),
                        ast::MapKey::Str(text) => self.str(text),
                        ast::MapKey::Parameter(_) => return Err(TermError::NotGround),
                    };
                    pairs.push((key, self.ast_at(value, depth + 1)?));
                }
                self.map(&mut pairs)
            }
        })
    }

    /// The value of a word, for explanations and for functions that are not worth doing on words.
    pub fn to_term(&self, word: Word) -> Term {
        match word.kind() {
            Kind::Integer => Term::Integer(self.get_integer(word).unwrap_or_default()),
            Kind::Str => Term::Str(self.get_str(word).into()),
            Kind::Date => Term::Date(self.get_date(word).unwrap_or_default()),
            Kind::Bytes => Term::Bytes(self.get_bytes(word).into()),
            Kind::Bool => Term::Bool(word == Word::TRUE),
            Kind::Null => Term::Null,
            Kind::Set => Term::Set(Arc::new(self.get_list(word).iter().map(|w| self.to_term(*w)).collect())),
            Kind::Array => Term::Array(self.get_list(word).iter().map(|w| self.to_term(*w)).collect()),
            Kind::Map => Term::Map(Arc::new(
                self.get_list(word)
                    .chunks_exact(2)
                    .filter_map(|pair| match self.to_term(*pair.first()?) {
                        Term::Integer(key) => Some((Key::Integer(key), self.to_term(*pair.get(1)?))),
                        Term::Str(key) => Some((Key::Str(key), self.to_term(*pair.get(1)?))),
                        _ => None,
                    })
                    .collect(),
            )),
        }
    }
}

fn hash_list(tag: Tag, words: &[Word]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = HASHER.build_hasher();
    hasher.write_u64(((words.len() as u64) << 8) | tag as u64);
    for word in words {
        hasher.write_u64(word.bits());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn sample() -> Vec<Term> {
        let long: String = "x".repeat(1000);
        vec![
            Term::Integer(7),
            Term::Integer(i64::MIN),
            Term::Integer(i64::MAX),
            Term::str("a"),
            Term::str(""),
            Term::str(&long),
            Term::Date(1),
            Term::Date(u64::MAX),
            Term::Bytes(vec![1, 2].into()),
            Term::Bool(true),
            Term::Bool(false),
            Term::Null,
            Term::Set(Arc::new(BTreeSet::from([Term::Integer(2), Term::Integer(1)]))),
            Term::Set(Arc::new(BTreeSet::new())),
            Term::Array(vec![Term::Integer(1), Term::Array(vec![Term::str("a")].into())].into()),
            Term::Array(Vec::new().into()),
            Term::Map(Arc::new(BTreeMap::from([
                (Key::Str("b".into()), Term::Null),
                (Key::Integer(1), Term::str("z")),
            ]))),
        ]
    }

    #[test]
    fn equal_values_are_equal_words_and_come_back_unchanged() {
        let mut base = Layer::default();
        let empty = Layer::default();
        let below: Vec<Word> = {
            let mut terms = Terms::new(&empty, &mut base);
            sample().iter().step_by(2).map(|term| terms.term(term).unwrap()).collect()
        };
        let mut over = Layer::default();
        over.reset(&base);
        let mut terms = Terms::new(&base, &mut over);
        let words: Vec<Word> = sample().iter().map(|term| terms.term(term).unwrap()).collect();
        let again: Vec<Word> = sample().iter().map(|term| terms.term(term).unwrap()).collect();
        assert_eq!(words, again);
        assert_eq!(below, words.iter().copied().step_by(2).collect::<Vec<_>>());
        for (index, word) in words.iter().enumerate() {
            assert_eq!(terms.to_term(*word), sample()[index]);
            assert_eq!(words.iter().filter(|w| *w == word).count(), 1, "{:?}", sample()[index]);
        }
    }

    #[test]
    fn a_set_does_not_depend_on_the_order_in_which_it_was_made() {
        let base = Layer::default();
        let mut over = Layer::default();
        let mut terms = Terms::new(&base, &mut over);
        let (a, b) = (terms.str("a"), terms.str("b"));
        assert_eq!(terms.set(&mut vec![a, b, a]), terms.set(&mut vec![b, a]));
        assert_ne!(terms.array(&[a, b]), terms.array(&[b, a]));
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        let mut term = Term::Null;
        for _ in 0..10_000 {
            term = Term::Array(vec![term].into());
        }
        let base = Layer::default();
        let mut over = Layer::default();
        assert_eq!(Terms::new(&base, &mut over).term(&term), Err(TermError::TooDeep));
        std::mem::forget(term); // dropping it recursively is the test's own problem
    }
}
