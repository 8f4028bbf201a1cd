//! Whether an item satisfies a line: evaluated here, never by generated datalog.

use super::joined;
use super::resolve::{ResolvedCondition, ResolvedItem, ResolvedLine, Rule};
use crate::facts::Term;
use crate::service::VerbOperation;

/// What a line sees of an item.
///
/// INVARIANT 6: only facts of the authorizer belong here (the request's, the item's, and what the
/// manifest derives from them). A fact that a token's block states must not be among them, or whoever
/// appends a block could satisfy a `where` with a value of their own.
pub trait ItemView {
    /// The item's operation.
    fn operation(&self) -> Option<&str>;

    /// Hands over the terms of each fact of the predicate, the item's own and the shared ones.
    fn each(&self, predicate: &str, visit: &mut dyn FnMut(&[Term]));
}

/// Whether the line allows the item. An item without an operation satisfies nothing.
pub fn satisfied(line: &ResolvedLine, item: &dyn ItemView) -> bool {
    let Some(operation) = item.operation() else {
        return false;
    };
    let one_of = |operations: &[VerbOperation]| operations.iter().any(|wanted| covers(wanted, operation, item));
    let touches = |operations: &[VerbOperation]| operations.iter().any(|wanted| touches(wanted, operation, item));
    match &line.rule {
        Rule::All => true,
        Rule::Nothing => false,
        Rule::Except { verbs, except } => one_of(verbs) && !touches(except),
        Rule::Only(items) => {
            items.iter().any(|allowed| one_of(&allowed.operations) && conditions_hold(allowed, operation, item))
        }
    }
}

/// Whether the item is that operation and nothing else: with the fact that tells it apart, and no other
/// value of its predicate (`?service=git-upload-pack&service=git-receive-pack` is both, or either).
fn covers(wanted: &VerbOperation, operation: &str, item: &dyn ItemView) -> bool {
    let (mut some, mut all) = (false, true);
    if let Some(with) = &wanted.with {
        item.each(&with.predicate, &mut |terms| {
            some = true;
            all &= terms == with.terms.as_slice();
        });
    }
    wanted.operation.as_ref() == operation && (wanted.with.is_none() || (some && all))
}

/// Whether the item could be that operation.
fn touches(wanted: &VerbOperation, operation: &str, item: &dyn ItemView) -> bool {
    let mut some = wanted.with.is_none();
    if let Some(with) = &wanted.with {
        item.each(&with.predicate, &mut |terms| some |= terms == with.terms.as_slice());
    }
    some && wanted.operation.as_ref() == operation
}

fn conditions_hold(allowed: &ResolvedItem, operation: &str, item: &dyn ItemView) -> bool {
    let concerns = |condition: &&ResolvedCondition| condition.selector.applies_to(operation);
    allowed.conditions.iter().filter(concerns).all(|condition| condition_holds(condition, item))
}

/// At least one value, and every value matches: a push that also writes a second ref is not covered by a
/// line about the first.
fn condition_holds(condition: &ResolvedCondition, item: &dyn ItemView) -> bool {
    let (mut some, mut all) = (false, true);
    item.each(condition.selector.predicate(), &mut |terms| {
        some = true;
        all &= joined(terms).is_some_and(|value| condition.patterns.iter().any(|pattern| pattern.matches(&value)));
    });
    some && all
}
