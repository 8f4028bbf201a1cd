//! Expressions as trees, compiled from biscuit's stack code.

use std::collections::HashMap;

use globset::GlobMatcher;
use regex::{Regex, RegexBuilder};

use super::externs::{self, Extern};
use super::fault::EvalError;
use super::interner::{TermError, Terms};
use super::word::{Kind, Word};
use crate::token::ast;
use crate::words::nearest;

/// How deep an expression may be nested.
const MAX_DEPTH: usize = 200;

/// How many different patterns token blocks may bring: each one costs time to compile.
const MAX_TOKEN_PATTERNS: usize = 32;

/// A variable of a rule, or a parameter of a closure.
pub type Slot = u16;

/// An expression.
#[derive(Debug, Clone)]
pub enum Expr {
    Const(Word),
    Slot(Slot),
    /// No value, whatever the bindings.
    Fail(EvalError),
    /// No value once the operand has one.
    FailAfter(Box<Expr>, EvalError),
    Negate(Box<Expr>),
    Length(Box<Expr>),
    TypeOf(Box<Expr>),
    Binary(BinaryOp, Box<(Expr, Expr)>),
    And(Box<(Expr, Expr)>),
    Or(Box<(Expr, Expr)>),
    /// Body, fallback. The fallback is evaluated first, and its errors are not caught.
    TryOr(Box<(Expr, Expr)>),
    Quantify {
        all: bool,
        over: Box<Expr>,
        slot: Slot,
        body: Box<Expr>,
    },
    /// A regex known at load.
    Matches(Box<Expr>, usize),
    /// A glob known at load.
    Glob(Box<Expr>, usize),
    Extern(Extern, Box<(Expr, Option<Expr>)>),
    /// The narrowing of that number, evaluated natively.
    Allows(usize),
}

/// Operations on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    LessThan,
    GreaterThan,
    LessOrEqual,
    GreaterOrEqual,
    StrictEqual,
    StrictNotEqual,
    Equal,
    NotEqual,
    Contains,
    Prefix,
    Suffix,
    Regex,
    Add,
    Sub,
    Mul,
    Div,
    And,
    Or,
    Intersection,
    Union,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Get,
    /// An operation that needs a closure and was given a value.
    Invalid,
}

/// Why a rule, check or policy can't be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Stack code that no parser makes.
    #[error("an expression is malformed")]
    Malformed,
    /// Deeper than can be evaluated safely.
    #[error("an expression is nested too deeply: at most {MAX_DEPTH} levels")]
    TooDeep,
    /// A parameter that nobody filled in, or a variable where a value belongs.
    #[error("{0}")]
    Term(#[from] TermError),
    /// Not a regular expression, or one that compiles to too much.
    #[error("`{pattern}` is not a usable regular expression: {why}")]
    Regex {
        /// As written.
        pattern: String,
        /// One line.
        why: String,
    },
    /// Not a glob.
    #[error("`{0}` is not a glob: use `*` within a path segment, `**` across segments")]
    Glob(String),
    /// No such function, or with the other number of arguments.
    #[error("`extern::{name}` is not known here: {accepted}")]
    Extern {
        /// As written.
        name: String,
        /// What would be accepted.
        accepted: String,
    },
    /// `allows` outside a check of a token block.
    #[error("`extern::allows()` is legal only in checks of tokens")]
    AllowsMisplaced,
    /// `allows` on anything but a literal.
    #[error("`extern::allows()` takes a literal allow line, like `\"mail: only read\".extern::allows()`")]
    AllowsReceiver,
    /// An allow line that doesn't hold up any more.
    #[error("the narrowing `{line}` can't be applied: {why}")]
    Narrowing {
        /// As written.
        line: String,
        /// One line.
        why: String,
    },
    /// Too many patterns in token blocks.
    #[error("token blocks bring more than {MAX_TOKEN_PATTERNS} patterns")]
    TooManyPatterns,
    /// A variable of the head, or of an expression of the policy, that no atom binds.
    #[error("variable `${0}` is not bound: it must stand in a predicate of the body")]
    Unbound(String),
    /// `trusting …`.
    #[error("`trusting` is not supported")]
    Trusting,
    /// More atoms, terms or variables than the evaluator takes.
    #[error("a rule is too large: at most {0}")]
    TooLarge(&'static str),
    /// More blocks than an origin mask has bits.
    #[error("a token has too many blocks: at most {0}")]
    TooManyBlocks(usize),
}

/// Compiled patterns, each once.
#[derive(Debug, Default)]
pub struct Patterns {
    regexes: Vec<Regex>,
    regex_by_text: HashMap<String, usize>,
    globs: Vec<GlobMatcher>,
    glob_by_text: HashMap<String, usize>,
    from_tokens: usize,
}

impl Patterns {
    /// The regex of that number.
    pub fn regex(&self, index: usize) -> Option<&Regex> {
        self.regexes.get(index)
    }

    /// The glob of that number.
    pub fn glob(&self, index: usize) -> Option<&GlobMatcher> {
        self.globs.get(index)
    }

    fn add_regex(&mut self, pattern: &str, size: usize, token: bool) -> Result<usize, CompileError> {
        if let Some(index) = self.regex_by_text.get(pattern) {
            return Ok(*index);
        }
        self.count(token)?;
        let regex = regex(pattern, size)
            .map_err(|error| CompileError::Regex { pattern: pattern.to_owned(), why: one_line(&error.to_string()) })?;
        self.regexes.push(regex);
        self.regex_by_text.insert(pattern.to_owned(), self.regexes.len() - 1);
        Ok(self.regexes.len() - 1)
    }

    fn add_glob(&mut self, pattern: &str, token: bool) -> Result<usize, CompileError> {
        if let Some(index) = self.glob_by_text.get(pattern) {
            return Ok(*index);
        }
        self.count(token)?;
        let glob = externs::glob(pattern).ok_or_else(|| CompileError::Glob(pattern.to_owned()))?;
        self.globs.push(glob);
        self.glob_by_text.insert(pattern.to_owned(), self.globs.len() - 1);
        Ok(self.globs.len() - 1)
    }

    fn count(&mut self, token: bool) -> Result<(), CompileError> {
        self.from_tokens += usize::from(token);
        if self.from_tokens > MAX_TOKEN_PATTERNS { Err(CompileError::TooManyPatterns) } else { Ok(()) }
    }
}

/// Compiles a regex within a size.
pub fn regex(pattern: &str, size: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(size).dfa_size_limit(size.saturating_mul(4)).nest_limit(64).build()
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// Resolves the text of a narrowing to its number.
pub trait Narrow {
    /// The number, or why the line can't be applied.
    fn resolve(&mut self, line: &str) -> Result<usize, String>;
}

/// What compiling an expression needs to know.
pub struct ExprCompiler<'a, 't> {
    /// Where constants go.
    pub terms: &'a mut Terms<'t>,
    /// Where patterns go.
    pub patterns: &'a mut Patterns,
    /// Whether the rule stands in a token block.
    pub token: bool,
    /// Size of one regex.
    pub max_regex: usize,
    /// How `allows` is resolved, where it is legal.
    pub narrow: Option<&'a mut dyn Narrow>,
}

/// Variables in scope, by slot; closures push theirs.
#[derive(Debug, Default)]
pub struct Scope {
    names: Vec<String>,
    /// The most there ever were: how many slots a rule needs.
    pub peak: usize,
}

impl Scope {
    /// The slot of a variable.
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.names.iter().position(|n| n == name).and_then(|index| Slot::try_from(index).ok())
    }

    /// Adds a variable.
    pub fn push(&mut self, name: &str) -> Result<Slot, CompileError> {
        let slot = Slot::try_from(self.names.len()).map_err(|_| CompileError::TooLarge("65,535 variables"))?;
        self.names.push(name.to_owned());
        self.peak = self.peak.max(self.names.len());
        Ok(slot)
    }

    fn pop(&mut self) {
        self.names.pop();
    }
}

enum Item<'o> {
    Value(Expr, usize),
    Closure(&'o [String], &'o [ast::Op]),
}

impl ExprCompiler<'_, '_> {
    /// Compiles one expression of a body whose variables are in scope.
    pub fn compile(&mut self, ops: &[ast::Op], scope: &mut Scope) -> Result<Expr, CompileError> {
        self.ops(ops, scope, 0).map(|(expr, _)| expr)
    }

    fn ops(&mut self, ops: &[ast::Op], scope: &mut Scope, outer: usize) -> Result<(Expr, usize), CompileError> {
        let mut stack: Vec<Item<'_>> = Vec::new();
        for op in ops {
            let item = match op {
                ast::Op::Value(term) => Item::Value(self.value(term, scope)?, 1),
                ast::Op::Closure(params, body) => Item::Closure(params, body),
                ast::Op::Unary(op) => match stack.pop() {
                    Some(Item::Value(operand, depth)) => Item::Value(self.unary(op, operand)?, depth + 1),
                    _ => return Err(CompileError::Malformed),
                },
                ast::Op::Binary(op) => match (stack.pop(), stack.pop()) {
                    (Some(Item::Value(right, r)), Some(Item::Value(left, l))) => {
                        Item::Value(self.binary(op, left, right)?, l.max(r) + 1)
                    }
                    // biscuit takes the value on either side of a closure: `try_or` puts it on the right
                    (Some(Item::Closure(params, body)), Some(Item::Value(value, depth)))
                    | (Some(Item::Value(value, depth)), Some(Item::Closure(params, body))) => {
                        let (expr, inner) = self.closure(op, value, params, body, scope, outer + 1)?;
                        Item::Value(expr, depth.max(inner) + 1)
                    }
                    _ => return Err(CompileError::Malformed),
                },
            };
            if let Item::Value(_, depth) = &item
                && depth + outer > MAX_DEPTH
            {
                return Err(CompileError::TooDeep);
            }
            stack.push(item);
        }
        match (stack.pop(), stack.pop()) {
            (Some(Item::Value(expr, depth)), None) => Ok((expr, depth)),
            _ => Err(CompileError::Malformed),
        }
    }

    fn value(&mut self, term: &ast::Term, scope: &Scope) -> Result<Expr, CompileError> {
        match term {
            ast::Term::Variable(name) => Ok(match scope.find(name) {
                Some(slot) => Expr::Slot(slot),
                None if self.token => Expr::Fail(EvalError::UnknownVariable),
                None => return Err(CompileError::Unbound(name.clone())),
            }),
            other => Ok(Expr::Const(self.terms.ast(other)?)),
        }
    }

    fn unary(&mut self, op: &ast::Unary, operand: Expr) -> Result<Expr, CompileError> {
        Ok(match op {
            ast::Unary::Parens => operand,
            ast::Unary::Negate => Expr::Negate(Box::new(operand)),
            ast::Unary::Length => Expr::Length(Box::new(operand)),
            ast::Unary::TypeOf => Expr::TypeOf(Box::new(operand)),
            ast::Unary::Ffi(name) if name == "allows" => self.allows(&operand)?,
            ast::Unary::Ffi(name) => Expr::Extern(self.find_extern(name, false)?, Box::new((operand, None))),
        })
    }

    fn allows(&mut self, receiver: &Expr) -> Result<Expr, CompileError> {
        let Expr::Const(word) = receiver else { return Err(CompileError::AllowsReceiver) };
        if word.kind() != Kind::Str {
            return Err(CompileError::AllowsReceiver);
        }
        let line = self.terms.get_str(*word).to_owned();
        let narrow = self.narrow.as_mut().ok_or(CompileError::AllowsMisplaced)?;
        match narrow.resolve(&line) {
            Ok(index) => Ok(Expr::Allows(index)),
            Err(why) => Err(CompileError::Narrowing { line, why }),
        }
    }

    fn find_extern(&self, name: &str, argument: bool) -> Result<Extern, CompileError> {
        if name == "allows" {
            return Err(CompileError::AllowsReceiver);
        }
        Extern::find(name, argument).ok_or_else(|| CompileError::Extern {
            name: name.to_owned(),
            accepted: match (Extern::find(name, !argument), nearest(name, Extern::NAMES.iter().copied())) {
                (Some(_), _) if argument => "it takes no argument".to_owned(),
                (Some(_), _) => "it takes an argument".to_owned(),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => format!("use one of {}", Extern::NAMES.join(", ")),
            },
        })
    }

    fn binary(&mut self, op: &ast::Binary, left: Expr, right: Expr) -> Result<Expr, CompileError> {
        use ast::Binary;
        let op = match op {
            Binary::LessThan => BinaryOp::LessThan,
            Binary::GreaterThan => BinaryOp::GreaterThan,
            Binary::LessOrEqual => BinaryOp::LessOrEqual,
            Binary::GreaterOrEqual => BinaryOp::GreaterOrEqual,
            Binary::Equal => BinaryOp::StrictEqual,
            Binary::NotEqual => BinaryOp::StrictNotEqual,
            Binary::HeterogeneousEqual => BinaryOp::Equal,
            Binary::HeterogeneousNotEqual => BinaryOp::NotEqual,
            Binary::Contains => BinaryOp::Contains,
            Binary::Prefix => BinaryOp::Prefix,
            Binary::Suffix => BinaryOp::Suffix,
            Binary::Regex => match self.literal(&right) {
                Some(pattern) => {
                    let index = self.patterns.add_regex(&pattern, self.max_regex, self.token)?;
                    return Ok(Expr::Matches(Box::new(left), index));
                }
                None => BinaryOp::Regex,
            },
            Binary::Add => BinaryOp::Add,
            Binary::Sub => BinaryOp::Sub,
            Binary::Mul => BinaryOp::Mul,
            Binary::Div => BinaryOp::Div,
            Binary::And => BinaryOp::And,
            Binary::Or => BinaryOp::Or,
            Binary::Intersection => BinaryOp::Intersection,
            Binary::Union => BinaryOp::Union,
            Binary::BitwiseAnd => BinaryOp::BitwiseAnd,
            Binary::BitwiseOr => BinaryOp::BitwiseOr,
            Binary::BitwiseXor => BinaryOp::BitwiseXor,
            Binary::Get => BinaryOp::Get,
            Binary::LazyAnd | Binary::LazyOr | Binary::All | Binary::Any | Binary::TryOr => BinaryOp::Invalid,
            Binary::Ffi(name) => {
                let function = self.find_extern(name, true)?;
                if function == Extern::Glob
                    && let Some(pattern) = self.literal(&right)
                {
                    let index = self.patterns.add_glob(&pattern, self.token)?;
                    return Ok(Expr::Glob(Box::new(left), index));
                }
                return Ok(Expr::Extern(function, Box::new((left, Some(right)))));
            }
        };
        Ok(Expr::Binary(op, Box::new((left, right))))
    }

    fn literal(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Const(word) if word.kind() == Kind::Str => Some(self.terms.get_str(*word).to_owned()),
            _ => None,
        }
    }

    fn closure(
        &mut self,
        op: &ast::Binary,
        value: Expr,
        params: &[String],
        body: &[ast::Op],
        scope: &mut Scope,
        outer: usize,
    ) -> Result<(Expr, usize), CompileError> {
        use ast::Binary;
        if outer > MAX_DEPTH {
            return Err(CompileError::TooDeep);
        }
        if params.iter().any(|param| scope.find(param).is_some()) {
            return Ok((Expr::FailAfter(Box::new(value), EvalError::Shadowed), 1));
        }
        Ok(match (op, params) {
            (Binary::TryOr, []) => {
                let (body, depth) = self.ops(body, scope, outer)?;
                (Expr::TryOr(Box::new((body, value))), depth)
            }
            (Binary::LazyAnd, []) => {
                let (body, depth) = self.ops(body, scope, outer)?;
                (Expr::And(Box::new((value, body))), depth)
            }
            (Binary::LazyOr, []) => {
                let (body, depth) = self.ops(body, scope, outer)?;
                (Expr::Or(Box::new((value, body))), depth)
            }
            (Binary::All | Binary::Any, [param]) => {
                let slot = scope.push(param)?;
                let inner = self.ops(body, scope, outer);
                scope.pop();
                let (body, depth) = inner?;
                let all = *op == Binary::All;
                (Expr::Quantify { all, over: Box::new(value), slot, body: Box::new(body) }, depth)
            }
            _ => (Expr::FailAfter(Box::new(value), EvalError::Type), 1),
        })
    }
}

impl Expr {
    /// Calls `f` with every slot that is read, closures' parameters included.
    pub fn slots(&self, f: &mut impl FnMut(Slot)) {
        match self {
            Expr::Const(_) | Expr::Fail(_) | Expr::Allows(_) => {}
            Expr::Slot(slot) => f(*slot),
            Expr::FailAfter(e, _)
            | Expr::Negate(e)
            | Expr::Length(e)
            | Expr::TypeOf(e)
            | Expr::Matches(e, _)
            | Expr::Glob(e, _) => e.slots(f),
            Expr::Binary(_, pair) | Expr::And(pair) | Expr::Or(pair) | Expr::TryOr(pair) => {
                pair.0.slots(f);
                pair.1.slots(f);
            }
            Expr::Quantify { over, body, .. } => {
                over.slots(f);
                body.slots(f);
            }
            Expr::Extern(_, operands) => {
                operands.0.slots(f);
                if let Some(argument) = &operands.1 {
                    argument.slots(f);
                }
            }
        }
    }

    /// Whether it has a value whatever the bindings.
    fn is_total(&self) -> bool {
        match self {
            Expr::Const(_) | Expr::Slot(_) | Expr::Allows(_) => true,
            Expr::TypeOf(e) => e.is_total(),
            Expr::Binary(BinaryOp::Equal | BinaryOp::NotEqual, pair) => pair.0.is_total() && pair.1.is_total(),
            _ => self.is_total_bool(),
        }
    }

    /// Whether it is a boolean whatever the bindings: such a filter may be evaluated out of order.
    pub fn is_total_bool(&self) -> bool {
        match self {
            Expr::Const(word) => word.kind() == Kind::Bool,
            Expr::Allows(_) => true,
            Expr::Binary(BinaryOp::Equal | BinaryOp::NotEqual, pair) => pair.0.is_total() && pair.1.is_total(),
            Expr::Negate(e) => e.is_total_bool(),
            Expr::And(pair) | Expr::Or(pair) => pair.0.is_total_bool() && pair.1.is_total_bool(),
            _ => false,
        }
    }

    /// Whether a narrowing stands in it.
    pub fn has_allows(&self) -> bool {
        match self {
            Expr::Allows(_) => true,
            Expr::Const(_) | Expr::Fail(_) | Expr::Slot(_) => false,
            Expr::FailAfter(e, _)
            | Expr::Negate(e)
            | Expr::Length(e)
            | Expr::TypeOf(e)
            | Expr::Matches(e, _)
            | Expr::Glob(e, _) => e.has_allows(),
            Expr::Binary(_, pair) | Expr::And(pair) | Expr::Or(pair) | Expr::TryOr(pair) => {
                pair.0.has_allows() || pair.1.has_allows()
            }
            Expr::Quantify { over, body, .. } => over.has_allows() || body.has_allows(),
            Expr::Extern(_, operands) => operands.0.has_allows() || operands.1.as_ref().is_some_and(Expr::has_allows),
        }
    }
}
