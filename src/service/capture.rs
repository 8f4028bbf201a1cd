//! Where the values of a route's facts come from.

use std::sync::Arc;

use super::pattern::{Kind, Shape, Taste, date, integer};
use super::steps::Steps;
use crate::facts::{Path, Query, RequestView, Term};

/// A value with a name. What does not resolve drops the facts that need it (DESIGN §7).
#[derive(Debug, Clone)]
pub(super) struct Capture {
    pub(super) name: Arc<str>,
    pub(super) source: Source,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The segment with this index.
    Segment(usize, Shape),
    /// All segments from this index on, joined with `/`.
    Rest(usize),
    /// `method`.
    Method,
    /// `host`.
    Host,
    /// `path`, as sent.
    Path,
    /// `header:NAME`, if it stands there once and is visible text.
    Header(Arc<str>),
    /// `query:KEY`, if it stands there once: servers differ on which of two counts.
    Query(Arc<str>),
    /// `body:a.b.0`.
    Body(Steps),
    /// `count:body:a.b`: the length of a list.
    Count(Steps),
    /// `each:a.b`: within the element; `each:` is the element itself.
    Each(Steps),
    /// `outer:a`: within what holds the list that the element is in.
    Outer(Steps),
    /// `response:a.b`: within the answer's body. Only in `on_success`.
    Response(Steps),
    /// `lower:NAME`: another capture in lower case.
    Lower(usize),
    /// `text:refs/{ref}`: other captures put into a text.
    Text(Arc<[TextPiece]>),
}

/// A piece of a [`Source::Text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextPiece {
    Literal(Arc<str>),
    Capture(usize),
}

/// What a capture needs to be known before it resolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Head,
    Body,
    Element,
    Response,
}

/// The parts of a request and its answer that have been read.
#[derive(Clone, Copy, Default)]
pub(super) struct Trees<'t> {
    pub(super) body: Option<&'t Term>,
    pub(super) each: Option<&'t Term>,
    pub(super) outer: Option<&'t Term>,
    pub(super) response: Option<&'t Term>,
}

impl Source {
    /// Parses the right side of a `capture`. `captures` are the names that `lower:` may refer to.
    pub(super) fn parse(text: &str, captures: &[Capture]) -> Result<Source, String> {
        let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
        Ok(match (kind, argument) {
            ("method", "") => Source::Method,
            ("host", "") => Source::Host,
            ("path", "") => Source::Path,
            ("header", name) if is_token(name) => Source::Header(name.to_ascii_lowercase().into()),
            ("query", key) if !key.is_empty() => Source::Query(key.into()),
            ("body", path) => Source::Body(Steps::parse(path)?),
            ("each", path) => Source::Each(Steps::parse(path)?),
            ("outer", path) => Source::Outer(Steps::parse(path)?),
            ("response", path) => Source::Response(Steps::parse(path)?),
            ("count", path) => match path.strip_prefix("body:") {
                Some(path) => Source::Count(Steps::parse(path)?),
                None => return Err(format!("`{text}` counts nothing: use `count:body:PATH`")),
            },
            ("lower", name) => Source::Lower(before(name, captures)?),
            ("text", template) => Source::Text(text_pieces(template, captures)?),
            _ => {
                return Err(format!(
                    "`{text}` is not a source: use header:NAME, query:KEY, body:PATH, count:body:PATH, each:PATH, \
                     outer:PATH, response:PATH, lower:CAPTURE, text:…{{CAPTURE}}…, method, host or path"
                ));
            }
        })
    }

    /// What it needs.
    pub(super) fn stage(&self, captures: &[Capture]) -> Stage {
        match self {
            Source::Body(_) | Source::Count(_) => Stage::Body,
            Source::Each(_) | Source::Outer(_) => Stage::Element,
            Source::Response(_) => Stage::Response,
            // A capture that is made of others stands behind them, so this ends.
            Source::Lower(of) => captures.get(*of).map_or(Stage::Head, |capture| capture.source.stage(captures)),
            Source::Text(_) => {
                let of = self.made_of().filter_map(|of| captures.get(of));
                of.map(|capture| capture.source.stage(captures)).max().unwrap_or(Stage::Head)
            }
            _ => Stage::Head,
        }
    }

    /// The captures that it is made of.
    pub(super) fn made_of(&self) -> impl Iterator<Item = usize> + '_ {
        let (one, pieces): (Option<usize>, &[TextPiece]) = match self {
            Source::Lower(of) => (Some(*of), &[]),
            Source::Text(pieces) => (None, pieces),
            _ => (None, &[]),
        };
        one.into_iter().chain(pieces.iter().filter_map(|piece| match piece {
            TextPiece::Capture(of) => Some(*of),
            TextPiece::Literal(_) => None,
        }))
    }

    /// Its value in a request's head.
    pub(super) fn in_head(&self, head: &Head<'_>) -> Option<Term> {
        match self {
            Source::Segment(index, shape) => {
                let segment = head.segments().get(*index)?;
                let text = shape.capture(segment, head.taste.ignore_case)?;
                Some(match shape.kind {
                    Kind::Text if text.len() == segment.len() => Term::Str(Arc::clone(segment)),
                    Kind::Text => Term::from(text),
                    Kind::Integer => Term::Integer(integer(text)?),
                    Kind::Date => Term::Date(date(text)?),
                })
            }
            Source::Rest(from) => {
                let rest = head.segments().get(*from..).unwrap_or_default();
                Some(match rest {
                    [only] => Term::Str(Arc::clone(only)),
                    several => Term::from(several.join("/").as_str()),
                })
            }
            Source::Method => Some(Term::from(head.view.method)),
            Source::Host => Some(Term::from(head.view.authority.host().to_string().as_str())),
            Source::Path => Some(Term::Str(Arc::clone(head.path.raw()))),
            Source::Header(name) => single_header(head.view, name).map(Term::from),
            Source::Query(key) => head.query.single(key).map(|value| Term::Str(Arc::clone(value))),
            _ => None,
        }
    }

    /// Its value in what has been decoded.
    pub(super) fn in_trees(&self, trees: Trees<'_>) -> Option<Term> {
        match self {
            Source::Body(path) => path.find(trees.body?).cloned(),
            Source::Count(path) => match path.find(trees.body?)? {
                Term::Array(items) => Some(Term::Integer(i64::try_from(items.len()).ok()?)),
                _ => None,
            },
            Source::Each(path) => path.find(trees.each?).cloned(),
            Source::Outer(path) => path.find(trees.outer?).cloned(),
            Source::Response(path) => path.find(trees.response?).cloned(),
            _ => None,
        }
    }
}

/// A request's head, for captures.
pub(super) struct Head<'a> {
    pub(super) view: &'a RequestView<'a>,
    pub(super) path: &'a Path,
    pub(super) query: &'a Query,
    pub(super) taste: Taste,
}

impl Head<'_> {
    fn segments(&self) -> &[Arc<str>] {
        self.taste.segments(self.path)
    }
}

/// Resolves what the trees give, and what is made of other captures, into `values`.
pub(super) fn resolve(captures: &[Capture], used: &[bool], values: &mut [Option<Term>], trees: Trees<'_>) {
    for (index, (capture, _)) in captures.iter().zip(used).enumerate().filter(|(_, (_, used))| **used) {
        let value = match &capture.source {
            Source::Lower(of) => values.get(*of).and_then(Option::as_ref).and_then(lower),
            Source::Text(pieces) => join(pieces, values),
            source => source.in_trees(trees),
        };
        if let (Some(slot @ None), Some(value)) = (values.get_mut(index), value) {
            *slot = Some(value);
        }
    }
}

fn lower(term: &Term) -> Option<Term> {
    match term {
        Term::Str(text) if !text.bytes().any(|b| b.is_ascii_uppercase() || !b.is_ascii()) => Some(term.clone()),
        Term::Str(text) => Some(Term::from(text.to_lowercase().as_str())),
        _ => None,
    }
}

fn join(pieces: &[TextPiece], values: &[Option<Term>]) -> Option<Term> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            TextPiece::Literal(literal) => text.push_str(literal),
            TextPiece::Capture(of) => match values.get(*of)?.as_ref()? {
                Term::Str(value) => text.push_str(value),
                Term::Integer(number) => text.push_str(&number.to_string()),
                _ => return None,
            },
        }
    }
    Some(Term::from(text.as_str()))
}

fn before(name: &str, captures: &[Capture]) -> Result<usize, String> {
    let found = captures.iter().position(|capture| &*capture.name == name);
    found.ok_or_else(|| format!("`{name}` is not a capture that stands before this one"))
}

fn text_pieces(template: &str, captures: &[Capture]) -> Result<Arc<[TextPiece]>, String> {
    let (mut pieces, mut rest) = (Vec::new(), template);
    while let Some((literal, behind)) = rest.split_once('{') {
        let (name, after) =
            behind.split_once('}').ok_or_else(|| format!("`{template}` has a `{{` without its `}}`"))?;
        pieces.push(TextPiece::Literal(literal.into()));
        pieces.push(TextPiece::Capture(before(name, captures)?));
        rest = after;
    }
    pieces.push(TextPiece::Literal(rest.into()));
    Ok(pieces.into())
}

fn single_header<'a>(view: &RequestView<'a>, name: &str) -> Option<&'a str> {
    let mut values = view.headers.iter().filter(|(n, _)| *n == name).map(|(_, value)| *value);
    let value = std::str::from_utf8(values.next()?).ok()?;
    (values.next().is_none() && !value.chars().any(char::is_control)).then_some(value)
}

/// RFC 9110 §5.6.2.
pub(super) fn is_token(name: &str) -> bool {
    let right = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(right)
}
