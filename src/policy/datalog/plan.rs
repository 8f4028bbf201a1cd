//! Bodies of rules and queries, compiled into an order of joins and filters.

use super::body::{Made, PathShape, Shapes};
use super::expr::{BinaryOp, CompileError, Expr, ExprCompiler, Scope, Slot};
use super::interner::Terms;
use super::word::{Kind, Word};
use crate::token::ast;

/// More than any sensible body has; each one is a level of recursion.
const MAX_ATOMS: usize = 32;

/// More than any sensible predicate has; compiling is quadratic in them.
const MAX_TERMS: usize = 32;

/// Up to how many atoms a body gets an order for each of them. A longer one runs in its one order.
const MAX_VARIANTS: usize = 6;

/// One column of an atom.
#[derive(Debug, Clone, Copy)]
pub enum Col {
    /// Must be this.
    Const(Word),
    /// Must be what the variable is bound to.
    Bound(Slot),
    /// Binds the variable.
    Bind(Slot),
}

/// One atom in its place in the order.
#[derive(Debug)]
pub struct Step {
    /// The relation.
    pub rel: usize,
    /// Which atom of the source it is.
    pub atom: usize,
    pub cols: Box<[Col]>,
    /// A column whose value is known, to look rows up by.
    pub key: Option<usize>,
    /// Filters to evaluate on each row.
    pub filters: Box<[usize]>,
    /// Where the relation holds a body's nodes: which of them can match.
    pub shape: Option<usize>,
    /// Filters that remain for a node of that shape.
    pub filters_made: Box<[usize]>,
}

/// An order of atoms.
#[derive(Debug)]
pub struct Plan {
    /// Filters without variables.
    pub first: Box<[usize]>,
    pub steps: Box<[Step]>,
}

/// A compiled body.
#[derive(Debug)]
pub struct Body {
    pub exprs: Box<[Expr]>,
    /// The relation of each atom, in source order.
    pub rels: Box<[usize]>,
    /// Bindings that are needed, closures' parameters included.
    pub slots: usize,
    /// Whether any filter may be without a value: then no match ends the search, because another
    /// binding's error must be seen.
    pub fallible: bool,
    /// Whether a narrowing is among the filters.
    pub has_allows: bool,
    /// In the best order.
    pub full: Plan,
    /// For each atom, an order that begins with it: for what is new in its relation. Empty for bodies of
    /// one atom, and for very long ones, for which `full` does.
    pub deltas: Box<[Plan]>,
}

/// An atom whose terms are resolved.
struct Atom {
    rel: usize,
    terms: Vec<AtomTerm>,
}

#[derive(Clone, Copy)]
enum AtomTerm {
    Const(Word),
    Var(Slot),
}

/// Finds or makes the relation of a predicate.
pub type Relate<'a> = dyn FnMut(&str, usize) -> usize + 'a;

/// Compiles a body. `variants` asks for the delta orders too.
pub fn compile_body(
    rule: &ast::Rule,
    compiler: &mut ExprCompiler<'_, '_>,
    relate: &mut Relate<'_>,
    shapes: &mut Shapes,
    variants: bool,
) -> Result<(Body, Scope), CompileError> {
    if !rule.scopes.is_empty() {
        return Err(CompileError::Trusting);
    }
    if rule.body.len() > MAX_ATOMS {
        return Err(CompileError::TooLarge("32 predicates in a body"));
    }
    let mut scope = Scope::default();
    let atoms = rule
        .body
        .iter()
        .map(|predicate| compile_atom(predicate, compiler.terms, relate, &mut scope))
        .collect::<Result<Vec<_>, _>>()?;
    let exprs = rule
        .expressions
        .iter()
        .map(|expression| compiler.compile(&expression.ops, &mut scope))
        .collect::<Result<Vec<_>, _>>()?;
    let planner = Planner { atoms: &atoms, exprs: &exprs, terms: compiler.terms };
    let full = planner.plan(None, shapes);
    let deltas = match (variants, atoms.len()) {
        (true, 2..=MAX_VARIANTS) => (0..atoms.len()).map(|first| planner.plan(Some(first), shapes)).collect(),
        _ => Vec::new(),
    };
    let body = Body {
        rels: atoms.iter().map(|atom| atom.rel).collect(),
        slots: scope.peak,
        fallible: exprs.iter().any(|expr| !expr.is_total_bool()),
        has_allows: exprs.iter().any(Expr::has_allows),
        full,
        deltas: deltas.into(),
        exprs: exprs.into(),
    };
    Ok((body, scope))
}

fn compile_atom(
    predicate: &ast::Predicate,
    terms: &mut Terms<'_>,
    relate: &mut Relate<'_>,
    scope: &mut Scope,
) -> Result<Atom, CompileError> {
    if predicate.terms.len() > MAX_TERMS {
        return Err(CompileError::TooLarge("32 terms in a predicate"));
    }
    let compiled = predicate
        .terms
        .iter()
        .map(|term| match term {
            ast::Term::Variable(name) => match scope.find(name) {
                Some(slot) => Ok(AtomTerm::Var(slot)),
                None => scope.push(name).map(AtomTerm::Var),
            },
            other => Ok(AtomTerm::Const(terms.ast(other)?)),
        })
        .collect::<Result<Vec<_>, CompileError>>()?;
    Ok(Atom { rel: relate(&predicate.name, compiled.len()), terms: compiled })
}

struct Planner<'a, 't> {
    atoms: &'a [Atom],
    exprs: &'a [Expr],
    terms: &'a Terms<'t>,
}

impl Planner<'_, '_> {
    fn plan(&self, first: Option<usize>, shapes: &mut Shapes) -> Plan {
        let order = self.order(first, shapes);
        let mut bound: Vec<Slot> = Vec::new();
        let mut depth_of: Vec<(Slot, usize)> = Vec::new();
        let mut cols: Vec<Box<[Col]>> = Vec::new();
        for (depth, atom) in order.iter().filter_map(|index| self.atoms.get(*index)).enumerate() {
            let mut here = Vec::with_capacity(atom.terms.len());
            for term in &atom.terms {
                here.push(match term {
                    AtomTerm::Const(word) => Col::Const(*word),
                    AtomTerm::Var(slot) if bound.contains(slot) => Col::Bound(*slot),
                    AtomTerm::Var(slot) => {
                        bound.push(*slot);
                        depth_of.push((*slot, depth + 1));
                        Col::Bind(*slot)
                    }
                });
            }
            cols.push(here.into());
        }
        let at = self.filter_depths(&depth_of);
        let filters_at = |depth: usize| -> Vec<usize> {
            at.iter().enumerate().filter(|(_, d)| **d == depth).map(|(index, _)| index).collect()
        };
        let steps = order.iter().zip(cols).enumerate().filter_map(|(depth, (index, cols))| {
            let atom = self.atoms.get(*index)?;
            let filters = filters_at(depth + 1);
            let (shape, fused) = self.shape(atom, &cols, shapes);
            let filters_made = filters.iter().filter(|filter| !fused.contains(filter)).copied().collect();
            let key = cols.iter().position(|col| matches!(col, Col::Const(_) | Col::Bound(_)));
            Some(Step { rel: atom.rel, atom: *index, cols, key, filters: filters.into(), shape, filters_made })
        });
        Plan { first: filters_at(0).into(), steps: steps.collect() }
    }

    /// Greedy: what has the most known columns comes next; a body's nodes without a shape come last.
    fn order(&self, first: Option<usize>, shapes: &Shapes) -> Vec<usize> {
        let mut order: Vec<usize> = first.into_iter().collect();
        let mut bound: Vec<Slot> = Vec::new();
        if let Some(atom) = first.and_then(|index| self.atoms.get(index)) {
            bound.extend(atom.terms.iter().filter_map(AtomTerm::slot));
        }
        while order.len() < self.atoms.len() {
            let score = |atom: &Atom| {
                let known = |term: &&AtomTerm| term.slot().is_none_or(|slot| bound.contains(&slot));
                let known = atom.terms.iter().filter(known).count();
                let all = known == atom.terms.len();
                let large = shapes.made_of(atom.rel).is_some();
                (all, !large || known > 0, known)
            };
            let next = (0..self.atoms.len())
                .filter(|index| !order.contains(index))
                .filter_map(|index| Some((index, score(self.atoms.get(index)?))))
                .reduce(|best, next| if next.1 > best.1 { next } else { best });
            let Some((index, _)) = next else { break };
            if let Some(atom) = self.atoms.get(index) {
                bound.extend(atom.terms.iter().filter_map(AtomTerm::slot));
            }
            order.push(index);
        }
        order
    }

    /// How many atoms must be matched before each filter is evaluated: as few as bind its variables, but
    /// never before an earlier filter that may be without a value. Filters are evaluated in the order of
    /// the source until one is not true; a later one that is false must not hide an earlier one's error.
    fn filter_depths(&self, depth_of: &[(Slot, usize)]) -> Vec<usize> {
        let mut depths = Vec::with_capacity(self.exprs.len());
        let mut barrier = 0;
        for expr in self.exprs {
            let mut depth = barrier;
            expr.slots(&mut |slot| {
                let bound = depth_of.iter().find(|(s, _)| *s == slot);
                depth = depth.max(bound.map_or(0, |(_, d)| *d));
            });
            if !expr.is_total_bool() {
                barrier = depth;
            }
            depths.push(depth);
        }
        depths
    }

    /// Which of a body's nodes can match the atom, from its constant path or from `$p.length() == n` and
    /// `$p.get(i) == c`, and which filters that answers. Only filters that no filter with a possible error
    /// precedes: the nodes that are left out would have to be asked for that error.
    fn shape(&self, atom: &Atom, cols: &[Col], shapes: &mut Shapes) -> (Option<usize>, Vec<usize>) {
        let Some(made) = shapes.made_of(atom.rel) else { return (None, Vec::new()) };
        if made == Made::Whole || cols.len() != 2 {
            return (None, Vec::new());
        }
        let (mut shape, mut fused) = (PathShape::default(), Vec::new());
        match cols.first() {
            Some(Col::Const(word)) if word.kind() == Kind::Array => {
                let path = self.terms.get_list(*word).to_vec();
                shape.length = Some(path.len());
                shape.gets = path.into_iter().enumerate().collect();
            }
            Some(Col::Const(_)) => {}
            Some(Col::Bind(slot)) => {
                for (index, expr) in self.exprs.iter().enumerate() {
                    if fuse(&mut shape, *slot, expr) {
                        fused.push(index);
                    } else if !expr.is_total_bool() {
                        break;
                    }
                }
            }
            // known only when the rows are asked for
            Some(Col::Bound(_)) | None => return (Some(shapes.every(made)), Vec::new()),
        }
        (Some(shapes.add(made, shape)), fused)
    }
}

impl AtomTerm {
    fn slot(&self) -> Option<Slot> {
        match self {
            AtomTerm::Const(_) => None,
            AtomTerm::Var(slot) => Some(*slot),
        }
    }
}

/// Whether the filter is about the path's length or one of its elements, and then puts it into the shape.
fn fuse(shape: &mut PathShape, path: Slot, expr: &Expr) -> bool {
    let Expr::Binary(op, pair) = expr else { return false };
    let (subject, word) = match (&pair.0, &pair.1) {
        (subject, Expr::Const(word)) | (Expr::Const(word), subject) => (subject, *word),
        _ => return false,
    };
    match (op, subject) {
        (BinaryOp::Equal | BinaryOp::StrictEqual, Expr::Length(of)) if is_slot(of, path) => {
            let length = match word.tag() {
                super::word::Tag::Integer => usize::try_from(word.inline_integer()).ok(),
                _ => None,
            };
            match (length, shape.length) {
                (Some(length), None) => shape.length = Some(length),
                (Some(length), Some(other)) if length == other => {}
                _ => return false,
            }
            true
        }
        (BinaryOp::Equal, Expr::Binary(BinaryOp::Get, get)) if is_slot(&get.0, path) => match &get.1 {
            // an element that is not there is null, and nothing in a path is
            Expr::Const(index) if index.tag() == super::word::Tag::Integer && word != Word::NULL => {
                match usize::try_from(index.inline_integer()) {
                    Ok(index) => {
                        shape.gets.push((index, word));
                        true
                    }
                    Err(_) => false,
                }
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_slot(expr: &Expr, slot: Slot) -> bool {
    matches!(expr, Expr::Slot(s) if *s == slot)
}
