//! Globs over values: `*` stops at `/`, `**` between slashes does not.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

use crate::facts::Term;

/// A compiled glob.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: Arc<str>,
    matcher: GlobMatcher,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a pattern: {problem}")]
pub struct GlobError {
    /// What was given.
    pub given: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Pattern {
    /// Compiles a glob in globset's syntax. A pattern is matched against the whole value.
    pub fn parse(text: &str, ignore_case: bool) -> Result<Pattern, GlobError> {
        let wrong = |problem: String| GlobError { given: text.to_owned(), problem };
        if text.is_empty() {
            return Err(wrong("it is empty".to_owned()));
        }
        if text.chars().any(char::is_control) {
            return Err(wrong("it has a control character".to_owned()));
        }
        let glob = GlobBuilder::new(text)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .case_insensitive(ignore_case)
            .build()
            .map_err(|error| wrong(error.kind().to_string()))?;
        Ok(Pattern { text: text.into(), matcher: glob.compile_matcher() })
    }

    /// Whether the whole value matches.
    pub fn matches(&self, value: &str) -> bool {
        self.matcher.is_match(value)
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How much of it is literal: a pattern without wildcards beats any with them, and more literal
    /// characters beat fewer.
    pub fn specificity(&self) -> usize {
        let wild = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
        let literal = self.text.chars().filter(|c| !wild(*c)).count();
        if self.text.contains(wild) { literal } else { usize::MAX }
    }
}

/// A fact's terms as the text that patterns see: joined with `/`. `None` for terms that have no such
/// text (sets, arrays, maps, bytes, null), which therefore match no pattern.
pub fn joined(terms: &[Term]) -> Option<String> {
    let mut text = String::new();
    for (index, term) in terms.iter().enumerate() {
        if index > 0 {
            text.push('/');
        }
        match term {
            Term::Str(value) => text.push_str(value),
            Term::Integer(number) => text.push_str(&number.to_string()),
            Term::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Term::Date(_) | Term::Bytes(_) | Term::Null | Term::Set(_) | Term::Array(_) | Term::Map(_) => return None,
        }
    }
    (!terms.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        Pattern::parse(pattern, false).unwrap().matches(value)
    }

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        assert!(matches("refs/heads/*", "refs/heads/x"));
        assert!(!matches("refs/heads/*", "refs/heads/x/y"));
        assert!(matches("refs/heads/**", "refs/heads/x/y"));
        assert!(!matches("refs/heads/?", "refs/heads//"));
        assert!(!matches("a[!b]c", "a/c"));
    }

    #[test]
    fn r27_a_pattern_matches_the_whole_value() {
        assert!(!matches("me", "me-evil"));
        assert!(!matches("acme/*", "acme-evil/x"));
        assert!(!matches("refs/heads/dev", "refs/heads/dev\n"));
        assert!(!matches("acme/site", "xacme/site"));
    }

    #[test]
    fn r26_case_is_ignored_where_the_selector_says_so() {
        assert!(Pattern::parse("acme/*", true).unwrap().matches("ACME/Site"));
        assert!(!matches("acme/*", "ACME/Site"));
    }

    #[test]
    fn an_exact_pattern_is_the_most_specific() {
        let specificity = |text| Pattern::parse(text, false).unwrap().specificity();
        assert!(specificity("a/b") > specificity("aaaaaaaaaaaa/bbbbbbbb*"));
        assert!(specificity("acme/site-*") > specificity("acme/*") && specificity("acme/*") > specificity("*/*"));
    }

    #[test]
    fn terms_without_a_text_have_none() {
        assert_eq!(joined(&[Term::str("a"), Term::Integer(3)]).as_deref(), Some("a/3"));
        assert_eq!(joined(&[Term::Null]), None);
        assert_eq!(joined(&[]), None);
    }
}
