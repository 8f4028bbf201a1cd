//! `body_paths`: which nodes of a large body matter.

use std::sync::Arc;

/// The paths that a manifest names: `model`, `tools.*.name`. Empty: every node is kept.
///
/// A step is a key, or `*` for any key and for every element of an array. A path that leads to a container
/// keeps all of it; a scalar where a path expects a container is kept. Indices stay what they were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodyPaths {
    root: Option<Arc<Step>>,
}

/// A text that is no body path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a body path: use keys joined with `.`, and `*` for any key and for every index")]
pub struct BodyPathError {
    /// What was given.
    pub given: String,
}

/// One place in the tree of demanded paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Step {
    keys: Vec<(Arc<str>, Step)>,
    any: Option<Box<Step>>,
    /// Whether a path ends here: everything below is kept.
    whole: bool,
}

impl BodyPaths {
    /// Parses the paths of a manifest. A step that is a number is refused: it would never match in an
    /// array, and a rule that forbids what stands there would be silent.
    pub fn parse<S: AsRef<str>>(paths: &[S]) -> Result<BodyPaths, BodyPathError> {
        let mut root = Step::default();
        for path in paths {
            let path = path.as_ref();
            let mut step = &mut root;
            for key in path.split('.') {
                if key.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(BodyPathError { given: path.to_owned() });
                }
                step = step.child(key);
            }
            step.whole = true;
        }
        root.settle();
        Ok(BodyPaths { root: (!paths.is_empty()).then(|| Arc::new(root)) })
    }

    /// Whether every node is kept.
    pub fn is_everything(&self) -> bool {
        self.root.is_none()
    }

    /// What is kept of the whole.
    pub(super) fn keep(&self) -> Keep<'_> {
        match &self.root {
            None => Keep::EVERYTHING,
            Some(root) => Keep::below(root),
        }
    }
}

impl Step {
    fn child(&mut self, key: &str) -> &mut Step {
        if key == "*" {
            return self.any.get_or_insert_default();
        }
        let index = match self.keys.iter().position(|(k, _)| &**k == key) {
            Some(index) => index,
            None => {
                self.keys.push((key.into(), Step::default()));
                self.keys.len() - 1
            }
        };
        #[allow(clippy::indexing_slicing, reason = "the index was found or made above")]
        &mut self.keys[index].1
    }

    /// Puts what `*` demands into the named steps beside it, so that one look finds all.
    fn settle(&mut self) {
        if let Some(any) = &self.any {
            for (_, step) in &mut self.keys {
                step.merge(any);
            }
        }
        for (_, step) in &mut self.keys {
            step.settle();
        }
        if let Some(any) = &mut self.any {
            any.settle();
        }
    }

    fn merge(&mut self, other: &Step) {
        self.whole |= other.whole;
        for (key, step) in &other.keys {
            self.child(key).merge(step);
        }
        if let Some(any) = &other.any {
            self.child("*").merge(any);
        }
    }
}

/// What is kept at one place of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep<'p>(Kept<'p>);

#[derive(Debug, Clone, Copy)]
enum Kept<'p> {
    Nothing,
    Below(&'p Step),
    Everything,
}

impl<'p> Keep<'p> {
    pub(super) const EVERYTHING: Keep<'static> = Keep(Kept::Everything);

    fn below(step: &'p Step) -> Keep<'p> {
        Keep(if step.whole { Kept::Everything } else { Kept::Below(step) })
    }

    /// Whether anything is.
    pub(super) fn is_kept(self) -> bool {
        !matches!(self.0, Kept::Nothing)
    }

    /// Whether an array that stands here is: one without a `*` for its elements would say that it has none.
    pub(super) fn keeps_array(self) -> bool {
        match self.0 {
            Kept::Nothing => false,
            Kept::Below(step) => step.any.is_some(),
            Kept::Everything => true,
        }
    }

    /// What is kept of a member.
    pub(super) fn member(self, key: &str) -> Keep<'p> {
        match self.0 {
            Kept::Below(step) => match step.keys.iter().find(|(k, _)| &**k == key) {
                Some((_, step)) => Keep::below(step),
                None => self.element(),
            },
            other => Keep(other),
        }
    }

    /// What is kept of each element.
    pub(super) fn element(self) -> Keep<'p> {
        match self.0 {
            Kept::Below(step) => step.any.as_deref().map_or(Keep(Kept::Nothing), Keep::below),
            other => Keep(other),
        }
    }
}
