//! The query of a request: pairs in order, decoded once, duplicates kept (DESIGN §5).

use std::sync::Arc;

use super::percent::{self, Broken};

/// The pairs of a query. Separated by `&` alone; `+` is a space; a key without `=` has an empty value;
/// empty pairs (`a&&b`) are nothing. The bytes that go upstream are the ones that were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(Arc<str>, Arc<str>)>,
}

/// Why a text is no query. None of the texts repeats what was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A byte below 0x21, DEL or above, or `#`, sent as such.
    #[error("the query has a character that must be percent-encoded")]
    Character,
    /// `%` without two hex digits behind it.
    #[error("the query has a broken percent escape")]
    Escape,
    /// Escapes that decode to something that is not UTF-8.
    #[error("the query is not UTF-8 behind its escapes")]
    Utf8,
}

impl Query {
    /// Parses the text behind the question mark; `None` is no query.
    pub fn parse(raw: Option<&str>) -> Result<Query, QueryError> {
        let Some(raw) = raw else { return Ok(Query::default()) };
        if raw.bytes().any(|b| matches!(b, 0..=0x20 | 0x7f.. | b'#')) {
            return Err(QueryError::Character);
        }
        let mut pairs = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(key)?, decode(value)?));
        }
        Ok(Query { pairs })
    }

    /// All pairs, in order.
    pub fn pairs(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.pairs
    }

    /// All values of a key, in order.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        self.pairs.iter().filter(move |(k, _)| &**k == key).map(|(_, value)| value)
    }

    /// The value of a key that stands there exactly once.
    pub fn single(&self, key: &str) -> Option<&Arc<str>> {
        let mut values = self.pairs.iter().filter(|(k, _)| &**k == key).map(|(_, value)| value);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    }
}

fn decode(text: &str) -> Result<Arc<str>, QueryError> {
    match percent::decode(text, true) {
        Ok(text) => Ok(text.into()),
        Err(Broken::Escape) => Err(QueryError::Escape),
        Err(Broken::Utf8) => Err(QueryError::Utf8),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(raw: &str) -> Result<Vec<(String, String)>, QueryError> {
        Query::parse(Some(raw)).map(|q| q.pairs().iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    #[test]
    fn pairs_stay_in_order_and_duplicates_are_kept() {
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(
            pairs("b=1&a=2&b=3&c&&=x&d=e=f"),
            Ok(vec![pair("b", "1"), pair("a", "2"), pair("b", "3"), pair("c", ""), pair("", "x"), pair("d", "e=f")])
        );
        let query = Query::parse(Some("b=1&a=2&b=3")).unwrap();
        assert_eq!(query.values("b").count(), 2);
        assert_eq!((query.single("b"), query.single("a").map(|v| &**v)), (None, Some("2")));
        assert_eq!(Query::parse(None).unwrap().pairs().len(), 0);
    }

    #[test]
    fn plus_is_a_space_and_escapes_are_decoded_once() {
        assert_eq!(pairs("q=a+b%2Bc%2520"), Ok(vec![("q".into(), "a b+c%20".into())]));
        assert_eq!(pairs("%61=%3d%26"), Ok(vec![("a".into(), "=&".into())]));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        assert_eq!(pairs("a=%"), Err(QueryError::Escape));
        assert_eq!(pairs("%4=1"), Err(QueryError::Escape));
        assert_eq!(pairs("a=%ff"), Err(QueryError::Utf8));
        assert_eq!(pairs("a=b c"), Err(QueryError::Character));
        assert_eq!(pairs("a=b#c"), Err(QueryError::Character));
        assert_eq!(pairs("a=ü"), Err(QueryError::Character));
    }

    proptest! {
        #[test]
        fn what_a_client_encodes_comes_back(given in proptest::collection::vec((".{0,6}", ".{0,6}"), 0..6)) {
            let encode = |w: &str| percent_encoding::utf8_percent_encode(w, percent_encoding::NON_ALPHANUMERIC).to_string();
            let raw: Vec<String> = given.iter().map(|(k, v)| format!("{}={}", encode(k), encode(v))).collect();
            prop_assert_eq!(pairs(&raw.join("&")), Ok(given));
        }
    }
}
