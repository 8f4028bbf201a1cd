//! Why a request was refused, in words.

use super::choice::NoChoice;
use super::datalog::{Nearest, Owner, Place, Run, What};
use super::rulebook::{FIRST, LAST};
use super::{Candidate, DecidedItem, FailedCheck, Origin};
use crate::service::Datalog;
use crate::token::{self, Block, ast};

/// How far a missing fact is followed through the rules that could derive it.
const MAX_STEPS: usize = 4;

/// Where statements' texts are found.
pub(super) struct Statements<'a> {
    pub(super) files: &'a [&'a Datalog],
    pub(super) blocks: &'a [Block],
}

impl Statements<'_> {
    /// The statement as datalog.
    pub(super) fn text(&self, place: &Place) -> String {
        match place.owner {
            Owner::File(number) => self.file_text(number, place),
            Owner::Block(number) => self.block_text(number, place),
        }
        .unwrap_or_default()
    }

    fn file_text(&self, number: usize, place: &Place) -> Option<String> {
        let file = self.files.get(number)?;
        let text = match place.what {
            What::Fact => &file.facts.get(place.index)?.text,
            What::Rule => &file.rules.get(place.index)?.text,
            What::Check => &file.checks.get(place.index)?.text,
            What::Policy => &file.policies.get(place.index)?.text,
        };
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn block_text(&self, number: usize, place: &Place) -> Option<String> {
        let block = self.blocks.get(number)?;
        Some(match place.what {
            What::Fact => token::print_fact(block.facts.get(place.index)?),
            What::Rule => token::print_rule(block.rules.get(place.index)?),
            What::Check => token::print_check(block.checks.get(place.index)?),
            What::Policy => return None,
        })
    }

    /// The statement and whose it is.
    pub(super) fn describe(&self, place: &Place) -> String {
        let what = match place.what {
            What::Fact => "fact",
            What::Rule => "rule",
            What::Check => "check",
            What::Policy => "policy",
        };
        let whose = match place.owner {
            Owner::File(_) => "the policy's".to_owned(),
            Owner::Block(0) => "the token's".to_owned(),
            Owner::Block(block) => format!("the token's (block {block})"),
        };
        format!("{whose} {what} `{}`", self.text(place))
    }

    /// Whether it is one that the authorizer always adds.
    pub(super) fn is_own(&self, place: &Place) -> bool {
        let Owner::File(number) = place.owner else { return false };
        self.files.get(number).is_some_and(|file| std::ptr::eq(*file, &*FIRST) || std::ptr::eq(*file, &*LAST))
    }

    fn atom(&self, place: &Place, query: usize, atom: usize) -> Option<String> {
        let rule = self.body(place, query)?;
        rule.body.get(atom).map(print_atom)
    }

    fn body(&self, place: &Place, query: usize) -> Option<&ast::Rule> {
        match (place.owner, place.what) {
            (Owner::File(number), What::Rule) => Some(&self.files.get(number)?.rules.get(place.index)?.statement),
            (Owner::File(number), What::Policy) => {
                self.files.get(number)?.policies.get(place.index)?.statement.queries.get(query)
            }
            (Owner::File(number), What::Check) => {
                self.files.get(number)?.checks.get(place.index)?.statement.queries.get(query)
            }
            (Owner::Block(number), What::Rule) => self.blocks.get(number)?.rules.get(place.index),
            _ => None,
        }
    }
}

/// A predicate as text, through the printer of rules.
fn print_atom(predicate: &ast::Predicate) -> String {
    let head = ast::Predicate { name: String::new(), terms: Vec::new() };
    let rule = ast::Rule::new(head, vec![predicate.clone()], Vec::new(), Vec::new());
    let text = token::print_rule(&rule);
    text.split_once("<- ").map_or(text.clone(), |(_, atom)| atom.to_owned())
}

/// The allow policy that came closest, and the first atom of it that nothing matched; followed through the
/// rules that could have derived it.
pub(super) fn closest(run: &mut Run<'_, '_>, statements: &Statements<'_>) -> Option<String> {
    let mut nearest = run.nearest_policy()?;
    let mut text = format!("`{}`", statements.text(&nearest.place));
    for _ in 0..MAX_STEPS {
        let Nearest { place, query, missing, .. } = &nearest;
        let Some(missing) = missing else {
            text.push_str(": its conditions don't hold");
            return Some(text);
        };
        if let Some(atom) = statements.atom(place, *query, *missing) {
            text.push_str(&format!(": nothing matches `{atom}`"));
        }
        match run.nearest_rule(&nearest) {
            Some(rule) => {
                text.push_str(&format!("; closest to it is `{}`", statements.text(&rule.place)));
                nearest = rule;
            }
            None => break,
        }
    }
    Some(text)
}

/// What a refusal is told from.
pub(super) struct Told<'a> {
    pub(super) item: Option<&'a DecidedItem>,
    pub(super) failed: &'a [FailedCheck],
    pub(super) no_choice: Option<&'a NoChoice>,
    pub(super) rule_refuses: bool,
    pub(super) candidate: &'a Candidate,
    /// What would be allowed.
    pub(super) lines: &'a [String],
}

/// One line for the client: what was refused and, where it helps, what would be allowed.
pub(super) fn message(told: &Told<'_>) -> String {
    let what = told.item.map_or_else(|| "the request".to_owned(), describe_item);
    if let Some(no_choice) = told.no_choice {
        return format!("{what} is refused: {}", no_choice.message);
    }
    if !told.rule_refuses
        && let Some(check) = told.failed.first()
    {
        let whose = match check.origin {
            Origin::Authorizer => "the policy",
            Origin::Block(_) => "the token",
        };
        let more = if told.failed.len() > 1 { format!(" (and {} more)", told.failed.len() - 1) } else { String::new() };
        return format!("{what} is refused: {whose} says `{}`{more}", check.text);
    }
    let by = match told.candidate {
        Candidate::Grant { name, .. } => format!("the grant {name} does not allow it"),
        Candidate::SpecLine { spec, .. } => format!("the spec {spec} does not allow it"),
        Candidate::Passthrough => "the token does not allow it".to_owned(),
    };
    let may = if told.lines.is_empty() { String::new() } else { format!("; allowed is: {}", told.lines.join("; ")) };
    format!("{what} is refused: {by}{may}")
}

/// `push` on `repository("o", "r")`.
fn describe_item(item: &DecidedItem) -> String {
    let what = match &item.operation {
        Some(operation) => format!("`{}`", token::printable(operation)),
        None => "a request that no route of the service names".to_owned(),
    };
    let about: Vec<String> =
        item.resources.iter().take(3).map(|fact| format!("`{}`", token::print_fact(fact))).collect();
    if about.is_empty() { what } else { format!("{what} on {}", about.join(", ")) }
}
