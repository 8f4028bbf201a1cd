//! The fragments of a document.

use std::collections::HashMap;

use apollo_parser::cst::{CstNode, FragmentDefinition, FragmentSpread, OperationDefinition};

use super::Unread::{self, Wrong};

/// Fragments by name. Made only of fragments that have names of their own, exist where they are used,
/// and don't spread each other in a circle.
pub(super) struct Fragments {
    definitions: Vec<FragmentDefinition>,
    by_name: HashMap<String, usize>,
}

impl Fragments {
    pub(super) fn of(definitions: Vec<FragmentDefinition>) -> Result<Fragments, Unread> {
        let mut by_name = HashMap::new();
        for (index, fragment) in definitions.iter().enumerate() {
            let name =
                fragment.fragment_name().and_then(|name| name.name()).ok_or(Wrong("a fragment without a name"))?;
            if by_name.insert(name.text().into(), index).is_some() {
                return Err(Wrong("two fragments of one name"));
            }
        }
        let fragments = Fragments { definitions, by_name };
        fragments.check_circles()?;
        Ok(fragments)
    }

    /// The fragment that a spread names.
    pub(super) fn find(&self, spread: &FragmentSpread) -> Result<(usize, &FragmentDefinition), Unread> {
        let name = spread.fragment_name().and_then(|name| name.name());
        name.and_then(|name| {
            let index = *self.by_name.get(name.text().as_str())?;
            Some((index, self.definitions.get(index)?))
        })
        .ok_or(Wrong("a fragment that is not there"))
    }

    /// An error unless all that an operation spreads, at any depth, is there.
    pub(super) fn check_uses(&self, operation: &OperationDefinition) -> Result<(), Unread> {
        self.spreads(operation.syntax()).map(|_| ())
    }

    fn spreads(&self, node: &apollo_parser::SyntaxNode) -> Result<Vec<usize>, Unread> {
        node.descendants().filter_map(FragmentSpread::cast).map(|spread| Ok(self.find(&spread)?.0)).collect()
    }

    /// Takes away fragment after fragment that spreads nothing that is left; what remains is a circle.
    fn check_circles(&self) -> Result<(), Unread> {
        let mut used_by: Vec<Vec<usize>> = vec![Vec::new(); self.definitions.len()];
        let mut waiting = Vec::with_capacity(self.definitions.len());
        for (index, fragment) in self.definitions.iter().enumerate() {
            let spreads = self.spreads(fragment.syntax())?;
            waiting.push(spreads.len());
            for spread in spreads {
                used_by.get_mut(spread).into_iter().for_each(|users| users.push(index));
            }
        }
        let mut done = 0;
        let mut free: Vec<usize> = (0..waiting.len()).filter(|index| waiting.get(*index) == Some(&0)).collect();
        while let Some(index) = free.pop() {
            done += 1;
            for user in used_by.get(index).into_iter().flatten() {
                if let Some(left) = waiting.get_mut(*user) {
                    *left -= 1;
                    if *left == 0 {
                        free.push(*user);
                    }
                }
            }
        }
        if done == waiting.len() { Ok(()) } else { Err(Wrong("fragments that spread each other in a circle")) }
    }
}
