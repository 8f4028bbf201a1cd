//! `body_paths`: which nodes of a large body matter.

use std::sync::Arc;

/// The paths that a manifest names: `model`, `tools.*.name`. Empty: every node is kept.
///
/// A step is a key, or `*` for any key or index. A path that leads to a container keeps all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodyPaths {
    root: Option<Arc<Step>>,
}

/// A text that is no body path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a body path: use keys joined with `.`, and `*` for any key or index")]
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
    /// Parses the paths of a manifest.
    pub fn parse<S: AsRef<str>>(paths: &[S]) -> Result<BodyPaths, BodyPathError> {
        let mut root = Step::default();
        for path in paths {
            let path = path.as_ref();
            let mut step = &mut root;
            for key in path.split('.') {
                if key.is_empty() {
                    return Err(BodyPathError { given: path.to_owned() });
                }
                step = step.child(key);
            }
            step.whole = true;
        }
        Ok(BodyPaths { root: (!paths.is_empty()).then(|| Arc::new(root)) })
    }

    /// Whether every node is kept.
    pub fn is_everything(&self) -> bool {
        self.root.is_none()
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
}
