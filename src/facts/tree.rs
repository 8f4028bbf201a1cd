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
    let mut walk = Walk::new(term);
    std::iter::from_fn(move || {
        loop {
            let term = walk.step()?;
            if shape(term).is_none() {
                return Some((walk.path.clone(), term.clone()));
            }
        }
    })
}

/// The containers of a tree (`array`, `map`, `set`), each with its path and length: what
/// `body_kind(path, kind)` and `body_len(path, length)` are made from.
pub fn body_shapes(term: &Term) -> impl Iterator<Item = (Vec<Term>, &'static str, usize)> + '_ {
    let mut walk = Walk::new(term);
    std::iter::from_fn(move || {
        loop {
            if let Some((kind, length)) = shape(walk.step()?) {
                return Some((walk.path.clone(), kind, length));
            }
        }
    })
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
    /// Where the node is that `step` gave last.
    path: Vec<Term>,
    open: Vec<Inside<'t>>,
    root: Option<&'t Term>,
}

/// What is left of a container.
enum Inside<'t> {
    Array(i64, std::slice::Iter<'t, Term>),
    Set(i64, std::collections::btree_set::Iter<'t, Term>),
    Map(std::collections::btree_map::Iter<'t, Key, Term>),
}

impl<'t> Walk<'t> {
    fn new(root: &'t Term) -> Walk<'t> {
        Walk { path: Vec::new(), open: Vec::new(), root: Some(root) }
    }

    /// The next node.
    fn step(&mut self) -> Option<&'t Term> {
        if let Some(root) = self.root.take() {
            self.enter(root);
            return Some(root);
        }
        loop {
            self.path.truncate(self.open.len().saturating_sub(1));
            match self.open.last_mut()?.next() {
                Some((step, term)) => {
                    self.path.push(step);
                    self.enter(term);
                    return Some(term);
                }
                None => {
                    self.open.pop();
                }
            }
        }
    }

    fn enter(&mut self, term: &'t Term) {
        self.open.push(match term {
            Term::Array(items) => Inside::Array(0, items.iter()),
            Term::Set(items) => Inside::Set(0, items.iter()),
            Term::Map(entries) => Inside::Map(entries.iter()),
            _ => return,
        });
    }
}

impl<'t> Inside<'t> {
    fn next(&mut self) -> Option<(Term, &'t Term)> {
        let (index, item) = match self {
            Inside::Array(index, items) => (index, items.next()?),
            Inside::Set(index, items) => (index, items.next()?),
            Inside::Map(entries) => {
                return entries.next().map(|(key, item)| match key {
                    Key::Integer(number) => (Term::Integer(*number), item),
                    Key::Str(text) => (Term::Str(Arc::clone(text)), item),
                });
            }
        };
        *index += 1;
        Some((Term::Integer(*index - 1), item))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn map(entries: &[(&str, Term)]) -> Term {
        Term::Map(Arc::new(BTreeMap::from_iter(entries.iter().map(|(k, v)| (Key::Str((*k).into()), v.clone())))))
    }

    fn push() -> Term {
        let update = |name: &str| map(&[("ref", name.into())]);
        let updates = Term::Array([update("refs/heads/x"), update("refs/heads/y")].into());
        map(&[("base", "main".into()), ("empty", Term::Array([].into())), ("updates", updates)])
    }

    #[test]
    fn scalars_come_with_their_paths_in_order() {
        let nodes: Vec<_> = body_nodes(&push()).collect();
        let path = |index: i64| vec!["updates".into(), index.into(), "ref".into()];
        assert_eq!(
            nodes,
            [(vec!["base".into()], "main".into()), (path(0), "refs/heads/x".into()), (path(1), "refs/heads/y".into()),]
        );
        assert_eq!(body_nodes(&Term::Null).collect::<Vec<_>>(), [(vec![], Term::Null)]);
    }

    #[test]
    fn containers_are_described() {
        let shapes: Vec<_> = body_shapes(&push()).collect();
        assert_eq!(shapes.first(), Some(&(vec![], "map", 3)));
        assert!(shapes.contains(&(vec!["empty".into()], "array", 0)));
        assert!(shapes.contains(&(vec!["updates".into(), 1.into()], "map", 1)));
        assert_eq!(shapes.len(), 5);
    }

    #[test]
    fn counting_counts_scalars_and_empty_containers() {
        assert_eq!(count_nodes(&push()), 4);
        assert_eq!(count_nodes(&Term::Array([].into())), 1);
    }

    #[test]
    fn lookup_follows_keys_and_indices() {
        let tree = push();
        assert_eq!(lookup(&tree, &["updates", "1", "ref"]), Some(&"refs/heads/y".into()));
        assert_eq!(lookup(&tree, &["base"]), Some(&"main".into()));
        assert_eq!(lookup::<&str>(&tree, &[]), Some(&tree));
        for path in
            [&["updates", "2"][..], &["updates", "01"], &["updates", "+1"], &["updates", ""], &["base", "x"], &["no"]]
        {
            assert_eq!(lookup(&tree, path), None, "{path:?}");
        }
    }
}
