//! The decision itself: every item, by one and the same candidate (DESIGN §6, §8, §14).

#![allow(clippy::result_large_err, reason = "a refusal is the rare end of a request, made once")]

use std::cell::Cell;

use super::allow::{ItemView, satisfied};
use super::choice::{self, NoChoice};
use super::datalog::{Budget, Fault, Machine, Meter, Owner, Run, Scratch, Stop, Verdict, What};
use super::explain::{self, Statements};
use super::program::{CandidateRule, Compiled, Program, Purpose};
use super::rulebook::{TOKEN_PREDICATES, USE_CREDENTIAL};
use super::{
    Candidate, CredentialChoice, DecidedItem, Decision, Denial, FailedCheck, Narrowing, Origin, Permit, Situation,
    Watch,
};
use crate::facts::{Body, Fact, Item, RequestFacts, Term};
use crate::service::Selector;
use crate::token::{self, Identity, ast};
use crate::words::Reason;

/// May this request be made? Pure: the same inputs give the same decision.
pub fn decide(program: &Program, facts: &RequestFacts, situation: &Situation<'_>) -> Decision {
    let decision = with_scratch(|scratch| Deciding { program, facts, situation }.decide(scratch));
    match decision {
        Ok(permit) => Decision::Permit(permit),
        Err(denial) => {
            let mut denial = *denial;
            if denial.items.is_empty() {
                denial.items = stated_items(program, facts);
            }
            Decision::Denial(denial)
        }
    }
}

/// The items as the request's facts have them, for denials that come before anything is derived.
fn stated_items(program: &Program, facts: &RequestFacts) -> Vec<DecidedItem> {
    let is_resource = |fact: &&Fact| program.service.iter().any(|s| s.resources().contains(&fact.predicate));
    let item = |item: &Item| DecidedItem {
        operation: item.operation.clone(),
        resources: facts.shared.iter().chain(&item.facts).filter(is_resource).cloned().collect(),
    };
    facts.items.iter().map(item).collect()
}

/// Whether the token's own checks hold at an endpoint: for issuers and bearers alike, and never a permit.
pub fn admit(program: &Program, facts: &RequestFacts, situation: &Situation<'_>) -> Result<(), Denial> {
    if program.purpose != Purpose::Endpoint {
        return Err(Denial::because(Reason::PolicyError, "this program is not for endpoints"));
    }
    with_scratch(|scratch| Deciding { program, facts, situation }.admit(scratch)).map_err(|denial| *denial)
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Memory is used again by the next decision on this thread.
fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.with(Cell::take).unwrap_or_default();
    let result = work(&mut scratch);
    scratch.trim();
    SCRATCH.with(|slot| slot.set(Some(scratch)));
    result
}

type Outcome<T> = Result<T, Box<Denial>>;

struct Deciding<'a> {
    program: &'a Program,
    facts: &'a RequestFacts,
    situation: &'a Situation<'a>,
}

/// Why a candidate did not allow.
struct Attempt<'p> {
    compiled: &'p Compiled,
    item: usize,
    verdict: Verdict,
    /// The policies or the line don't allow.
    rule_refuses: bool,
    no_choice: Option<NoChoice>,
}

/// What a candidate decided.
struct Allowed {
    choice: CredentialChoice,
    narrowing: Narrowing,
    items: Vec<DecidedItem>,
}

enum Tried<'p> {
    Allowed(Allowed),
    Refused(Attempt<'p>),
}

impl<'a> Deciding<'a> {
    fn decide(&self, scratch: &mut Scratch) -> Outcome<Permit> {
        self.preconditions()?;
        let mut meter = Meter::new(&self.program.limits);
        let mut furthest: Option<Attempt<'a>> = None;
        for compiled in &self.program.candidates {
            match self.try_candidate(compiled, scratch, &mut meter)? {
                Tried::Allowed(allowed) => return Ok(self.permit(compiled, allowed, &meter)),
                Tried::Refused(attempt) => {
                    let further = |best: &Attempt<'_>| {
                        let rank = |a: &Attempt<'_>| (a.item, !a.rule_refuses, usize::MAX - a.verdict.failed.len());
                        rank(&attempt) > rank(best)
                    };
                    if furthest.as_ref().is_none_or(further) {
                        furthest = Some(attempt);
                    }
                }
            }
        }
        Err(Box::new(self.denial(furthest, scratch, &meter)))
    }

    fn admit(&self, scratch: &mut Scratch) -> Outcome<()> {
        self.expiry()?;
        let mut meter = Meter::new(&self.program.limits);
        let Some(compiled) = self.program.candidates.first() else {
            return Err(Box::new(Denial::because(Reason::PolicyError, "nothing was compiled")));
        };
        match self.try_candidate(compiled, scratch, &mut meter)? {
            Tried::Allowed(_) => Ok(()),
            Tried::Refused(attempt) => Err(Box::new(self.denial(Some(attempt), scratch, &meter))),
        }
    }

    /// What is refused whatever the policy says.
    fn preconditions(&self) -> Outcome<()> {
        let refuse = |reason, message: String| Err(Box::new(Denial::because(reason, message)));
        // compile refuses both; asked again because everything hangs on it
        if self.program.purpose == Purpose::Endpoint
            || !matches!(self.program.token.identity(), Identity::Bearer { .. })
        {
            return refuse(Reason::PolicyDenied, "this token makes no requests".to_owned());
        }
        let service = self.program.service.as_ref().map(|service| service.name());
        if service != self.facts.service.as_ref() {
            return refuse(Reason::PolicyError, "the program is for another service".to_owned());
        }
        self.expiry()?;
        match &self.facts.body {
            Body::Truncated => {
                refuse(Reason::BodyTooLargeToJudge, "the body has more in it than can be judged".to_owned())
            }
            Body::Undecodable(why) => refuse(Reason::BodyUnreadable, format!("the body can't be read: {why}")),
            Body::Absent | Body::Opaque | Body::Decoded(_) => Ok(()),
        }
    }

    fn expiry(&self) -> Outcome<()> {
        match self.program.token.expires() {
            Some(expires) if self.situation.now >= expires => {
                let at = token::print_term(&Term::Date(expires));
                Err(Box::new(Denial::because(Reason::TokenExpired, format!("the token expired at {at}"))))
            }
            _ => Ok(()),
        }
    }

    /// Judges every item by one candidate. The error is a denial whatever other candidates would say: a
    /// rule that errors is refused, never skipped.
    fn try_candidate(&self, compiled: &'a Compiled, scratch: &mut Scratch, meter: &mut Meter) -> Outcome<Tried<'a>> {
        let stopped = |stop: Stop, used: u64| Box::new(self.stopped(compiled, stop, used));
        let Some(machine) = self.program.machines.get(compiled.machine) else {
            return Err(Box::new(Denial::because(Reason::PolicyError, "a candidate has no machine")));
        };
        let mut run = Run::new(machine, scratch, &self.program.limits);
        run.set_meter(meter.clone());
        let tried = self.try_items(compiled, &mut run);
        *meter = run.meter().clone();
        tried.map_err(|stop| stopped(stop, meter.used()))
    }

    fn try_items(&self, compiled: &'a Compiled, run: &mut Run<'_, '_>) -> Result<Tried<'a>, Stop> {
        let body = match &self.facts.body {
            Body::Decoded(tree) => Some(tree),
            Body::Absent | Body::Opaque | Body::Undecodable(_) | Body::Truncated => None,
        };
        let single = [Item::default()];
        let items = if self.facts.items.is_empty() { &single } else { self.facts.items.as_slice() };
        let mut allowed = Allowed {
            choice: CredentialChoice::Anonymous,
            narrowing: Narrowing::default(),
            items: Vec::with_capacity(items.len()),
        };
        let shared = self.facts.shared.iter().filter(is_for_policy);
        match items {
            // one item's facts are as good as shared ones
            [item] => run.share(self.situation.now, body, shared.chain(item.facts.iter().filter(is_for_policy)))?,
            _ => run.share(self.situation.now, body, shared)?,
        }
        for (index, item) in items.iter().enumerate() {
            if items.len() > 1 {
                run.begin_item(item.facts.iter().filter(is_for_policy))?;
            }
            let decided = self.decided(item, run);
            let attempt = self.judge_item(compiled, index, item, &decided, &mut allowed, run)?;
            allowed.items.push(decided);
            if items.len() > 1 {
                run.end_item();
            }
            if let Some(attempt) = attempt {
                return Ok(Tried::Refused(attempt));
            }
        }
        let refused = |no_choice| Attempt {
            compiled,
            item: 0,
            verdict: Verdict::default(),
            rule_refuses: false,
            no_choice: Some(no_choice),
        };
        match self.narrowing(compiled, &allowed) {
            Ok(narrowing) => Ok(Tried::Allowed(Allowed { narrowing, ..allowed })),
            Err(no_choice) => Ok(Tried::Refused(refused(no_choice))),
        }
    }

    /// `None` if the item may be done, with the credential that the items before it chose.
    fn judge_item(
        &self,
        compiled: &'a Compiled,
        index: usize,
        item: &Item,
        decided: &DecidedItem,
        allowed: &mut Allowed,
        run: &mut Run<'_, '_>,
    ) -> Result<Option<Attempt<'a>>, Stop> {
        let choice = self.choose(compiled, decided, run);
        let narrowed = self.narrowed(item, choice.as_ref().ok(), run);
        run.set_allowed(&narrowed);
        let verdict = run.judge()?;
        let rule_refuses = match &compiled.rule {
            CandidateRule::Grant(_) => !verdict.allows,
            CandidateRule::Line(line) => !satisfied(line, &View { item, deciding: self, run }),
            CandidateRule::Passthrough => false,
        };
        let refused = |verdict, no_choice| Some(Attempt { compiled, item: index, verdict, rule_refuses, no_choice });
        if rule_refuses || !verdict.failed.is_empty() {
            return Ok(refused(verdict, None));
        }
        match choice {
            Err(no_choice) => Ok(refused(verdict, Some(no_choice))),
            Ok(choice) if index > 0 && choice != allowed.choice => Ok(refused(
                verdict,
                Some(NoChoice {
                    reason: Reason::PolicyDenied,
                    message: "its parts would go out with different credentials: make them one by one".to_owned(),
                }),
            )),
            Ok(choice) => {
                allowed.choice = choice;
                Ok(None)
            }
        }
    }

    fn choose(
        &self,
        compiled: &Compiled,
        decided: &DecidedItem,
        run: &Run<'_, '_>,
    ) -> Result<CredentialChoice, NoChoice> {
        let Some(service) = self.program.service.as_deref() else { return Ok(CredentialChoice::Anonymous) };
        let choice = match &compiled.rule {
            CandidateRule::Grant(grant) => choice::of_grant(grant, service, &decided.resources, run)?,
            CandidateRule::Line(line) => choice::of_line(line, service, self.situation)?,
            CandidateRule::Passthrough => CredentialChoice::Anonymous,
        };
        match self.situation.account {
            Some(account) if !choice::is_account(&choice, account) => Err(NoChoice {
                reason: Reason::PolicyDenied,
                message: format!("the client asks for the account `{}`", token::printable(account)),
            }),
            _ => Ok(choice),
        }
    }

    fn narrowing(&self, compiled: &Compiled, allowed: &Allowed) -> Result<Narrowing, NoChoice> {
        let Some(service) = self.program.service.as_deref() else { return Ok(Narrowing::default()) };
        let narrow = match &compiled.rule {
            CandidateRule::Grant(grant) => grant.narrow.as_ref(),
            CandidateRule::Line(_) | CandidateRule::Passthrough => None,
        };
        let resources: Vec<Vec<Fact>> = allowed.items.iter().map(|item| item.resources.clone()).collect();
        match allowed.choice {
            CredentialChoice::Named(_) => choice::narrowing(narrow, service, &resources),
            CredentialChoice::Anonymous => Ok(Narrowing::default()),
        }
    }

    /// What each narrowing says of the item. Requests to other services are untouched by it.
    fn narrowed(&self, item: &Item, choice: Option<&CredentialChoice>, run: &Run<'_, '_>) -> Vec<bool> {
        let holds = |line: &super::allow::ResolvedLine| {
            if self.program.purpose == Purpose::Endpoint {
                return false;
            }
            if self.program.service.as_ref().is_none_or(|service| service.name() != line.service()) {
                return true;
            }
            let account = line.account().is_none_or(|account| choice.is_some_and(|c| choice::is_account(c, account)));
            account && satisfied(line, &View { item, deciding: self, run })
        };
        self.program.narrowings.iter().map(holds).collect()
    }

    /// The item for the audit, with what it is about.
    fn decided(&self, item: &Item, run: &Run<'_, '_>) -> DecidedItem {
        let view = View { item, deciding: self, run };
        let mut resources: Vec<Fact> = Vec::new();
        let named = self.program.service.iter().flat_map(|service| {
            // a refused push is about its ref as much as about its repository
            service.resources().iter().chain(service.selectors().iter().map(Selector::predicate))
        });
        for predicate in named {
            view.each(predicate, &mut |terms| {
                let known = resources.iter().any(|fact| fact.predicate == *predicate && fact.terms == terms);
                if !known {
                    resources.push(Fact { predicate: predicate.clone(), terms: terms.to_vec() });
                }
            });
        }
        DecidedItem { operation: item.operation.clone(), resources }
    }

    fn permit(&self, compiled: &Compiled, allowed: Allowed, meter: &Meter) -> Permit {
        Permit {
            authority: self.facts.authority.clone(),
            service: self.facts.service.clone(),
            candidate: compiled.candidate.clone(),
            items: allowed.items,
            credential: allowed.choice,
            narrowing: allowed.narrowing,
            watch: Watch {
                revocation_ids: self.program.token.revocation_ids().into(),
                expires: self.program.token.expires(),
                decide_again: self.program.token.has_odd_expiry(),
            },
            fuel: meter.used(),
        }
    }

    /// A denial because something could not be evaluated to its end.
    fn stopped(&self, compiled: &Compiled, stop: Stop, used: u64) -> Denial {
        let files = self.program.files(&compiled.rule);
        let statements = Statements { files: &files, blocks: self.program.token.blocks() };
        let whose = stop.place.map(|place| statements.describe(&place)).unwrap_or_else(|| "the request".to_owned());
        let (reason, message) = match stop.fault {
            Fault::Error(error) => (Reason::PolicyError, format!("{whose} can't be evaluated: {error}")),
            Fault::Fuel(budget) => {
                let what = match budget {
                    Budget::Policy => "needs more work than a decision may take",
                    Budget::Token => "needs more work than a token's blocks may take",
                    Budget::Facts => "has more facts than a decision may read",
                    Budget::Derived => "derives more facts than a decision may make",
                    Budget::TokenDerived => "derives more facts than a token's blocks may make",
                };
                (Reason::PolicyTooExpensive, format!("{whose} {what}"))
            }
        };
        Denial {
            candidate: self.named(compiled),
            closest: stop.place.map(|place| statements.text(&place)),
            fuel: used,
            ..Denial::because(reason, message)
        }
    }

    fn named(&self, compiled: &Compiled) -> Option<Candidate> {
        Some(compiled.candidate.clone())
    }

    fn denial(&self, furthest: Option<Attempt<'a>>, scratch: &mut Scratch, meter: &Meter) -> Denial {
        let Some(attempt) = furthest else {
            return Denial::because(Reason::NoGrantForService, "the token allows nothing here");
        };
        let files = self.program.files(&attempt.compiled.rule);
        let statements = Statements { files: &files, blocks: self.program.token.blocks() };
        let failed = self.failed_checks(&attempt, &statements);
        let (items, closest) = self.look_closer(&attempt, &statements, scratch);
        let reason = self.reason(&attempt);
        let message = explain::message(&explain::Told {
            item: items.get(attempt.item),
            failed: &failed,
            no_choice: attempt.no_choice.as_ref(),
            rule_refuses: attempt.rule_refuses,
            candidate: &attempt.compiled.candidate,
            lines: &self.lines(),
        });
        Denial {
            reason,
            message,
            failed,
            closest,
            candidate: self.named(attempt.compiled),
            failed_item: Some(attempt.item),
            items,
            fuel: meter.used(),
        }
    }

    /// What a spec's lines allow here, in their own words.
    fn lines(&self) -> Vec<String> {
        let line = |compiled: &Compiled| match &compiled.rule {
            CandidateRule::Line(line) => Some(line.line().to_string()),
            CandidateRule::Grant(_) | CandidateRule::Passthrough => None,
        };
        self.program.candidates.iter().filter_map(line).collect()
    }

    fn failed_checks(&self, attempt: &Attempt<'_>, statements: &Statements<'_>) -> Vec<FailedCheck> {
        let Some(machine) = self.program.machines.get(attempt.compiled.machine) else { return Vec::new() };
        let check = |index: &usize| {
            let place = machine.checks.get(*index)?.place;
            let origin = match place.owner {
                Owner::File(_) => Origin::Authorizer,
                Owner::Block(block) => Origin::Block(u32::try_from(block).unwrap_or(u32::MAX)),
            };
            Some(FailedCheck { origin, text: statements.text(&place) })
        };
        attempt.verdict.failed.iter().filter_map(check).collect()
    }

    fn reason(&self, attempt: &Attempt<'_>) -> Reason {
        if let Some(no_choice) = &attempt.no_choice {
            return no_choice.reason;
        }
        let Some(machine) = self.program.machines.get(attempt.compiled.machine) else { return Reason::PolicyError };
        let checks: Vec<Option<&ast::Check>> = attempt
            .verdict
            .failed
            .iter()
            .map(|index| {
                let place = machine.checks.get(*index)?.place;
                let Owner::Block(block) = place.owner else { return None };
                self.program.token.blocks().get(block)?.checks.get(place.index)
            })
            .collect();
        let all =
            |is: &dyn Fn(&ast::Check) -> bool| !checks.is_empty() && checks.iter().all(|check| check.is_some_and(is));
        if all(&|check| token::expiry(check).is_some()) {
            Reason::TokenExpired
        } else if all(&|check| token::narrowing(check).is_some()) && !attempt.rule_refuses {
            Reason::Narrowed
        } else {
            Reason::PolicyDenied
        }
    }

    /// Runs the candidate that came furthest once more, and looks at what was missing.
    fn look_closer(
        &self,
        attempt: &Attempt<'_>,
        statements: &Statements<'_>,
        scratch: &mut Scratch,
    ) -> (Vec<DecidedItem>, Option<String>) {
        let single = [Item::default()];
        let items = if self.facts.items.is_empty() { &single } else { self.facts.items.as_slice() };
        let Some(machine) = self.program.machines.get(attempt.compiled.machine) else { return (Vec::new(), None) };
        let mut run = Run::new(machine, scratch, &self.program.limits);
        let body = match &self.facts.body {
            Body::Decoded(tree) => Some(tree),
            _ => None,
        };
        let shared = self.facts.shared.iter().filter(is_for_policy);
        if run.share(self.situation.now, body, shared).is_err() {
            return (Vec::new(), None);
        }
        let mut decided = Vec::with_capacity(items.len());
        let mut closest = None;
        for (index, item) in items.iter().enumerate() {
            if run.begin_item(item.facts.iter().filter(is_for_policy)).is_err() {
                break;
            }
            decided.push(self.decided(item, &run));
            if index == attempt.item && attempt.rule_refuses && matches!(attempt.compiled.rule, CandidateRule::Grant(_))
            {
                closest = closest_policy(machine, attempt, statements, &mut run);
            }
            run.end_item();
        }
        (decided, closest)
    }
}

fn closest_policy(
    machine: &Machine,
    attempt: &Attempt<'_>,
    statements: &Statements<'_>,
    run: &mut Run<'_, '_>,
) -> Option<String> {
    if let Some(policy) = attempt.verdict.policy.and_then(|index| machine.policies.get(index)) {
        let own = statements.is_own(&policy.place);
        if !own {
            return Some(format!("`{}` matched", statements.text(&policy.place)));
        }
    }
    debug_assert!(machine.policies.iter().all(|policy| policy.place.what == What::Policy));
    explain::closest(run, statements)
}

/// Facts of a request never state what only the token and the grant may: a manifest that tries is refused
/// at load, and here nothing of it is believed (invariant 7). The time is the situation's.
fn is_for_policy(fact: &&Fact) -> bool {
    let name = fact.predicate.as_ref();
    !(TOKEN_PREDICATES.contains(&name) || name == USE_CREDENTIAL || name == "time")
}

/// An item as allow lines see it: the authorizer's facts only (INVARIANT 6).
struct View<'a, 'r, 'm, 's> {
    item: &'a Item,
    deciding: &'a Deciding<'a>,
    run: &'r Run<'m, 's>,
}

impl ItemView for View<'_, '_, '_, '_> {
    fn operation(&self) -> Option<&str> {
        self.item.operation.as_deref()
    }

    fn each(&self, predicate: &str, visit: &mut dyn FnMut(&[Term])) {
        let stated = self.deciding.facts.shared.iter().chain(&self.item.facts);
        stated.filter(|fact| fact.predicate.as_ref() == predicate).for_each(|fact| visit(&fact.terms));
        self.run.derived(predicate, visit);
    }
}
