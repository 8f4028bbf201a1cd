//! Files and blocks, compiled together: what the evaluator runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::body::{Bodies, Made, Shapes};
use super::expr::{CompileError, ExprCompiler, Narrow, Patterns};
use super::interner::{Layer, Terms};
use super::plan::{Body, compile_body};
use super::strata::{Stratum, stratify};
use super::word::Word;
use crate::facts::Demand;
use crate::service::Datalog;
use crate::token::{Block, ast};

/// The bit of the authorizer in an origin: the manifest, the grant, the proxy, the request.
pub const AUTHORIZER: u64 = 1 << 63;

/// The most blocks that an origin has bits for.
pub const MAX_BLOCKS: usize = 60;

/// The most statements that a token's blocks may have together: compiling costs time too.
const MAX_STATEMENTS: usize = 2_000;
const TOO_MANY_STATEMENTS: &str = "2,000 statements in a token";

/// Where a statement stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file, by its number in [`Input::files`], or the block.
    pub owner: Owner,
    /// What it is.
    pub what: What,
    /// Its number among its kind in that file or block.
    pub index: usize,
}

/// A file or a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// By its number in [`Input::files`].
    File(usize),
    /// By its number in [`Input::blocks`].
    Block(usize),
}

/// Kinds of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    Fact,
    Rule,
    Check,
    Policy,
}

/// What is compiled together.
pub struct Input<'a> {
    /// The authorizer's files, in order.
    pub files: &'a [&'a Datalog],
    /// The token's blocks.
    pub blocks: &'a [Block],
    /// Facts of the authorizer that no file states.
    pub facts: &'a [(&'a str, &'a str)],
    /// Facts of the authority block with these predicates are left out.
    pub without: &'a [&'a str],
    /// Predicates that somebody reads besides the checks and policies.
    pub roots: &'a [&'a str],
    /// Keep rules that nobody reads: to compare with an evaluator that runs them all.
    pub keep_unread: bool,
    /// Size of a regex, in files and in blocks.
    pub max_regex: (usize, usize),
}

/// What can't be compiled, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct MachineError {
    /// Where.
    pub place: Place,
    /// What.
    pub error: CompileError,
}

/// A rule, ready to run.
#[derive(Debug)]
pub struct Rule {
    pub place: Place,
    pub head: usize,
    pub head_terms: Box<[HeadTerm]>,
    pub body: Body,
    pub view: View,
}

/// A term of a head.
#[derive(Debug, Clone, Copy)]
pub enum HeadTerm {
    Const(Word),
    Slot(super::expr::Slot),
}

/// What a statement sees, and whose work it is.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// The origins it sees: facts with any other are not there for it.
    pub trusted: u64,
    /// Its own bit.
    pub origin: u64,
    /// Whether it stands in a block.
    pub token: bool,
}

/// A check.
#[derive(Debug)]
pub struct Check {
    pub place: Place,
    pub kind: ast::CheckKind,
    pub queries: Box<[Body]>,
    pub view: View,
}

/// A policy.
#[derive(Debug)]
pub struct Policy {
    pub place: Place,
    pub allow: bool,
    pub queries: Box<[Body]>,
    pub view: View,
}

/// A fact that is always there.
#[derive(Debug)]
pub struct Stated {
    pub rel: usize,
    pub row: Box<[Word]>,
    pub origin: u64,
}

/// The relations of each predicate, with their arities. Looked up for every fact of a request.
type Names = hashbrown::HashMap<Arc<str>, Vec<(usize, usize)>, foldhash::fast::RandomState>;

/// Everything compiled.
#[derive(Debug)]
pub struct Machine {
    pub layer: Layer,
    pub arities: Vec<usize>,
    pub names: Names,
    pub stated: Vec<Stated>,
    pub rules: Vec<Rule>,
    pub strata: Vec<Stratum>,
    pub checks: Vec<Check>,
    pub policies: Vec<Policy>,
    pub patterns: Patterns,
    pub bodies: Bodies,
    pub slots: usize,
    pub max_regex: (usize, usize),
    demand: Demand,
}

impl Machine {
    /// Compiles. `narrow` resolves `allows` in checks of blocks.
    pub fn compile(input: &Input<'_>, narrow: &mut dyn Narrow) -> Result<Machine, MachineError> {
        let empty = Layer::default();
        let mut layer = Layer::default();
        let mut builder = Builder {
            terms: Terms::new(&empty, &mut layer),
            arities: Vec::new(),
            names: Names::default(),
            shapes: Shapes::default(),
            patterns: Patterns::default(),
            demand: Demand::nothing(),
            max_regex: input.max_regex,
            slots: 0,
        };
        let size = |block: &Block| block.facts.len() + block.rules.len() + block.checks.len();
        if input.blocks.iter().map(size).sum::<usize>() > MAX_STATEMENTS {
            let place = Place { owner: Owner::Block(0), what: What::Fact, index: 0 };
            return Err(MachineError { place, error: CompileError::TooLarge(TOO_MANY_STATEMENTS) });
        }
        if input.blocks.len() > MAX_BLOCKS {
            let place = Place { owner: Owner::Block(MAX_BLOCKS), what: What::Fact, index: 0 };
            return Err(MachineError { place, error: CompileError::TooManyBlocks(MAX_BLOCKS) });
        }
        let statements = Statements::of(input);
        let needed = if input.keep_unread { None } else { Some(statements.needed(input.roots)) };
        let mut checks = Vec::new();
        for (place, check) in &statements.checks {
            let queries = builder.queries(*place, &check.queries, Some(&mut *narrow))?;
            checks.push(Check { place: *place, kind: check.kind.clone(), queries, view: view_of(*place) });
        }
        let mut policies = Vec::new();
        for (place, policy) in &statements.policies {
            let queries = builder.queries(*place, &policy.queries, None)?;
            let allow = policy.kind == ast::PolicyKind::Allow;
            policies.push(Policy { place: *place, allow, queries, view: view_of(*place) });
        }
        let mut rules = Vec::new();
        for (place, rule) in &statements.rules {
            let wanted = |needed: &HashSet<(String, usize)>| {
                input.roots.contains(&rule.head.name.as_str())
                    || needed.contains(&(rule.head.name.clone(), rule.head.terms.len()))
            };
            // an unread rule is compiled too: whether a file or a token is sound must not depend on that
            let compiled = builder.rule(*place, rule, needed.as_ref().is_none_or(wanted))?;
            rules.extend(compiled);
        }
        let stated = builder.stated(input)?;
        let strata = stratify(&rules, builder.arities.len());
        let bodies = builder.shapes.finish(&builder.terms);
        let Builder { arities, names, patterns, demand, slots, .. } = builder;
        Ok(Machine {
            layer,
            arities,
            names,
            stated,
            rules,
            strata,
            checks,
            policies,
            patterns,
            bodies,
            slots,
            max_regex: input.max_regex,
            demand,
        })
    }

    /// Which facts are read.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The relation of a predicate, if it is read.
    pub fn relation(&self, name: &str, arity: usize) -> Option<usize> {
        self.names.get(name)?.iter().find(|(a, _)| *a == arity).map(|(_, rel)| *rel)
    }

    /// Every relation of that name, with its arity.
    pub fn relations(&self, name: &str) -> &[(usize, usize)] {
        self.names.get(name).map_or(&[], |list| list)
    }
}

/// What a statement of that place sees (biscuit's default scopes).
fn view_of(place: Place) -> View {
    match place.owner {
        Owner::File(_) => View { trusted: AUTHORIZER | 1, origin: AUTHORIZER, token: false },
        Owner::Block(block) => {
            let own = 1u64 << block.min(MAX_BLOCKS);
            View { trusted: AUTHORIZER | 1 | own, origin: own, token: true }
        }
    }
}

/// All statements, with their places.
struct Statements<'a> {
    rules: Vec<(Place, &'a ast::Rule)>,
    checks: Vec<(Place, &'a ast::Check)>,
    policies: Vec<(Place, &'a ast::Policy)>,
}

impl<'a> Statements<'a> {
    fn of(input: &Input<'a>) -> Statements<'a> {
        let (mut rules, mut checks, mut policies) = (Vec::new(), Vec::new(), Vec::new());
        for (number, file) in input.files.iter().enumerate() {
            let owner = Owner::File(number);
            let place = |what, index| Place { owner, what, index };
            rules.extend(file.rules.iter().enumerate().map(|(i, r)| (place(What::Rule, i), &r.statement)));
            checks.extend(file.checks.iter().enumerate().map(|(i, c)| (place(What::Check, i), &c.statement)));
            policies.extend(file.policies.iter().enumerate().map(|(i, p)| (place(What::Policy, i), &p.statement)));
        }
        for (number, block) in input.blocks.iter().enumerate() {
            let owner = Owner::Block(number);
            let place = |what, index| Place { owner, what, index };
            rules.extend(block.rules.iter().enumerate().map(|(i, r)| (place(What::Rule, i), r)));
            checks.extend(block.checks.iter().enumerate().map(|(i, c)| (place(What::Check, i), c)));
        }
        Statements { rules, checks, policies }
    }

    /// The predicates that checks, policies and roots read, directly or through rules.
    fn needed(&self, roots: &[&str]) -> HashSet<(String, usize)> {
        let key = |predicate: &ast::Predicate| (predicate.name.clone(), predicate.terms.len());
        let queries = self.checks.iter().flat_map(|(_, check)| &check.queries);
        let queries = queries.chain(self.policies.iter().flat_map(|(_, policy)| &policy.queries));
        let mut open: Vec<(String, usize)> = queries.flat_map(|query| query.body.iter().map(key)).collect();
        for (_, rule) in &self.rules {
            if roots.contains(&rule.head.name.as_str()) {
                open.push(key(&rule.head));
            }
        }
        let mut bodies: HashMap<(String, usize), Vec<&ast::Predicate>> = HashMap::new();
        for (_, rule) in &self.rules {
            bodies.entry(key(&rule.head)).or_default().extend(&rule.body);
        }
        let mut needed = HashSet::new();
        while let Some(predicate) = open.pop() {
            if let Some(bodies) = bodies.remove(&predicate) {
                open.extend(bodies.into_iter().map(key));
            }
            needed.insert(predicate);
        }
        needed
    }
}

struct Builder<'a> {
    terms: Terms<'a>,
    arities: Vec<usize>,
    names: Names,
    shapes: Shapes,
    patterns: Patterns,
    demand: Demand,
    max_regex: (usize, usize),
    slots: usize,
}

impl Builder<'_> {
    fn queries(
        &mut self,
        place: Place,
        queries: &[ast::Rule],
        mut narrow: Option<&mut dyn Narrow>,
    ) -> Result<Box<[Body]>, MachineError> {
        let legal = matches!(place.owner, Owner::Block(_));
        queries
            .iter()
            .map(|query| {
                let narrow: Option<&mut dyn Narrow> = match narrow.as_mut() {
                    Some(narrow) if legal => Some(&mut **narrow),
                    _ => None,
                };
                self.body(query, view_of(place).token, narrow, false, true)
                    .map(|(body, _)| body)
                    .map_err(|error| MachineError { place, error })
            })
            .collect()
    }

    /// Compiles a rule; the answer is `None` if nobody reads its head.
    fn rule(&mut self, place: Place, rule: &ast::Rule, wanted: bool) -> Result<Option<Rule>, MachineError> {
        let view = view_of(place);
        let at = |error| MachineError { place, error };
        let (body, scope) = self.body(rule, view.token, None, true, wanted).map_err(at)?;
        let head_terms = rule
            .head
            .terms
            .iter()
            .map(|term| match term {
                ast::Term::Variable(name) => {
                    scope.find(name).map(HeadTerm::Slot).ok_or_else(|| CompileError::Unbound(name.clone()))
                }
                other => Ok(HeadTerm::Const(self.terms.ast(other)?)),
            })
            .collect::<Result<Box<[_]>, CompileError>>()
            .map_err(at)?;
        if !wanted {
            return Ok(None);
        }
        let head = relate(&mut self.names, &mut self.arities, &mut self.shapes, &rule.head.name, head_terms.len());
        Ok(Some(Rule { place, head, head_terms, body, view }))
    }

    fn body(
        &mut self,
        rule: &ast::Rule,
        token: bool,
        narrow: Option<&mut dyn Narrow>,
        variants: bool,
        wanted: bool,
    ) -> Result<(Body, super::expr::Scope), CompileError> {
        let (names, arities) = (&mut self.names, &mut self.arities);
        // what nobody reads gets no relations, no shapes, and is not demanded
        let (mut spare_names, mut spare_arities) = (Names::default(), Vec::new());
        let mut spare_shapes = Shapes::default();
        let (names, arities, shapes) = if wanted {
            (names, arities, &mut self.shapes)
        } else {
            (&mut spare_names, &mut spare_arities, &mut spare_shapes)
        };
        for predicate in &rule.body {
            relate(names, arities, shapes, &predicate.name, predicate.terms.len());
        }
        let known: HashMap<(&str, usize), usize> = rule
            .body
            .iter()
            .filter_map(|p| {
                let list = names.get(p.name.as_str())?;
                let (_, rel) = list.iter().find(|(arity, _)| *arity == p.terms.len())?;
                Some(((p.name.as_str(), p.terms.len()), *rel))
            })
            .collect();
        let mut find = |name: &str, arity: usize| known.get(&(name, arity)).copied().unwrap_or(usize::MAX);
        let mut compiler = ExprCompiler {
            terms: &mut self.terms,
            patterns: &mut self.patterns,
            token,
            max_regex: if token { self.max_regex.1 } else { self.max_regex.0 },
            narrow: match narrow {
                Some(narrow) => Some(narrow),
                None => None,
            },
        };
        let compiled = compile_body(rule, &mut compiler, &mut find, shapes, variants)?;
        if wanted {
            self.slots = self.slots.max(compiled.0.slots);
            for predicate in &rule.body {
                match predicate.terms.first() {
                    Some(ast::Term::Str(first)) => self.demand.add_key(&predicate.name, first),
                    _ => self.demand.add(&predicate.name),
                }
            }
        }
        Ok(compiled)
    }

    /// Facts of files and blocks, as far as somebody reads them.
    fn stated(&mut self, input: &Input<'_>) -> Result<Vec<Stated>, MachineError> {
        let mut stated = Vec::new();
        for (number, file) in input.files.iter().enumerate() {
            for (index, fact) in file.facts.iter().enumerate() {
                let place = Place { owner: Owner::File(number), what: What::Fact, index };
                let predicate = &fact.statement.predicate;
                let row = predicate
                    .terms
                    .iter()
                    .map(|term| self.terms.ast(term))
                    .collect::<Result<Box<[_]>, _>>()
                    .map_err(|error| MachineError { place, error: error.into() })?;
                if let Some(rel) = find(&self.names, &predicate.name, row.len()) {
                    stated.push(Stated { rel, row, origin: AUTHORIZER });
                }
            }
        }
        for (name, value) in input.facts {
            if let Some(rel) = find(&self.names, name, 1) {
                stated.push(Stated { rel, row: Box::new([self.terms.str(value)]), origin: AUTHORIZER });
            }
        }
        for (number, block) in input.blocks.iter().enumerate() {
            for (index, fact) in block.facts.iter().enumerate() {
                if number == 0 && input.without.contains(&fact.predicate.as_ref()) {
                    continue;
                }
                let place = Place { owner: Owner::Block(number), what: What::Fact, index };
                let Some(rel) = find(&self.names, &fact.predicate, fact.terms.len()) else { continue };
                let row = fact
                    .terms
                    .iter()
                    .map(|term| self.terms.term(term))
                    .collect::<Result<Box<[_]>, _>>()
                    .map_err(|error| MachineError { place, error: error.into() })?;
                stated.push(Stated { rel, row, origin: view_of(place).origin });
            }
        }
        Ok(stated)
    }
}

fn find(names: &Names, name: &str, arity: usize) -> Option<usize> {
    names.get(name)?.iter().find(|(a, _)| *a == arity).map(|(_, rel)| *rel)
}

/// Finds or makes the relation of a predicate.
fn relate(names: &mut Names, arities: &mut Vec<usize>, shapes: &mut Shapes, name: &str, arity: usize) -> usize {
    if let Some(rel) = find(names, name, arity) {
        return rel;
    }
    let rel = arities.len();
    arities.push(arity);
    if let Some(made) = Made::find(name, arity) {
        shapes.register(rel, made);
    }
    match names.get_mut(name) {
        Some(list) => list.push((arity, rel)),
        None => {
            names.insert(name.into(), vec![(arity, rel)]);
        }
    }
    rel
}
