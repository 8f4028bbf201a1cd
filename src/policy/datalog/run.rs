//! A machine at work on one request.
//!
//! Shared facts are loaded and what follows from them is derived once; then, for each item, its own facts
//! and what follows from those come on top and are forgotten again. Datalog without negation is monotone,
//! so the item's consequences are those of rules in which at least one atom is matched by something new.

#![allow(
    clippy::indexing_slicing,
    reason = "numbers of relations, slots and steps are made by the compiler; a wrong one must stop the decision"
)]

use super::body::Sink;
use super::eval::Evaluator;
use super::fault::{Budget, EvalError, Fault, Meter};
use super::interner::{Layer, Terms};
use super::machine::{AUTHORIZER, Check, HeadTerm, Machine, Place, Policy, Rule, View};
use super::plan::{Body, Col, Plan, Step};
use super::relation::Relation;
use super::strata::Stratum;
use super::word::Word;
use crate::facts::{self, Fact, Term};
use crate::policy::Limits;
use crate::token::ast;
use crate::words::Timestamp;

/// Memory that decisions use one after another.
#[derive(Debug, Default)]
pub struct Scratch {
    over: Layer,
    relations: Vec<Relation>,
    slots: Vec<Word>,
    row: Vec<Word>,
    shapes: Vec<Vec<u32>>,
    cached: Vec<Option<bool>>,
}

impl Scratch {
    /// Gives memory back after an unusually large request.
    pub fn trim(&mut self) {
        const KEPT: usize = 1 << 22;
        self.over.trim(KEPT);
        let rows: usize = self.relations.iter().map(Relation::memory).sum();
        if rows > KEPT {
            self.relations = Vec::new();
        }
    }
}

/// What stopped a decision, and in which statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// What.
    pub fault: Fault,
    /// Where, if a statement was being evaluated.
    pub place: Option<Place>,
}

/// What the checks and policies say about an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Checks that failed, by number.
    pub failed: Vec<usize>,
    /// The first policy that matched, by number.
    pub policy: Option<usize>,
    /// Whether that is an `allow if`.
    pub allows: bool,
}

#[cfg(test)]
impl Verdict {
    /// Whether the request may be made.
    #[cfg(test)]
    pub fn is_allow(&self) -> bool {
        self.allows && self.failed.is_empty()
    }
}

/// One request in one machine.
pub struct Run<'m, 's> {
    machine: &'m Machine,
    terms: Terms<'s>,
    relations: &'s mut Vec<Relation>,
    slots: &'s mut Vec<Word>,
    row: &'s mut Vec<Word>,
    shapes: &'s mut Vec<Vec<u32>>,
    cached: &'s mut Vec<Option<bool>>,
    meter: Meter,
    facts_left: u32,
    allowed: Vec<bool>,
    in_item: bool,
    /// How many atoms the search that came furthest has matched, and whether its filters held too.
    reached: (usize, usize),
}

/// The body that came closest to matching.
#[derive(Debug, Clone, Copy)]
pub struct Nearest {
    /// Whose body.
    pub place: Place,
    /// Which of its alternatives.
    pub query: usize,
    /// The first atom, in source order, that nothing matched; none if only conditions failed.
    pub missing: Option<usize>,
    relation: Option<usize>,
    score: (usize, usize),
}

/// What to do with a complete match.
enum Goal<'r> {
    /// One is enough, unless an error may hide behind it.
    Exists { found: bool, all: bool },
    /// Every match must be true.
    All { found: bool, failed: bool, all: bool },
    /// Each one is a fact.
    Derive { rule: &'r Rule },
}

/// A filter that was not true, carried until the body matches: only then it counts.
#[derive(Clone, Copy)]
enum Carry {
    Nothing,
    Error(usize, EvalError),
    False,
}

/// Which rows an atom may be matched by.
#[derive(Clone, Copy)]
enum Window {
    /// Any.
    Whole,
    /// Atoms before this one: rows that are not new; itself: new rows; behind it: any.
    New(usize),
}

enum Next {
    On,
    Done,
}

impl<'m, 's> Run<'m, 's> {
    /// Loads what is always there.
    pub fn new(machine: &'m Machine, scratch: &'s mut Scratch, limits: &Limits) -> Run<'m, 's>
    where
        'm: 's,
    {
        let Scratch { over, relations, slots, row, shapes, cached } = scratch;
        over.reset(&machine.layer);
        relations.resize_with(relations.len().max(machine.arities.len()), Relation::default);
        for (relation, arity) in relations.iter_mut().zip(&machine.arities) {
            relation.reset(*arity);
        }
        slots.clear();
        slots.resize(machine.slots, Word::NULL);
        shapes.resize_with(shapes.len().max(machine.bodies.shapes()), Vec::new);
        shapes.iter_mut().for_each(Vec::clear);
        cached.clear();
        cached.resize(machine.checks.len() + machine.policies.len(), None);
        Run {
            machine,
            terms: Terms::new(&machine.layer, over),
            relations,
            slots,
            row,
            shapes,
            cached,
            meter: Meter::new(limits),
            facts_left: limits.max_facts,
            allowed: Vec::new(),
            in_item: false,
            reached: (0, 0),
        }
    }

    /// Goes on with what another run left of the budgets.
    pub fn set_meter(&mut self, meter: Meter) {
        self.meter = meter;
    }

    /// What is left of the budgets.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Loads the time, the body's nodes and the shared facts, and derives what follows.
    pub fn share<'f>(
        &mut self,
        now: Timestamp,
        body: Option<&Term>,
        shared: impl Iterator<Item = &'f Fact>,
    ) -> Result<(), Stop> {
        self.load_body(body).map_err(nowhere)?;
        for stated in &self.machine.stated {
            self.relations[stated.rel].push(&stated.row, stated.origin);
        }
        if let Some(rel) = self.machine.relation("time", 1) {
            let now = self.terms.date(now);
            self.relations[rel].push(&[now], AUTHORIZER);
        }
        for fact in shared {
            self.load(fact).map_err(nowhere)?;
        }
        for relation in self.relations.iter_mut() {
            relation.stated = relation.len();
        }
        self.derive()?;
        for relation in self.relations.iter_mut() {
            relation.shared = relation.len();
            relation.item_stated = relation.len();
        }
        Ok(())
    }

    /// Puts an item's facts on top, and what follows from them.
    pub fn begin_item<'f>(&mut self, facts: impl Iterator<Item = &'f Fact>) -> Result<(), Stop> {
        self.in_item = true;
        for fact in facts {
            self.load(fact).map_err(nowhere)?;
        }
        for relation in self.relations.iter_mut() {
            relation.item_stated = relation.len();
        }
        self.derive()
    }

    /// Forgets the item again.
    pub fn end_item(&mut self) {
        for relation in self.relations.iter_mut() {
            relation.truncate(relation.shared);
        }
        self.in_item = false;
    }

    /// Says what the narrowings make of the item.
    pub fn set_allowed(&mut self, allowed: &[bool]) {
        self.allowed.clear();
        self.allowed.extend_from_slice(allowed);
    }

    fn load_body(&mut self, body: Option<&Term>) -> Result<(), Fault> {
        let machine = self.machine;
        if let Some(tree) = body
            && !machine.bodies.is_empty()
        {
            let mut sink = Rows { relations: &mut *self.relations, shapes: &mut *self.shapes, made: 0 };
            machine.bodies.make(tree, &mut self.terms, &mut sink, self.facts_left)?;
            self.facts_left = self.facts_left.checked_sub(sink.made).ok_or(Fault::Fuel(Budget::Facts))?;
        }
        for relation in self.relations.iter_mut() {
            relation.made = relation.len();
        }
        Ok(())
    }

    fn load(&mut self, fact: &Fact) -> Result<(), Fault> {
        let Some(rel) = self.machine.relation(&fact.predicate, fact.terms.len()) else { return Ok(()) };
        self.facts_left = self.facts_left.checked_sub(1).ok_or(Fault::Fuel(Budget::Facts))?;
        self.row.clear();
        for term in &fact.terms {
            let word = self.terms.term(term).map_err(|_| EvalError::TooDeep)?;
            self.row.push(word);
        }
        self.relations[rel].push(self.row, AUTHORIZER);
        Ok(())
    }

    /// Runs the rules until nothing is new.
    fn derive(&mut self) -> Result<(), Stop> {
        for stratum in &self.machine.strata {
            self.set_marks(stratum, None);
            let mut first = true;
            loop {
                let before: Vec<usize> = match stratum.recursive {
                    true => stratum.reads.iter().map(|rel| self.relations[*rel].len()).collect(),
                    false => Vec::new(),
                };
                let written =
                    |run: &Run<'_, '_>| -> usize { stratum.writes.iter().map(|rel| run.relations[*rel].len()).sum() };
                let count = written(self);
                for index in &stratum.rules {
                    let rule = &self.machine.rules[*index];
                    self.run_rule(rule, first).map_err(|fault| Stop { fault, place: Some(rule.place) })?;
                }
                if !stratum.recursive || written(self) == count {
                    break;
                }
                self.set_marks(stratum, Some(&before));
                first = false;
            }
            if stratum.recursive {
                self.set_marks(stratum, None);
            }
        }
        Ok(())
    }

    /// Sets from where on rows count as new: from the beginning of this phase, or from these lengths.
    fn set_marks(&mut self, stratum: &Stratum, lengths: Option<&[usize]>) {
        for (index, rel) in stratum.reads.iter().enumerate() {
            let relation = &mut self.relations[*rel];
            relation.mark = match lengths {
                Some(lengths) => lengths[index],
                None if self.in_item => relation.shared,
                None => 0,
            };
        }
    }

    fn run_rule(&mut self, rule: &Rule, first: bool) -> Result<(), Fault> {
        let body = &rule.body;
        if body.rels.iter().any(|rel| self.relations[*rel].len() == 0) {
            return Ok(());
        }
        if first && !self.in_item {
            return self.search(body, &body.full, Window::Whole, rule.view, &mut Goal::Derive { rule });
        }
        for (atom, rel) in body.rels.iter().enumerate() {
            if self.relations[*rel].len() > self.relations[*rel].mark {
                let plan = body.deltas.get(atom).unwrap_or(&body.full);
                self.search(body, plan, Window::New(atom), rule.view, &mut Goal::Derive { rule })?;
            }
        }
        Ok(())
    }

    /// Evaluates all checks, and the policies until one matches.
    pub fn judge(&mut self) -> Result<Verdict, Stop> {
        let mut verdict = Verdict::default();
        for (index, check) in self.machine.checks.iter().enumerate() {
            if !self.check(index, check)? {
                verdict.failed.push(index);
            }
        }
        for (index, policy) in self.machine.policies.iter().enumerate() {
            if self.policy(index, policy)? {
                verdict.policy = Some(index);
                verdict.allows = policy.allow;
                break;
            }
        }
        Ok(verdict)
    }

    fn check(&mut self, index: usize, check: &Check) -> Result<bool, Stop> {
        let stop = |fault| Stop { fault, place: Some(check.place) };
        self.remembered(index, &check.queries, |run| {
            for query in &check.queries {
                match check.kind {
                    ast::CheckKind::One => {
                        if run.exists(query, check.view)? {
                            return Ok(true);
                        }
                    }
                    ast::CheckKind::All => {
                        if run.all(query, check.view)? {
                            return Ok(true);
                        }
                    }
                    // the specification: any match of any alternative fails
                    ast::CheckKind::Reject => {
                        if run.exists(query, check.view)? {
                            return Ok(false);
                        }
                    }
                }
            }
            Ok(check.kind == ast::CheckKind::Reject)
        })
        .map_err(stop)
    }

    fn policy(&mut self, index: usize, policy: &Policy) -> Result<bool, Stop> {
        let stop = |fault| Stop { fault, place: Some(policy.place) };
        let slot = self.machine.checks.len() + index;
        self.remembered(slot, &policy.queries, |run| {
            for query in &policy.queries {
                if run.exists(query, policy.view)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .map_err(stop)
    }

    /// What nothing of the item touches has the same answer for every item.
    fn remembered(
        &mut self,
        slot: usize,
        queries: &[Body],
        ask: impl FnOnce(&mut Self) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        let touched = queries.iter().any(|query| {
            query.has_allows || query.rels.iter().any(|rel| self.relations[*rel].len() > self.relations[*rel].shared)
        });
        if touched {
            return ask(self);
        }
        if let Some(answer) = self.cached[slot] {
            return Ok(answer);
        }
        let answer = ask(self)?;
        self.cached[slot] = Some(answer);
        Ok(answer)
    }

    fn exists(&mut self, body: &Body, view: View) -> Result<bool, Fault> {
        if body.rels.iter().any(|rel| self.relations[*rel].len() == 0) {
            return Ok(false);
        }
        let mut goal = Goal::Exists { found: false, all: body.fallible };
        self.search(body, &body.full, Window::Whole, view, &mut goal)?;
        Ok(matches!(goal, Goal::Exists { found: true, .. }))
    }

    fn all(&mut self, body: &Body, view: View) -> Result<bool, Fault> {
        if body.rels.iter().any(|rel| self.relations[*rel].len() == 0) {
            return Ok(false);
        }
        let mut goal = Goal::All { found: false, failed: false, all: body.fallible };
        self.search(body, &body.full, Window::Whole, view, &mut goal)?;
        Ok(matches!(goal, Goal::All { found: true, failed: false, .. }))
    }

    fn search(
        &mut self,
        body: &Body,
        plan: &Plan,
        window: Window,
        view: View,
        goal: &mut Goal<'_>,
    ) -> Result<(), Fault> {
        self.meter.burn(view.token, 1)?;
        let mut search = Search { body, plan, window, view };
        match self.filters(&search, &plan.first, Carry::Nothing, goal)? {
            Some(carry) => self.step(&mut search, 0, 0, carry, goal).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Evaluates filters. `None`: the bindings match nothing.
    fn filters(
        &mut self,
        search: &Search<'_>,
        filters: &[usize],
        mut carry: Carry,
        goal: &Goal<'_>,
    ) -> Result<Option<Carry>, Fault> {
        for filter in filters {
            match carry {
                Carry::False => break,
                // the first filter that is not true decides
                Carry::Error(at, _) if *filter > at => break,
                Carry::Error(..) | Carry::Nothing => {}
            }
            let mut evaluator = Evaluator {
                terms: &mut self.terms,
                meter: &mut self.meter,
                patterns: &self.machine.patterns,
                allowed: &self.allowed,
                token: search.view.token,
                max_regex: if search.view.token { self.machine.max_regex.1 } else { self.machine.max_regex.0 },
            };
            match evaluator.filter(&search.body.exprs[*filter], self.slots) {
                Ok(true) => {}
                Ok(false) => match goal {
                    Goal::All { .. } => carry = Carry::False,
                    Goal::Exists { .. } | Goal::Derive { .. } => return Ok(None),
                },
                Err(Fault::Error(error)) => carry = Carry::Error(*filter, error),
                Err(fault) => return Err(fault),
            }
        }
        Ok(Some(carry))
    }

    fn step(
        &mut self,
        search: &mut Search<'_>,
        depth: usize,
        origin: u64,
        carry: Carry,
        goal: &mut Goal<'_>,
    ) -> Result<Next, Fault> {
        let plan = search.plan;
        self.reached.1 = self.reached.1.max(depth);
        let Some(step) = plan.steps.get(depth) else {
            return self.complete(search, origin, carry, goal);
        };
        let relation = &self.relations[step.rel];
        let (from, to) = match search.window {
            Window::Whole => (0, relation.len()),
            Window::New(atom) if step.atom < atom => (0, relation.mark),
            Window::New(atom) if step.atom == atom => (relation.mark, relation.len()),
            Window::New(_) => (0, relation.len()),
        };
        if let Some(shape) = step.shape {
            let made = relation.made;
            for index in 0.. {
                let Some(row) = self.shapes[shape].get(index).map(|row| *row as usize) else { break };
                if (from..to).contains(&row)
                    && let Next::Done = self.row(search, step, row, true, depth, origin, carry, goal)?
                {
                    return Ok(Next::Done);
                }
            }
            return self.scan(search, step, from.max(made), to, depth, origin, carry, goal);
        }
        match step.key {
            Some(col) if relation.is_large() => {
                let word = match step.cols[col] {
                    Col::Const(word) => word,
                    Col::Bound(slot) | Col::Bind(slot) => self.slots[usize::from(slot)],
                };
                let mut next = self.relations[step.rel].last_with(col, word);
                while let Some(row) = next {
                    // looked up before the row is worked on: rules may add rows meanwhile
                    next = self.relations[step.rel].before(col, row);
                    if (from..to).contains(&row)
                        && let Next::Done = self.row(search, step, row, false, depth, origin, carry, goal)?
                    {
                        return Ok(Next::Done);
                    }
                }
                Ok(Next::On)
            }
            _ => self.scan(search, step, from, to, depth, origin, carry, goal),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the state of a join, passed down its levels")]
    fn scan(
        &mut self,
        search: &mut Search<'_>,
        step: &Step,
        from: usize,
        to: usize,
        depth: usize,
        origin: u64,
        carry: Carry,
        goal: &mut Goal<'_>,
    ) -> Result<Next, Fault> {
        for row in from..to {
            if let Next::Done = self.row(search, step, row, false, depth, origin, carry, goal)? {
                return Ok(Next::Done);
            }
        }
        Ok(Next::On)
    }

    /// Matches one row against an atom, and goes on with the next atom.
    #[allow(clippy::too_many_arguments, reason = "the state of a join, passed down its levels")]
    fn row(
        &mut self,
        search: &mut Search<'_>,
        step: &Step,
        row: usize,
        made: bool,
        depth: usize,
        origin: u64,
        carry: Carry,
        goal: &mut Goal<'_>,
    ) -> Result<Next, Fault> {
        self.meter.burn(search.view.token, 1)?;
        let relation = &self.relations[step.rel];
        let of_row = relation.origin(row);
        if of_row & !search.view.trusted != 0 {
            return Ok(Next::On);
        }
        for (index, col) in step.cols.iter().enumerate() {
            let word = relation.at(row, index);
            match col {
                Col::Const(wanted) if *wanted != word => return Ok(Next::On),
                Col::Bound(slot) if self.slots[usize::from(*slot)] != word => return Ok(Next::On),
                Col::Const(_) | Col::Bound(_) => {}
                Col::Bind(slot) => self.slots[usize::from(*slot)] = word,
            }
        }
        self.reached.0 = self.reached.0.max(depth + 1);
        let filters = if made { &step.filters_made } else { &step.filters };
        match self.filters(search, filters, carry, goal)? {
            Some(carry) => self.step(search, depth + 1, origin | of_row, carry, goal),
            None => Ok(Next::On),
        }
    }

    fn complete(&mut self, search: &Search<'_>, origin: u64, carry: Carry, goal: &mut Goal<'_>) -> Result<Next, Fault> {
        if let Carry::Error(_, error) = carry {
            return Err(Fault::Error(error));
        }
        match goal {
            Goal::Exists { found, all } => {
                *found = true;
                Ok(if *all { Next::On } else { Next::Done })
            }
            Goal::All { found, failed, all } => {
                *found = true;
                *failed |= matches!(carry, Carry::False);
                Ok(if *failed && !*all { Next::Done } else { Next::On })
            }
            Goal::Derive { rule } => {
                self.row.clear();
                for term in &rule.head_terms {
                    self.row.push(match term {
                        HeadTerm::Const(word) => *word,
                        HeadTerm::Slot(slot) => self.slots[usize::from(*slot)],
                    });
                }
                if self.relations[rule.head].push_new(self.row, origin | search.view.origin) {
                    self.meter.derive(search.view.token)?;
                }
                // without variables in its head one match says all that the rule can say, unless another
                // one has an error or another origin
                Ok(Next::On)
            }
        }
    }

    /// Which `allow if` came closest.
    pub fn nearest_policy(&mut self) -> Option<Nearest> {
        let machine = self.machine;
        let mut best: Option<Nearest> = None;
        for policy in machine.policies.iter().filter(|policy| policy.allow) {
            for (query, body) in policy.queries.iter().enumerate() {
                self.consider(policy.place, query, body, policy.view, &mut best);
            }
        }
        best
    }

    /// Which rule came closest to deriving what is missing there.
    pub fn nearest_rule(&mut self, missing: &Nearest) -> Option<Nearest> {
        let machine = self.machine;
        let relation = missing.relation?;
        let mut best: Option<Nearest> = None;
        for rule in machine.rules.iter().filter(|rule| rule.head == relation && !rule.view.token) {
            self.consider(rule.place, 0, &rule.body, rule.view, &mut best);
        }
        best
    }

    fn consider(&mut self, place: Place, query: usize, body: &Body, view: View, best: &mut Option<Nearest>) {
        self.reached = (0, 0);
        let mut goal = Goal::Exists { found: false, all: false };
        if self.search(body, &body.full, Window::Whole, view, &mut goal).is_err() {
            return;
        }
        let (rows, held) = self.reached;
        let step = if rows > held { None } else { body.full.steps.get(held) };
        let found = Nearest {
            place,
            query,
            missing: step.map(|step| step.atom),
            relation: step.map(|step| step.rel),
            score: (rows + held, usize::MAX - body.rels.len()),
        };
        if best.is_none_or(|best| found.score > best.score) {
            *best = Some(found);
        }
    }

    /// Rows of a predicate that rules derived from the authorizer's facts alone, as terms.
    pub fn derived(&self, predicate: &str, visit: &mut dyn FnMut(&[facts::Term])) {
        for (_, rel) in self.machine.relations(predicate) {
            let relation = &self.relations[*rel];
            let (shared, len) = (relation.shared.max(relation.stated), relation.len());
            let rows = (relation.stated..shared).chain(relation.item_stated.max(shared)..len);
            for row in rows.filter(|row| relation.origin(*row) == AUTHORIZER) {
                let terms: Vec<Term> = relation.row(row).iter().map(|word| self.terms.to_term(*word)).collect();
                visit(&terms);
            }
        }
        for stated in &self.machine.stated {
            let named = self.machine.relations(predicate).iter().any(|(_, rel)| *rel == stated.rel);
            if named && stated.origin == AUTHORIZER {
                let terms: Vec<Term> = stated.row.iter().map(|word| self.terms.to_term(*word)).collect();
                visit(&terms);
            }
        }
    }

    /// Rows of a predicate that the authorizer sees and that its own rules derived, as terms.
    pub fn ruled(&self, predicate: &str, visit: &mut dyn FnMut(&[facts::Term])) {
        for (_, rel) in self.machine.relations(predicate) {
            let relation = &self.relations[*rel];
            for row in 0..relation.len() {
                let origin = relation.origin(row);
                if origin & AUTHORIZER != 0 && origin & !(AUTHORIZER | 1) == 0 {
                    let terms: Vec<Term> = relation.row(row).iter().map(|word| self.terms.to_term(*word)).collect();
                    visit(&terms);
                }
            }
        }
    }
}

/// What stays the same during a search.
struct Search<'b> {
    body: &'b Body,
    plan: &'b Plan,
    window: Window,
    view: View,
}

fn nowhere(fault: Fault) -> Stop {
    Stop { fault, place: None }
}

struct Rows<'a> {
    relations: &'a mut Vec<Relation>,
    shapes: &'a mut Vec<Vec<u32>>,
    made: u32,
}

impl Sink for Rows<'_> {
    fn row(&mut self, rel: usize, row: &[Word]) -> Result<u32, Fault> {
        self.made += 1;
        let number = self.relations[rel].push(row, AUTHORIZER);
        u32::try_from(number).map_err(|_| Fault::Fuel(Budget::Facts))
    }

    fn has_shape(&mut self, shape: usize, row: u32) {
        self.shapes[shape].push(row);
    }
}
