//! A path into a decoded body, parsed once: `updates.0.ref`.

use std::sync::Arc;

use crate::facts::{Key, Term};

/// Keys and indexes, in order. None: the tree itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Steps(Arc<[Step]>);

/// The key of a map, and the index into a list that the same text stands for, if it stands for one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    text: Arc<str>,
    key: Key,
    index: Option<usize>,
}

impl Steps {
    /// Parses keys joined with `.`.
    pub(super) fn parse(path: &str) -> Result<Steps, String> {
        if path.is_empty() {
            return Ok(Steps(Arc::from([])));
        }
        if path.split('.').any(str::is_empty) {
            return Err(format!("`{path}` is not a path into a body: use keys joined with `.`"));
        }
        Ok(Steps(path.split('.').map(Step::new).collect()))
    }

    /// The node that they lead to. What [`crate::facts::lookup`] finds, without making a key each time.
    pub(super) fn find<'t>(&self, tree: &'t Term) -> Option<&'t Term> {
        self.0.iter().try_fold(tree, |term, step| match term {
            Term::Map(entries) => entries.get(&step.key),
            Term::Array(items) => items.get(step.index?),
            _ => None,
        })
    }

    /// As written.
    pub(super) fn text(&self) -> String {
        self.texts().collect::<Vec<_>>().join(".")
    }

    /// Each as written.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|step| &*step.text)
    }
}

impl Step {
    fn new(text: &str) -> Step {
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        let text: Arc<str> = text.into();
        Step { index: plain.then(|| text.parse().ok()).flatten(), key: Key::Str(Arc::clone(&text)), text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::lookup;
    use proptest::prelude::*;

    #[test]
    fn steps_find_what_lookup_finds() {
        let tree = Term::Array(
            [
                Term::Map(Arc::new(
                    [(Key::Str("0".into()), Term::from("zero")), (Key::Integer(0), Term::from(1))].into(),
                )),
                Term::from("x"),
            ]
            .into(),
        );
        for path in ["0", "1", "0.0", "00", "2", "x", "0.1", "1.0"] {
            let steps: Vec<&str> = path.split('.').collect();
            assert_eq!(Steps::parse(path).unwrap().find(&tree), lookup(&tree, &steps), "{path}");
        }
        assert_eq!(Steps::parse("").unwrap().find(&tree), Some(&tree));
        assert!(Steps::parse("a..b").is_err() && Steps::parse(".").is_err());
    }

    proptest! {
        #[test]
        fn steps_keep_their_text(path in "[a-z0-9$*]{1,4}(\\.[a-z0-9]{1,3}){0,3}") {
            prop_assert_eq!(Steps::parse(&path).unwrap().text(), path);
        }
    }
}
