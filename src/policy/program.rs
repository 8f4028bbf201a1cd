//! A token's policy for one service, ready to decide.

#![allow(clippy::result_large_err, reason = "a refusal is the rare end of a request, made once")]

use std::sync::Arc;

use super::allow::{AllowLine, ResolvedLine};
use super::datalog::{CompileError, Input, Machine, MachineError, Narrow, Owner};
use super::rulebook::{self, Entry, FIRST, LAST, USE_CREDENTIAL, describe};
use super::{Candidate, Denial, Grant, Limits, Rulebook};
use crate::facts::Demand;
use crate::service::{Catalog, Datalog, Service};
use crate::token::{Block, Candidates, Identity, VerifiedToken};
use crate::words::{Reason, ServiceName, SpecName};

/// What one token may do at one service (or through `passthrough`), compiled. Cached by the proxy by
/// token, service and generation of the configuration.
#[derive(Debug)]
pub struct Program {
    pub(super) token: VerifiedToken,
    pub(super) service: Option<Arc<Service>>,
    pub(super) purpose: Purpose,
    /// Tried in order; the first that allows decides.
    pub(super) candidates: Vec<Compiled>,
    pub(super) machines: Vec<Machine>,
    pub(super) narrowings: Vec<ResolvedLine>,
    pub(super) limits: Limits,
    pub(super) spec: Option<SpecName>,
    demand: Demand,
}

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Service,
    Passthrough,
    Endpoint,
}

/// One candidate, with the number of its machine.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) candidate: Candidate,
    pub(super) rule: CandidateRule,
    pub(super) machine: usize,
}

/// What makes a candidate allow.
#[derive(Debug)]
pub(super) enum CandidateRule {
    /// Its policies.
    Grant(Arc<Grant>),
    /// What the line says.
    Line(Arc<ResolvedLine>),
    /// Nothing more than that no check fails.
    Passthrough,
}

impl Program {
    /// Which facts a decision reads: nothing else need be made.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The candidates, in the order in which they are tried.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().map(|compiled| &compiled.candidate)
    }

    /// The narrowings of the token, in its own words.
    pub fn narrowings(&self) -> impl Iterator<Item = &AllowLine> {
        self.narrowings.iter().map(ResolvedLine::line)
    }

    /// The files of a candidate's machine, in the order of its places.
    pub(super) fn files<'p>(&'p self, rule: &'p CandidateRule) -> Vec<&'p Datalog> {
        files(self.service.as_deref(), rule)
    }
}

fn files<'p>(service: Option<&'p Service>, rule: &'p CandidateRule) -> Vec<&'p Datalog> {
    let mut files: Vec<&Datalog> = Vec::with_capacity(4);
    if !matches!(rule, CandidateRule::Passthrough) {
        files.push(&FIRST);
    }
    files.extend(service.map(Service::datalog));
    if let CandidateRule::Grant(grant) = rule {
        files.push(&grant.datalog);
    }
    files.push(&LAST);
    files
}

/// Compiles what the token may do at the service. A denial when that is nothing at all: the token is an
/// issuer's, no grant or spec line covers the service, a narrowing no longer parses, a block is outside
/// the supported subset.
pub fn compile(rulebook: &Arc<Rulebook>, service: &ServiceName, token: &VerifiedToken) -> Result<Program, Denial> {
    let candidates = bearer(token)?;
    let service = rulebook
        .catalog()
        .get(service.as_str())
        .ok_or_else(|| Denial::because(Reason::NoGrantForService, format!("there is no service {service}")))?;
    let (rules, spec) = candidates_for(rulebook, service, candidates)?;
    let mut building = Building::new(rulebook, Some(service), token, Purpose::Service)?;
    building.program.spec = spec;
    // lines differ in nothing that is compiled
    let mut lines: Option<usize> = None;
    for (candidate, rule) in rules {
        let machine = match (&rule, lines) {
            (CandidateRule::Line(line), _) => {
                building.read(line.predicates());
                match lines {
                    Some(machine) => machine,
                    None => *lines.insert(usize::MAX),
                }
            }
            _ => building.machine(&rule)?,
        };
        building.program.candidates.push(Compiled { candidate, rule, machine });
    }
    if lines.is_some() {
        // all lines' predicates are known now
        let rule = building.program.candidates.iter().find_map(|compiled| match &compiled.rule {
            CandidateRule::Line(line) => Some(CandidateRule::Line(line.clone())),
            _ => None,
        });
        if let Some(rule) = rule {
            let machine = building.machine(&rule)?;
            for compiled in building.program.candidates.iter_mut().filter(|c| c.machine == usize::MAX) {
                compiled.machine = machine;
            }
        }
    }
    Ok(building.finish())
}

/// Compiles the token's checks for hosts that the configuration passes through.
pub fn compile_passthrough(rulebook: &Arc<Rulebook>, token: &VerifiedToken) -> Result<Program, Denial> {
    bearer(token)?;
    checks_only(rulebook, token, Purpose::Passthrough)
}

/// Compiles the token's checks for kleis' own endpoints, where `allows` is false (DESIGN §9).
pub fn compile_endpoint(rulebook: &Arc<Rulebook>, token: &VerifiedToken) -> Result<Program, Denial> {
    checks_only(rulebook, token, Purpose::Endpoint)
}

fn checks_only(rulebook: &Arc<Rulebook>, token: &VerifiedToken, purpose: Purpose) -> Result<Program, Denial> {
    let mut building = Building::new(rulebook, None, token, purpose)?;
    let rule = CandidateRule::Passthrough;
    let machine = building.machine(&rule)?;
    building.program.candidates.push(Compiled { candidate: Candidate::Passthrough, rule, machine });
    Ok(building.finish())
}

fn bearer(token: &VerifiedToken) -> Result<&Candidates, Denial> {
    match token.identity() {
        Identity::Bearer { candidates, .. } => Ok(candidates),
        Identity::Issuer(name) => Err(Denial::because(
            Reason::PolicyDenied,
            format!("the token is that of the issuer {name}: it asks for tokens and makes no requests itself"),
        )),
    }
}

type Rules = Vec<(Candidate, CandidateRule)>;

/// The grants and lines that are about the service, in the order in which they are tried.
fn candidates_for(
    rulebook: &Rulebook,
    service: &Service,
    candidates: &Candidates,
) -> Result<(Rules, Option<SpecName>), Denial> {
    let of_grant = |grant: &Arc<Grant>| {
        let candidate = Candidate::Grant { name: grant.name.clone(), version: grant.version.clone() };
        (grant.service == *service.name()).then(|| (candidate, CandidateRule::Grant(grant.clone())))
    };
    let none = |message: String| Denial::because(Reason::NoGrantForService, message);
    let (rules, spec): (Rules, _) = match candidates {
        Candidates::Grants(names) => {
            let gone: Vec<&str> =
                names.iter().filter(|name| rulebook.grant(name).is_none()).map(|name| name.as_str()).collect();
            let rules: Rules = names.iter().filter_map(|name| of_grant(rulebook.grant(name)?)).collect();
            if rules.is_empty() && !gone.is_empty() {
                let message = format!("no grant of the token is about {}; gone: {}", service.name(), gone.join(", "));
                return Err(none(message));
            }
            (rules, None)
        }
        Candidates::Spec(name) => {
            let rules = rulebook
                .spec_rules(name)
                .ok_or_else(|| none(format!("the token's spec {name} is not there any more")))?;
            let of_entry = |(line, entry): &(u32, Entry)| match entry {
                Entry::Grant(grant) => of_grant(grant),
                Entry::Line(resolved) => (resolved.service() == service.name()).then(|| {
                    let (spec, version) = (name.clone(), rules.spec.version.clone());
                    (Candidate::SpecLine { spec, line: *line, version }, CandidateRule::Line(resolved.clone()))
                }),
            };
            (rules.entries.iter().filter_map(of_entry).collect(), Some(name.clone()))
        }
    };
    if rules.is_empty() {
        return Err(none(format!("the token allows nothing at {}", service.name())));
    }
    Ok((rules, spec))
}

struct Building<'a> {
    rulebook: &'a Rulebook,
    program: Program,
    /// Predicates that are read natively.
    roots: Vec<String>,
}

impl<'a> Building<'a> {
    fn new(
        rulebook: &'a Rulebook,
        service: Option<&Arc<Service>>,
        token: &VerifiedToken,
        purpose: Purpose,
    ) -> Result<Building<'a>, Denial> {
        let unsupported = |block: &Block| {
            let scoped = |rule: &crate::token::ast::Rule| !rule.scopes.is_empty();
            block.third_party
                || block.rules.iter().any(scoped)
                || block.checks.iter().any(|check| check.queries.iter().any(scoped))
        };
        if token.blocks().iter().any(unsupported) {
            let message = "the token has a block of a third party, or one that trusts one: that is not supported";
            return Err(Denial::because(Reason::TokenUnsupported, message));
        }
        let mut roots = vec![USE_CREDENTIAL.to_owned()];
        let mut demand = Demand::nothing();
        if let Some(service) = service {
            roots.extend(service.resources().iter().map(|name| name.to_string()));
            demand.add("operation");
        }
        let narrowings = narrowings(rulebook.catalog(), token)?;
        let here = narrowings.iter().filter(|line| service.is_some_and(|s| s.name() == line.service()));
        roots.extend(here.flat_map(|line| line.predicates()).map(str::to_owned));
        let program = Program {
            token: token.clone(),
            service: service.cloned(),
            purpose,
            candidates: Vec::new(),
            machines: Vec::new(),
            narrowings,
            limits: *rulebook.limits(),
            spec: None,
            demand,
        };
        Ok(Building { rulebook, program, roots })
    }

    /// Adds predicates that are read natively.
    fn read(&mut self, predicates: Vec<&str>) {
        self.roots.extend(predicates.into_iter().map(str::to_owned));
    }

    fn machine(&mut self, rule: &CandidateRule) -> Result<usize, Denial> {
        self.check_authority(rule)?;
        let files = files(self.program.service.as_deref(), rule);
        let grant = match rule {
            CandidateRule::Grant(grant) => Some(("grant", grant.name.as_str())),
            CandidateRule::Line(_) | CandidateRule::Passthrough => None,
        };
        let facts: Vec<(&str, &str)> = grant.into_iter().collect();
        let roots: Vec<&str> = self.roots.iter().map(String::as_str).collect();
        let input = Input {
            blocks: self.program.token.blocks(),
            facts: &facts,
            // the token's own choose candidates and say nothing in the datalog of one
            without: &["grant"],
            roots: &roots,
            ..rulebook::input(&files, self.rulebook.limits())
        };
        let mut lookup = Lookup { lines: &self.program.narrowings };
        let machine = Machine::compile(&input, &mut lookup).map_err(|error| refusal_of(&error))?;
        self.program.demand.merge(machine.demand());
        self.program.machines.push(machine);
        Ok(self.program.machines.len() - 1)
    }

    /// The authority block must not state what the proxy, the manifest or the grant gives meaning to.
    /// Minting refuses that; but files change while tokens live (DESIGN §7).
    fn check_authority(&self, rule: &CandidateRule) -> Result<(), Denial> {
        let Some(authority) = self.program.token.blocks().first() else { return Ok(()) };
        let of_grant: Vec<&str> = match rule {
            CandidateRule::Grant(grant) => rulebook::stated_by(&grant.datalog).collect(),
            CandidateRule::Line(_) | CandidateRule::Passthrough => Vec::new(),
        };
        let service = self.program.service.as_deref();
        let reserved = |name: &str| {
            crate::facts::STANDARD_PREDICATES.contains(&name)
                || name == USE_CREDENTIAL
                || name == "operation"
                || service.is_some_and(|service| service.reserved().contains(name))
                || of_grant.contains(&name)
        };
        let facts = authority.facts.iter().map(|fact| fact.predicate.as_ref()).filter(|name| reserved(name));
        let rules = authority.rules.iter().map(|rule| rule.head.name.as_str());
        let rules = rules.filter(|name| reserved(name) || rulebook::TOKEN_PREDICATES.contains(name));
        match facts.chain(rules).next() {
            Some(name) => Err(Denial::because(
                Reason::TokenUnsupported,
                format!("the token states `{name}`, which is not a token's to say: a new token is needed"),
            )),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Program {
        for root in &self.roots {
            self.program.demand.add(root);
        }
        self.program
    }
}

/// All narrowings of the token, resolved. One that no longer parses, or whose service, verb or selector is
/// gone, refuses everything: it must not evaporate because a file was renamed (DESIGN §9).
fn narrowings(catalog: &Catalog, token: &VerifiedToken) -> Result<Vec<ResolvedLine>, Denial> {
    let mut lines: Vec<ResolvedLine> = Vec::new();
    for text in token.blocks().iter().flat_map(|block| &block.checks).flat_map(literals) {
        let narrowed = |why: String| {
            let message = format!("the token's narrowing `{}` can't be applied: {why}", crate::token::printable(text));
            Denial::because(Reason::Narrowed, message)
        };
        let line = AllowLine::parse(text).map_err(|error| narrowed(error.to_string()))?;
        lines.push(line.resolve(catalog).map_err(|error| narrowed(error.to_string()))?);
    }
    Ok(lines)
}

/// The receivers of `allows` in a check, in the order in which the compiler meets them.
fn literals(check: &crate::token::ast::Check) -> Vec<&str> {
    fn of_ops<'c>(ops: &'c [crate::token::ast::Op], found: &mut Vec<&'c str>) {
        use crate::token::ast::{Op, Term, Unary};
        for (index, op) in ops.iter().enumerate() {
            match op {
                Op::Closure(_, inner) => of_ops(inner, found),
                Op::Unary(Unary::Ffi(name)) if name == "allows" => {
                    let before = ops.iter().take(index).rev().find(|op| !matches!(op, Op::Unary(Unary::Parens)));
                    if let Some(Op::Value(Term::Str(text))) = before {
                        found.push(text);
                    }
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    for expression in check.queries.iter().flat_map(|query| &query.expressions) {
        of_ops(&expression.ops, &mut found);
    }
    found
}

/// Finds a narrowing's number by its canonical text.
struct Lookup<'a> {
    lines: &'a [ResolvedLine],
}

impl Narrow for Lookup<'_> {
    fn resolve(&mut self, line: &str) -> Result<usize, String> {
        let line = AllowLine::parse(line).map_err(|error| error.to_string())?;
        let found = self.lines.iter().position(|other| *other.line() == line);
        found.ok_or_else(|| "it was not looked up".to_owned())
    }
}

fn refusal_of(error: &MachineError) -> Denial {
    let reason = match (&error.error, error.place.owner) {
        (CompileError::Narrowing { .. }, _) => Reason::Narrowed,
        (_, Owner::Block(_)) => Reason::TokenUnsupported,
        (_, Owner::File(_)) => Reason::PolicyError,
    };
    Denial::because(reason, describe(error))
}
