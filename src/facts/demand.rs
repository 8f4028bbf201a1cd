//! Which facts somebody will read: nothing else is made.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The predicates that a program reads, and for some of them the only first terms it reads
/// (`request_header("content-type", $v)` wants one field of sixty).
#[derive(Debug, Clone, Default)]
pub struct Demand {
    everything: bool,
    predicates: HashMap<Arc<str>, Keys>,
}

#[derive(Debug, Clone)]
enum Keys {
    Any,
    Only(HashSet<Arc<str>>),
}

impl Demand {
    /// Wants every fact: for `audit.facts = "full"`, for explaining, for tests.
    pub fn everything() -> Demand {
        Demand { everything: true, predicates: HashMap::new() }
    }

    /// Wants nothing yet.
    pub fn nothing() -> Demand {
        Demand::default()
    }

    /// Adds a predicate whatever its terms.
    pub fn add(&mut self, predicate: &str) {
        self.predicates.insert(predicate.into(), Keys::Any);
    }

    /// Adds a predicate where its first term is this string.
    pub fn add_key(&mut self, predicate: &str, first: &str) {
        match self.predicates.entry(predicate.into()).or_insert_with(|| Keys::Only(HashSet::new())) {
            Keys::Any => {}
            Keys::Only(keys) => {
                keys.insert(first.into());
            }
        }
    }

    /// Adds all that the other wants.
    pub fn merge(&mut self, other: &Demand) {
        self.everything |= other.everything;
        for (predicate, keys) in &other.predicates {
            match keys {
                Keys::Any => self.add(predicate),
                Keys::Only(keys) => keys.iter().for_each(|key| self.add_key(predicate, key)),
            }
        }
    }

    /// Whether any fact of the predicate is read.
    pub fn wants(&self, predicate: &str) -> bool {
        self.everything || self.predicates.contains_key(predicate)
    }

    /// Whether a fact of the predicate with this first term is read.
    pub fn wants_key(&self, predicate: &str, first: &str) -> bool {
        self.everything
            || match self.predicates.get(predicate) {
                None => false,
                Some(Keys::Any) => true,
                Some(Keys::Only(keys)) => keys.contains(first),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_narrows_and_the_whole_predicate_widens() {
        let mut demand = Demand::nothing();
        demand.add_key("request_header", "content-type");
        assert!(demand.wants("request_header") && demand.wants_key("request_header", "content-type"));
        assert!(!demand.wants_key("request_header", "accept") && !demand.wants("body"));
        demand.add("request_header");
        demand.add_key("request_header", "accept");
        assert!(demand.wants_key("request_header", "anything"));
    }
}
