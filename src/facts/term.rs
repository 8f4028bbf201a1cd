//! Values, as biscuit 3.3 has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A ground value. The same kinds as in a biscuit; there are no floats, so a decoder turns a JSON
/// number that is no 64-bit integer into the string of its literal, as sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// A 64-bit integer.
    Integer(i64),
    /// A string.
    Str(Arc<str>),
    /// Seconds since the epoch.
    Date(u64),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A boolean.
    Bool(bool),
    /// Null.
    Null,
    /// A set; biscuit allows no sets in it.
    Set(Arc<BTreeSet<Term>>),
    /// An array.
    Array(Arc<[Term]>),
    /// A map.
    Map(Arc<BTreeMap<Key, Term>>),
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An integer key.
    Integer(i64),
    /// A string key.
    Str(Arc<str>),
}

impl Term {
    /// A string.
    pub fn str(text: impl AsRef<str>) -> Term {
        Term::Str(text.as_ref().into())
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Term::Str(text) => Some(text),
            _ => None,
        }
    }
}

impl From<&str> for Term {
    fn from(text: &str) -> Term {
        Term::Str(text.into())
    }
}

impl From<i64> for Term {
    fn from(number: i64) -> Term {
        Term::Integer(number)
    }
}

impl From<bool> for Term {
    fn from(value: bool) -> Term {
        Term::Bool(value)
    }
}
