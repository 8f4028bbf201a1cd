//! The facts about a decoded body: made from its tree, and only those that some rule can match.
//!
//! `request_body({…})` is the whole; `body(path, value)` is one for each scalar; `body_kind(path, kind)` and
//! `body_len(path, length)` are one for each container. A body has hundreds of nodes and a policy asks for
//! a few of them, mostly by constant path or by `$p.length() == 3, $p.get(0) == "updates"`. So a program
//! knows the shapes of the paths that its atoms can match; a node is made a fact if it has one of them, and
//! each atom is given the nodes of its shape only.

use std::sync::Arc;

use super::fault::{Budget, EvalError, Fault};
use super::interner::{MAX_NESTING, Terms};
use super::word::{Kind, Word};
use crate::facts::{Key, Term};

/// Which of the relations that are made from a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// `request_body($tree)`.
    Whole,
    /// `body($path, $value)`.
    Node,
    /// `body_kind($path, $kind)`.
    Kind,
    /// `body_len($path, $length)`.
    Length,
}

impl Made {
    /// The relation of that name and arity.
    pub fn find(name: &str, arity: usize) -> Option<Made> {
        Some(match (name, arity) {
            ("request_body", 1) => Made::Whole,
            ("body", 2) => Made::Node,
            ("body_kind", 2) => Made::Kind,
            ("body_len", 2) => Made::Length,
            _ => return None,
        })
    }
}

/// What an atom says of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathShape {
    /// How long it is.
    pub length: Option<usize>,
    /// Elements that are known.
    pub gets: Vec<(usize, Word)>,
}

/// The shapes that a program's atoms have, while it is compiled.
#[derive(Debug, Default)]
pub struct Shapes {
    rels: Vec<(usize, Made)>,
    list: Vec<(Made, PathShape)>,
}

impl Shapes {
    /// Says that the relation is made from the body.
    pub fn register(&mut self, rel: usize, made: Made) {
        self.rels.push((rel, made));
    }

    /// Whether, and as what, the relation is made from the body.
    pub fn made_of(&self, rel: usize) -> Option<Made> {
        self.rels.iter().find(|(r, _)| *r == rel).map(|(_, made)| *made)
    }

    /// The number of a shape.
    pub fn add(&mut self, made: Made, mut shape: PathShape) -> usize {
        shape.gets.sort();
        shape.gets.dedup();
        let entry = (made, shape);
        match self.list.iter().position(|other| *other == entry) {
            Some(index) => index,
            None => {
                self.list.push(entry);
                self.list.len() - 1
            }
        }
    }

    /// The shape that every path has.
    pub fn every(&mut self, made: Made) -> usize {
        self.add(made, PathShape::default())
    }

    /// Ready to make facts by. Shapes whose known elements no path can have match nothing.
    pub fn finish(&self, terms: &Terms<'_>) -> Bodies {
        let rel_of = |made| self.rels.iter().find(|(_, m)| *m == made).map(|(rel, _)| *rel);
        let shapes = self.list.iter().map(|(made, shape)| Shape {
            made: *made,
            length: shape.length,
            gets: shape.gets.iter().map(|(index, word)| (*index, step_of(terms, *word))).collect(),
        });
        Bodies {
            whole: rel_of(Made::Whole),
            node: rel_of(Made::Node),
            kind: rel_of(Made::Kind),
            length: rel_of(Made::Length),
            shapes: shapes.collect(),
        }
    }
}

/// One element of a path, as the tree has it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(Arc<str>),
    Number(i64),
    /// No tree has it.
    Never,
}

fn step_of(terms: &Terms<'_>, word: Word) -> Step {
    match word.kind() {
        Kind::Str => Step::Key(terms.get_str(word).into()),
        Kind::Integer => terms.get_integer(word).map_or(Step::Never, Step::Number),
        _ => Step::Never,
    }
}

#[derive(Debug)]
struct Shape {
    made: Made,
    length: Option<usize>,
    gets: Box<[(usize, Step)]>,
}

impl Shape {
    fn fits(&self, made: Made, path: &[Here<'_>]) -> bool {
        self.made == made
            && self.length.is_none_or(|length| length == path.len())
            && self.gets.iter().all(|(index, step)| path.get(*index).is_some_and(|here| here.is(step)))
    }
}

/// Which facts a program wants of a body.
#[derive(Debug, Default)]
pub struct Bodies {
    whole: Option<usize>,
    node: Option<usize>,
    kind: Option<usize>,
    length: Option<usize>,
    shapes: Box<[Shape]>,
}

/// Where made facts go.
pub trait Sink {
    /// Adds a row; the answer is its number.
    fn row(&mut self, rel: usize, row: &[Word]) -> Result<u32, Fault>;
    /// Says that a row has a shape.
    fn has_shape(&mut self, shape: usize, row: u32);
}

/// Where in the tree a walk is.
#[derive(Clone, Copy)]
enum Here<'t> {
    Key(&'t Key),
    Index(usize),
}

impl Here<'_> {
    fn is(&self, step: &Step) -> bool {
        match (self, step) {
            (Here::Key(Key::Str(key)), Step::Key(text)) => key == text,
            (Here::Key(Key::Integer(key)), Step::Number(number)) => key == number,
            (Here::Index(index), Step::Number(number)) => usize::try_from(*number) == Ok(*index),
            _ => false,
        }
    }
}

impl Bodies {
    /// How many shapes there are.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// Whether anything is wanted of a body.
    pub fn is_empty(&self) -> bool {
        self.whole.is_none() && self.shapes.is_empty()
    }

    /// Makes the facts.
    pub fn make(&self, tree: &Term, terms: &mut Terms<'_>, sink: &mut dyn Sink, max: u32) -> Result<(), Fault> {
        if let Some(rel) = self.whole {
            let word = terms.term(tree).map_err(|_| EvalError::TooDeep)?;
            sink.row(rel, &[word])?;
        }
        if self.shapes.is_empty() {
            return Ok(());
        }
        let mut walk =
            Walk { bodies: self, terms, sink, path: Vec::new(), words: Vec::new(), fits: Vec::new(), left: max };
        walk.visit(tree)
    }
}

struct Walk<'a, 't, 'i> {
    bodies: &'a Bodies,
    terms: &'a mut Terms<'i>,
    sink: &'a mut dyn Sink,
    path: Vec<Here<'t>>,
    words: Vec<Word>,
    fits: Vec<usize>,
    left: u32,
}

impl<'t> Walk<'_, 't, '_> {
    fn visit(&mut self, term: &'t Term) -> Result<(), Fault> {
        if self.path.len() > MAX_NESTING {
            return Err(EvalError::TooDeep.into());
        }
        match term {
            Term::Array(items) => {
                self.container("array", items.len())?;
                for (index, item) in items.iter().enumerate() {
                    self.step(Here::Index(index), item)?;
                }
            }
            Term::Set(items) => {
                self.container("set", items.len())?;
                for (index, item) in items.iter().enumerate() {
                    self.step(Here::Index(index), item)?;
                }
            }
            Term::Map(entries) => {
                self.container("map", entries.len())?;
                for (key, value) in entries.iter() {
                    self.step(Here::Key(key), value)?;
                }
            }
            scalar => {
                if let Some(rel) = self.bodies.node
                    && self.wanted(Made::Node)
                {
                    let value = self.terms.term(scalar).map_err(|_| EvalError::TooDeep)?;
                    self.fact(rel, value)?;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, here: Here<'t>, term: &'t Term) -> Result<(), Fault> {
        self.path.push(here);
        self.visit(term)?;
        self.path.pop();
        self.words.truncate(self.path.len());
        Ok(())
    }

    fn container(&mut self, kind: &str, length: usize) -> Result<(), Fault> {
        if let Some(rel) = self.bodies.kind
            && self.wanted(Made::Kind)
        {
            let value = self.terms.str(kind);
            self.fact(rel, value)?;
        }
        if let Some(rel) = self.bodies.length
            && self.wanted(Made::Length)
        {
            let length = self.terms.integer(i64::try_from(length).unwrap_or(i64::MAX));
            self.fact(rel, length)?;
        }
        Ok(())
    }

    /// Whether the path has any of the shapes, and which.
    fn wanted(&mut self, made: Made) -> bool {
        self.fits.clear();
        for (index, shape) in self.bodies.shapes.iter().enumerate() {
            if shape.fits(made, &self.path) {
                self.fits.push(index);
            }
        }
        !self.fits.is_empty()
    }

    fn fact(&mut self, rel: usize, value: Word) -> Result<(), Fault> {
        self.left = self.left.checked_sub(1).ok_or(Fault::Fuel(Budget::Facts))?;
        // elements that were interned for an earlier node are still there
        for here in self.path.iter().skip(self.words.len()) {
            let word = match here {
                Here::Key(key) => self.terms.key(key),
                Here::Index(index) => self.terms.integer(i64::try_from(*index).unwrap_or(i64::MAX)),
            };
            self.words.push(word);
        }
        let path = self.terms.array(&self.words);
        let row = self.sink.row(rel, &[path, value])?;
        for shape in &self.fits {
            self.sink.has_shape(*shape, row);
        }
        Ok(())
    }
}
