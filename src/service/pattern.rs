//! Patterns of routes: `GET|HEAD api.github.com /repos/{owner}/{repo%.git}/{rest*}`.
//!
//! A path is compared segment by segment, each decoded once and compared whole: `/repos/me` says nothing
//! about `/repos/me-evil` (R27), and `%72epos` is `repos`. Captures are `{name}`, `{name:int}`,
//! `{name:date}`, `{name%suffix}` (the suffix is taken off if it is there) and, last, `{rest*}` (any
//! number of segments, none included; `{rest+}` wants one). A segment may have literal text around its capture: `bot{token}`.

use std::fmt;
use std::sync::Arc;

use crate::facts::{Path, percent};
use crate::words::{Authority, HostPattern};

/// A parsed `match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutePattern {
    pub(super) methods: Methods,
    pub(super) host: RouteHost,
    pub(super) segments: Vec<SegmentPattern>,
    pub(super) rest: Option<Rest>,
}

/// What stands for the remaining segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) name: Arc<str>,
    /// Whether there must be one at least.
    pub(super) some: bool,
}

/// Which methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Methods {
    Any,
    Only(Vec<Arc<str>>),
}

/// Which of the claimed hosts. Without a port: every port on which the service claims the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RouteHost {
    Any,
    Named { pattern: HostPattern, port: Option<u16> },
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SegmentPattern {
    Literal(Arc<str>),
    Capture { name: Arc<str>, shape: Shape },
}

/// What a captured segment looks like, its name apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) prefix: Arc<str>,
    pub(super) suffix: Arc<str>,
    pub(super) strip: Arc<str>,
    pub(super) kind: Kind,
}

/// What a capture's text must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Date,
}

/// What a manifest says its service does not tell apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Taste {
    /// The case of a path's own words.
    pub(super) ignore_case: bool,
    /// A slash at the end.
    pub(super) ignore_trailing_slash: bool,
}

impl Taste {
    /// The segments that are matched.
    pub(super) fn segments(self, path: &Path) -> &[Arc<str>] {
        match path.segments().split_last() {
            Some((_, before)) if self.ignore_trailing_slash && path.has_trailing_slash() => before,
            _ => path.segments(),
        }
    }
}

/// Why a text is no pattern, and at which byte of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternFault {
    /// The byte.
    pub offset: usize,
    /// What is wrong and what would be accepted.
    pub message: String,
}

impl fmt::Display for PatternFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PatternFault {}

fn fault(offset: usize, message: impl Into<String>) -> PatternFault {
    PatternFault { offset, message: message.into() }
}

impl RoutePattern {
    /// Parses `METHOD|METHOD host /path`.
    pub fn parse(text: &str) -> Result<RoutePattern, PatternFault> {
        let place = |part: &str| (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let parts: Vec<&str> = text.split_ascii_whitespace().collect();
        let [methods, host, path] = parts.as_slice() else {
            return Err(fault(
                0,
                "a match is methods, a host and a path, as in `GET|HEAD api.example.com /users/{id}`",
            ));
        };
        let parsed = RoutePattern {
            methods: parse_methods(methods).map_err(|message| fault(place(methods), message))?,
            host: parse_host(host).map_err(|message| fault(place(host), message))?,
            segments: Vec::new(),
            rest: None,
        };
        parsed.with_path(path, place(path))
    }

    fn with_path(mut self, path: &str, start: usize) -> Result<RoutePattern, PatternFault> {
        let Some(inside) = path.strip_prefix('/') else {
            return Err(fault(start, format!("`{path}` is not a path: it begins with `/`")));
        };
        let mut offset = start + 1;
        let mut pieces = inside.split('/').peekable();
        while let Some(piece) = pieces.next() {
            let last = pieces.peek().is_none();
            match parse_segment(piece).map_err(|message| fault(offset, message))? {
                _ if self.rest.is_some() => return Err(fault(offset, "nothing follows a `{rest*}` or `{rest+}`")),
                _ if piece.is_empty() && !last => return Err(fault(offset, "a path has no empty segment")),
                _ if inside.is_empty() => {}
                Piece::Segment(segment) => self.segments.push(segment),
                Piece::Rest(rest) => self.rest = Some(rest),
            }
            offset += piece.len() + 1;
        }
        match first_repeated(&self.names()) {
            Some(name) => Err(fault(start, format!("`{{{name}}}` stands twice in the path"))),
            None => Ok(self),
        }
    }

    /// The captures' names, in order.
    pub fn names(&self) -> Vec<Arc<str>> {
        let segment = |segment: &SegmentPattern| match segment {
            SegmentPattern::Capture { name, .. } => Some(Arc::clone(name)),
            SegmentPattern::Literal(_) => None,
        };
        self.segments.iter().filter_map(segment).chain(self.rest.iter().map(|rest| Arc::clone(&rest.name))).collect()
    }

    /// Whether a request's head matches. Routes are matched through an index; this is for the few patterns
    /// of decoders and refusals.
    pub(super) fn matches(&self, method: &str, authority: &Authority, path: &Path, taste: Taste) -> bool {
        self.methods.includes(method) && self.host.matches(authority) && self.matches_path(path, taste)
    }

    fn matches_path(&self, path: &Path, taste: Taste) -> bool {
        let (given, ignore_case) = (taste.segments(path), taste.ignore_case);
        let enough = match &self.rest {
            Some(rest) => given.len() >= self.segments.len() + usize::from(rest.some),
            None => given.len() == self.segments.len(),
        };
        let fits = |(pattern, segment): (&SegmentPattern, &Arc<str>)| match pattern {
            SegmentPattern::Literal(literal) => same(literal, segment, ignore_case),
            SegmentPattern::Capture { shape, .. } => shape.capture(segment, ignore_case).is_some(),
        };
        !path.is_asterisk() && enough && self.segments.iter().zip(given).all(fits)
    }

    /// Whether every path matches.
    pub(super) fn is_any_path(&self) -> bool {
        self.segments.is_empty() && self.rest.as_ref().is_some_and(|rest| !rest.some)
    }
}

impl Methods {
    pub(super) fn includes(&self, method: &str) -> bool {
        match self {
            Methods::Any => true,
            Methods::Only(list) => list.iter().any(|one| &**one == method),
        }
    }
}

impl RouteHost {
    pub(super) fn matches(&self, authority: &Authority) -> bool {
        match self {
            RouteHost::Any => true,
            RouteHost::Named { pattern, port } => {
                port.is_none_or(|port| port == authority.port()) && pattern.matches_host(authority.host())
            }
        }
    }

    /// Whether the host can be one of these claims.
    pub(super) fn is_claimed(&self, claims: &[HostPattern]) -> bool {
        let RouteHost::Named { pattern, port } = self else { return true };
        claims.iter().any(|claim| {
            let same_port = with_port(pattern, claim.port());
            port.is_none_or(|port| port == claim.port()) && (claim.covers(&same_port) || same_port.covers(claim))
        })
    }
}

/// The same hosts on another port.
pub(super) fn with_port(pattern: &HostPattern, port: u16) -> HostPattern {
    let text = pattern.to_string();
    let host = match text.strip_suffix(&format!(":{}", pattern.port())) {
        Some(host) if pattern.port() != 443 => host,
        _ => &text,
    };
    HostPattern::parse(&format!("{host}:{port}")).unwrap_or_else(|_| pattern.clone())
}

impl Shape {
    /// The captured text of a segment, if it has this shape. Never empty.
    pub(super) fn capture<'s>(&self, segment: &'s str, ignore_case: bool) -> Option<&'s str> {
        let inner = strip_start(segment, &self.prefix, ignore_case)?;
        let inner = strip_end(inner, &self.suffix, ignore_case)?;
        let inner = match strip_end(inner, &self.strip, ignore_case) {
            Some(stripped) if !stripped.is_empty() => stripped,
            _ => inner,
        };
        let right = match self.kind {
            Kind::Text => !inner.is_empty(),
            Kind::Integer => integer(inner).is_some(),
            Kind::Date => date(inner).is_some(),
        };
        right.then_some(inner)
    }
}

/// A 64-bit integer in its one spelling: `007` and `+7` may be another thing to the upstream.
pub(super) fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = digits == "0" && !text.starts_with('-') || !digits.starts_with(['0', '+']);
    canonical.then_some(number)
}

/// Seconds since the epoch of `2026-11-30` (midnight UTC) or an RFC 3339 date and time.
pub(super) fn date(text: &str) -> Option<u64> {
    use time::format_description::well_known::Rfc3339;
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let parsed = time::OffsetDateTime::parse(&whole, &Rfc3339).ok()?;
    u64::try_from(parsed.unix_timestamp()).ok()
}

/// Compares a literal with a segment.
pub(super) fn same(literal: &str, segment: &str, ignore_case: bool) -> bool {
    if ignore_case { literal.eq_ignore_ascii_case(segment) } else { literal == segment }
}

fn strip_start<'s>(text: &'s str, prefix: &str, ignore_case: bool) -> Option<&'s str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    same(prefix, start, ignore_case).then_some(rest)
}

fn strip_end<'s>(text: &'s str, suffix: &str, ignore_case: bool) -> Option<&'s str> {
    let (rest, end) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    same(suffix, end, ignore_case).then_some(rest)
}

fn parse_methods(text: &str) -> Result<Methods, String> {
    if text == "*" {
        return Ok(Methods::Any);
    }
    let list: Vec<Arc<str>> = text.split('|').map(Arc::from).collect();
    if let Some(wrong) = list.iter().find(|one| one.is_empty() || !one.bytes().all(is_method_byte)) {
        return Err(format!("`{wrong}` is not a method: use names in capitals joined with `|`, or `*`"));
    }
    match first_repeated(&list) {
        Some(method) => Err(format!("`{method}` stands twice")),
        None => Ok(Methods::Only(list)),
    }
}

fn is_method_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
}

fn parse_host(text: &str) -> Result<RouteHost, String> {
    if text == "*" {
        return Ok(RouteHost::Any);
    }
    let pattern = HostPattern::parse(text).map_err(|error| error.to_string())?;
    let explicit = text.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    Ok(RouteHost::Named { port: explicit.then(|| pattern.port()), pattern })
}

enum Piece {
    Segment(SegmentPattern),
    Rest(Rest),
}

fn parse_segment(piece: &str) -> Result<Piece, String> {
    let Some((before, behind)) = piece.split_once('{') else {
        return literal(piece).map(|text| Piece::Segment(SegmentPattern::Literal(text)));
    };
    let Some((inside, after)) = behind.split_once('}') else {
        return Err(format!("`{piece}` has a `{{` without its `}}`"));
    };
    if after.contains('{') {
        return Err(format!("`{piece}` has two captures: a segment has one"));
    }
    if let Some(name) = inside.strip_suffix(['*', '+']) {
        return match (before, after) {
            ("", "") => Ok(Piece::Rest(Rest { name: capture_name(name)?, some: inside.ends_with('+') })),
            _ => Err(format!("`{{{inside}}}` stands for whole segments: put nothing around it")),
        };
    }
    let (inside, strip) = inside.split_once('%').unwrap_or((inside, ""));
    let (name, kind) = match inside.split_once(':') {
        None => (inside, Kind::Text),
        Some((name, "int")) => (name, Kind::Integer),
        Some((name, "date")) => (name, Kind::Date),
        Some((_, other)) => return Err(format!("`{other}` is not a kind of capture: use `int` or `date`")),
    };
    let shape = Shape { prefix: literal(before)?, suffix: literal(after)?, strip: strip.into(), kind };
    Ok(Piece::Segment(SegmentPattern::Capture { name: capture_name(name)?, shape }))
}

/// Literal text, decoded once as a request's segments are.
fn literal(text: &str) -> Result<Arc<str>, String> {
    let wrong = |why: &str| format!("`{text}` is not a path segment: {why}");
    if let Some(c) = text.chars().find(|c| matches!(c, '}' | '*' | '?' | '#' | ';' | '\\') || c.is_control()) {
        return Err(wrong(&format!("`{c}` can't stand in it (a capture is `{{name}}` or `{{rest*}}`)")));
    }
    let decoded = percent::decode(text, false).map_err(|_| wrong("it has a broken percent escape"))?;
    match &*decoded {
        "." | ".." => Err(wrong("no request has it")),
        other => Ok(other.into()),
    }
}

/// Names of captures are names of datalog variables.
pub(super) fn capture_name(name: &str) -> Result<Arc<str>, String> {
    let right = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if right {
        Ok(name.into())
    } else {
        Err(format!("`{name}` is not a name for a capture: use letters, digits and `_`"))
    }
}

fn first_repeated(names: &[Arc<str>]) -> Option<&Arc<str>> {
    names.iter().enumerate().find(|(i, name)| names.iter().take(*i).any(|other| other == *name)).map(|(_, name)| name)
}
