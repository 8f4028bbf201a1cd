//! Decoded bodies as trees: counted, walked, looked up (DESIGN §6).

use std::sync::Arc;

use super::{Key, Term};

/// How many facts `body(…)` there would be: scalars, and containers that are empty. What the manifest's
/// `max_body_facts` bounds.
pub fn count_nodes(term: &Term) -> usize {
    let mut count = 0;
    let mut open = vec![term];
    while let Some(term) = open.pop() {
        match term {
            Term::Array(items) if !items.is_empty() => open.extend(items.iter()),
            Term::Set(items) if !items.is_empty() => open.extend(items.iter()),
            Term::Map(entries) if !entries.is_empty() => open.extend(entries.values()),
            _ => count += 1,
        }
    }
    count
}

/// The scalars of a tree, each with the path that leads to it: `(["updates", 0, "ref"], "refs/heads/x")`.
/// One fact `body(path, value)` for each. Containers are described by [`body_shapes`], not repeated, as
/// the published format has it.
pub fn body_nodes(term: &Term) -> impl Iterator<Item = (Vec<Term>, Term)> + '_ {
    Walk::new(term).filter_map(|(path, term)| shape(term).is_none().then(|| (path, term.clone())))
}

/// The containers of a tree (`array`, `map`, `set`), each with its path and length: what
/// `body_kind(path, kind)` and `body_len(path, length)` are made from.
pub fn body_shapes(term: &Term) -> impl Iterator<Item = (Vec<Term>, &'static str, usize)> + '_ {
    Walk::new(term).filter_map(|(path, term)| shape(term).map(|(kind, length)| (path, kind, length)))
}

/// The node at a path of texts, as `body:updates.0.ref` names it: a map's key, or the index into an
/// array (decimal, without leading zeros).
pub fn lookup<'t, S: AsRef<str>>(term: &'t Term, path: &[S]) -> Option<&'t Term> {
    path.iter().try_fold(term, |term, step| {
        let step = step.as_ref();
        match term {
            Term::Map(entries) => entries.get(&Key::Str(step.into())),
            Term::Array(items) => items.get(index(step)?),
            _ => None,
        }
    })
}

fn index(step: &str) -> Option<usize> {
    let plain = step.bytes().all(|b| b.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    plain.then(|| step.parse().ok()).flatten()
}

fn shape(term: &Term) -> Option<(&'static str, usize)> {
    match term {
        Term::Array(items) => Some(("array", items.len())),
        Term::Set(items) => Some(("set", items.len())),
        Term::Map(entries) => Some(("map", entries.len())),
        _ => None,
    }
}

/// Depth first, in order, without recursion: a body may be as deep as its decoder lets it be.
struct Walk<'t> {
    path: Vec<Term>,
    open: Vec<Box<dyn Iterator<Item = (Term, &'t Term)> + 't>>,
    root: Option<&'t Term>,
}

impl<'t> Walk<'t> {
    fn new(root: &'t Term) -> Walk<'t> {
        Walk { path: Vec::new(), open: Vec::new(), root: Some(root) }
    }

    fn enter(&mut self, term: &'t Term) {
        let numbered = |(i, item)| (Term::Integer(i64::try_from(i).unwrap_or(i64::MAX)), item);
        match term {
            Term::Array(items) => self.open.push(Box::new(items.iter().enumerate().map(numbered))),
            Term::Set(items) => self.open.push(Box::new(items.iter().enumerate().map(numbered))),
            Term::Map(entries) => self.open.push(Box::new(entries.iter().map(|(key, item)| (key_term(key), item)))),
            _ => {}
        }
    }
}

impl<'t> Iterator for Walk<'t> {
    type Item = (Vec<Term>, &'t Term);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(root) = self.root.take() {
            self.enter(root);
            return Some((Vec::new(), root));
        }
        loop {
            let depth = self.open.len();
            match self.open.last_mut()?.next() {
                Some((step, term)) => {
                    self.path.truncate(depth.saturating_sub(1));
                    self.path.push(step);
                    self.enter(term);
                    return Some((self.path.clone(), term));
                }
                None => {
                    self.open.pop();
                }
            }
        }
    }
}

fn key_term(key: &Key) -> Term {
    match key {
        Key::Integer(number) => Term::Integer(*number),
        Key::Str(text) => Term::Str(Arc::clone(text)),
    }
}
