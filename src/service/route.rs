//! `[[route]]`: what a request means.

use std::sync::Arc;

use super::capture::{Capture, Head, Source, Stage, Trees, resolve};
use super::load::Claims;
use super::pattern::{RoutePattern, SegmentPattern};
use super::steps::Steps;
use super::template::FactTemplate;
use crate::facts::{STANDARD_PREDICATES, Term};
use crate::words::nearest;
use crate::words::strict_toml::{Table, Value};

/// One route.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) pattern: RoutePattern,
    pub(super) captures: Vec<Capture>,
    /// Which captures anything needs: the others are not made.
    used: Vec<bool>,
    pub(super) each: Option<Each>,
    pub(super) emit: Vec<FactTemplate>,
    pub(super) on_success: Vec<FactTemplate>,
    pub(super) conditions: Vec<Condition>,
    slashes: Slashes,
    pub(super) fallback: bool,
    /// Whether it can make an item.
    pub(super) states_operation: bool,
    /// Whether it looks into the request's body whatever the policy asks for.
    pub(super) wants_body: bool,
    /// Predicates for which it does if the policy reads them.
    pub(super) body_for: Vec<Arc<str>>,
    /// Whether `on_success` looks into the answer's body.
    pub(super) wants_response: bool,
}

/// Where an encoded slash may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slashes {
    Nowhere,
    /// `encoded_slash = "data"`.
    Anywhere,
    /// `encoded_slash = ["rest"]`: in what these captures take.
    In(Vec<Source>),
}

/// The lists whose elements a route looks at one by one: `body:updates`, `body:operations.*.fields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Each {
    /// Never empty: all but the last lead to a list whose elements are looked into.
    pub(super) lists: Vec<Steps>,
}

/// `where = { kind = "create" }`: the route (or element) counts only if the capture has one of the values.
/// `unless`: only if it has none of them; a capture that does not resolve has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) capture: usize,
    /// Whether the head is enough to know.
    in_head: bool,
    /// `where`, and not `unless`.
    is: bool,
    pub(super) values: Vec<Term>,
}

/// The token's own predicates, and the choice of a credential: never a manifest's (invariant 7).
pub(super) const TOKEN_PREDICATES: [&str; 6] = ["grant", "spec", "bearer", "issuer", "issued_by", "use_credential"];

const KEYS: &[&str] =
    &["match", "capture", "each", "emit", "on_success", "where", "unless", "encoded_slash", "fallback"];

impl Route {
    /// Reads a `[[route]]`.
    pub(super) fn read(value: &Value<'_>, claims: &Claims<'_>) -> Option<Route> {
        let table = value.table(KEYS)?;
        let pattern = claims.pattern(&table.required("match")?)?;
        let mut captures = path_captures(&pattern);
        if let Some(value) = table.get("capture") {
            read_captures(&value, &mut captures)?;
        }
        let each = match table.get("each") {
            Some(value) => Some(value.parse(Each::parse)?),
            None => None,
        };
        let templates = |key: &str, stage| read_templates(&table, key, &captures, stage);
        let (emit, on_success) = (templates("emit", Stage::Element), templates("on_success", Stage::Response));
        let (mut conditions, unless) =
            (read_conditions(&table, "where", &captures)?, read_conditions(&table, "unless", &captures)?);
        conditions.extend(unless);
        let slashes = read_slashes(&table, &captures);
        let fallback = table.get("fallback").and_then(|value| value.boolean());
        check_elements(&table, &captures, each.is_some());
        let stages: Vec<Stage> = captures.iter().map(|capture| capture.source.stage(&captures)).collect();
        let on_success = on_success?;
        let needs_response = |index: usize| stages.get(index) == Some(&Stage::Response);
        let emit = emit?;
        let wants_response = on_success.iter().flat_map(FactTemplate::needs).any(needs_response);
        Some(Route {
            states_operation: emit.iter().any(FactTemplate::is_operation),
            wants_body: false,
            body_for: Vec::new(),
            wants_response,
            pattern,
            used: used_captures(&captures, emit.iter().chain(&on_success), &conditions),
            captures,
            each,
            emit,
            on_success,
            conditions,
            slashes: slashes?,
            fallback: fallback.unwrap_or(false),
        })
    }

    /// Works out when it has to look into a body. Called once it is known which facts are always made.
    pub(super) fn settle_body(&mut self) {
        let stages: Vec<Stage> = self.captures.iter().map(|one| one.source.stage(&self.captures)).collect();
        let in_body = |index: usize| matches!(stages.get(index), Some(Stage::Body | Stage::Element));
        let conditional = self.conditions.iter().any(|condition| in_body(condition.capture));
        let whole = self.each.is_some() || conditional;
        let looks = |template: &&FactTemplate| whole || template.needs().any(in_body);
        let looking: Vec<&FactTemplate> = self.emit.iter().filter(looks).collect();
        self.wants_body =
            looking.iter().any(|template| template.always) || self.on_success.iter().any(|template| looks(&template));
        self.body_for = looking.iter().map(|template| Arc::clone(&template.predicate)).collect();
        if self.wants_body {
            self.body_for.clear();
        }
    }

    /// The values of one element, or of the whole request, if the conditions hold that the head does not
    /// decide.
    pub(super) fn values_with(&self, head: &[Option<Term>], trees: Trees<'_>) -> Option<Vec<Option<Term>>> {
        let late = || self.conditions.iter().filter(|condition| !condition.in_head);
        let holds = |condition: &Condition| {
            let capture = self.captures.get(condition.capture);
            condition.accepts(capture.and_then(|capture| capture.source.in_trees(trees)).as_ref(), false)
        };
        if !late().filter(|one| !self.is_made(one.capture)).all(holds) {
            return None;
        }
        let mut values = head.to_vec();
        resolve(&self.captures, &self.used, &mut values, trees);
        late().filter(|one| self.is_made(one.capture)).all(|one| one.holds(&values, false)).then_some(values)
    }

    /// The values that the head gives, if the conditions hold that it decides. Those on a part of the head
    /// itself come first: most routes of a busy path end there, before anything is made.
    pub(super) fn head_values(&self, head: &Head<'_>) -> Option<Vec<Option<Term>>> {
        let ignore_case = head.taste.ignore_case;
        let plain = |condition: &&Condition| condition.in_head && !self.is_made(condition.capture);
        let holds = |condition: &Condition| {
            let capture = self.captures.get(condition.capture);
            condition.accepts(capture.and_then(|capture| capture.source.in_head(head)).as_ref(), ignore_case)
        };
        if !self.conditions.iter().filter(plain).all(holds) {
            return None;
        }
        let given = self.captures.iter().zip(&self.used);
        let mut values: Vec<_> = given.map(|(one, used)| if *used { one.source.in_head(head) } else { None }).collect();
        resolve(&self.captures, &self.used, &mut values, Trees::default());
        let made = self.conditions.iter().filter(|one| one.in_head && self.is_made(one.capture));
        made.into_iter().all(|one| one.holds(&values, ignore_case)).then_some(values)
    }

    /// Whether a capture is made of others.
    fn is_made(&self, capture: usize) -> bool {
        let source = self.captures.get(capture).map(|capture| &capture.source);
        matches!(source, Some(Source::Lower(_) | Source::Text(_)))
    }

    /// Whether the path's encoded slashes, if it has any, stand where the route takes them as data.
    pub(super) fn takes_slashes(&self, segments: &[Arc<str>]) -> bool {
        let Slashes::In(sources) = &self.slashes else { return self.slashes == Slashes::Anywhere };
        let taken = |index: usize| {
            sources.iter().any(|source| match source {
                Source::Segment(at, _) => *at == index,
                Source::Rest(from) => *from <= index,
                _ => false,
            })
        };
        segments.iter().enumerate().all(|(index, segment)| !segment.contains('/') || taken(index))
    }

    /// The nodes of a body that it looks at, as `body_paths` spells them.
    pub(super) fn body_paths(&self) -> Vec<String> {
        let each = self.each.iter().map(Each::path);
        let own = self.captures.iter().filter_map(|capture| match &capture.source {
            Source::Body(path) | Source::Count(path) => Some(path.text()),
            Source::Outer(path) => self.each.as_ref().map(|each| each.outer_path(path)),
            _ => None,
        });
        // the whole body is every key of it
        each.chain(own).map(|path| if path.is_empty() { "*".to_owned() } else { path }).collect()
    }
}

impl Condition {
    fn holds(&self, values: &[Option<Term>], ignore_case: bool) -> bool {
        self.accepts(values.get(self.capture).and_then(Option::as_ref), ignore_case)
    }

    fn accepts(&self, value: Option<&Term>, ignore_case: bool) -> bool {
        let same = |a: &Term, b: &Term| match (a, b) {
            (Term::Str(a), Term::Str(b)) => super::pattern::same(a, b, ignore_case),
            _ => a == b,
        };
        value.is_some_and(|value| self.values.iter().any(|one| same(one, value))) == self.is
    }
}

impl Each {
    fn parse(text: &str) -> Result<Each, String> {
        let path = text.strip_prefix("body:").ok_or_else(|| {
            format!("`{text}` is not a list: use `body:PATH`, with `*` for every element of a list on the way")
        })?;
        let lists = path.split(".*.").map(Steps::parse).collect::<Result<Vec<_>, _>>()?;
        if lists.iter().any(|list| list.texts().any(|step| step == "*")) {
            return Err(format!("`{text}`: a `*` stands between two keys"));
        }
        Ok(Each { lists })
    }

    /// Every element, with what holds its list.
    pub(super) fn elements<'t>(&self, body: &'t Term) -> Vec<(&'t Term, &'t Term)> {
        let mut found = vec![(body, body)];
        for list in &self.lists {
            let inside = |(holder, _): (&'t Term, &'t Term)| match list.find(holder) {
                Some(Term::Array(items)) => items.iter().map(|item| (item, holder)).collect::<Vec<_>>(),
                _ => Vec::new(),
            };
            found = found.into_iter().flat_map(inside).collect();
        }
        found
    }

    fn path(&self) -> String {
        self.lists.iter().map(Steps::text).collect::<Vec<_>>().join(".*.")
    }

    fn outer_path(&self, path: &Steps) -> String {
        let holders = self.lists.len().saturating_sub(1);
        let mut steps: Vec<String> = Vec::new();
        for list in self.lists.iter().take(holders) {
            steps.extend(list.texts().map(str::to_owned));
            steps.push("*".to_owned());
        }
        steps.extend(path.texts().map(str::to_owned));
        steps.join(".")
    }
}

/// What templates and conditions need, and what that is made of. A capture stands behind those it is made of.
fn used_captures<'t>(
    captures: &[Capture],
    templates: impl Iterator<Item = &'t FactTemplate>,
    conditions: &[Condition],
) -> Vec<bool> {
    let mut used = vec![false; captures.len()];
    let mark = |index: usize, used: &mut Vec<bool>| {
        if let Some(slot) = used.get_mut(index) {
            *slot = true;
        }
    };
    templates.flat_map(FactTemplate::needs).for_each(|index| mark(index, &mut used));
    conditions.iter().for_each(|condition| mark(condition.capture, &mut used));
    for (index, capture) in captures.iter().enumerate().rev() {
        if used.get(index) == Some(&true) {
            capture.source.made_of().for_each(|of| mark(of, &mut used));
        }
    }
    used
}

fn path_captures(pattern: &RoutePattern) -> Vec<Capture> {
    let segment = |(index, segment): (usize, &SegmentPattern)| match segment {
        SegmentPattern::Literal(_) => None,
        SegmentPattern::Capture { name, shape } => {
            Some(Capture { name: Arc::clone(name), source: Source::Segment(index, shape.clone()) })
        }
    };
    let rest = pattern
        .rest
        .iter()
        .map(|rest| Capture { name: Arc::clone(&rest.name), source: Source::Rest(pattern.segments.len()) });
    pattern.segments.iter().enumerate().filter_map(segment).chain(rest).collect()
}

fn read_captures(value: &Value<'_>, captures: &mut Vec<Capture>) -> Option<()> {
    let table = value.open_table()?;
    let mut right = Some(());
    for (name, value) in table.entries() {
        if captures.iter().any(|capture| &*capture.name == name) {
            table.complain_about_key(name, format!("`{name}` is captured twice"));
            right = None;
            continue;
        }
        let valid = super::pattern::capture_name(name).map_err(|message| table.complain_about_key(name, message)).ok();
        match (valid, value.parse(|text| Source::parse(text, captures))) {
            (Some(name), Some(source)) => captures.push(Capture { name, source }),
            _ => right = None,
        }
    }
    right
}

fn read_slashes(table: &Table<'_>, captures: &[Capture]) -> Option<Slashes> {
    let Some(value) = table.get("encoded_slash") else { return Some(Slashes::Nowhere) };
    if value.is_string() {
        return value.one_of(&[("data", Slashes::Anywhere)]);
    }
    let in_path = |name: &str| {
        let found = captures.iter().find(|capture| &*capture.name == name).map(|capture| &capture.source);
        match found {
            Some(source @ (Source::Segment(..) | Source::Rest(_))) => Ok(source.clone()),
            _ => Err(format!("`{name}` is not a capture of this route's path")),
        }
    };
    value.parse_list(in_path).map(Slashes::In)
}

fn read_templates(table: &Table<'_>, key: &str, captures: &[Capture], stage: Stage) -> Option<Vec<FactTemplate>> {
    let Some(value) = table.get(key) else { return Some(Vec::new()) };
    let list = value.list()?;
    let read = |value: &Value<'_>| value.parse(|text| checked_template(text, captures, stage));
    let templates: Vec<FactTemplate> = list.iter().filter_map(read).collect();
    (templates.len() == list.len()).then_some(templates)
}

fn checked_template(text: &str, captures: &[Capture], stage: Stage) -> Result<FactTemplate, String> {
    let template = FactTemplate::parse(text, captures)?;
    check_head(&template.predicate)?;
    let late = template.needs().filter_map(|index| captures.get(index));
    if let Some(late) = late.into_iter().find(|capture| capture.source.stage(captures) > stage) {
        return Err(format!("`${}` comes from the answer: only `on_success` can use it", late.name));
    }
    if template.is_operation() && template.terms.len() != 1 {
        return Err(format!("`{text}`: an operation is `operation(\"name\")`"));
    }
    Ok(template)
}

/// What a manifest may state (invariant 7).
pub(super) fn check_head(predicate: &str) -> Result<(), String> {
    if TOKEN_PREDICATES.contains(&predicate) {
        return Err(format!("`{predicate}` belongs to the token: a manifest can't state it"));
    }
    if STANDARD_PREDICATES.contains(&predicate) {
        return Err(format!("`{predicate}` is written by the proxy: a manifest can't state it"));
    }
    Ok(())
}

fn read_conditions(table: &Table<'_>, key: &str, captures: &[Capture]) -> Option<Vec<Condition>> {
    let Some(value) = table.get(key) else { return Some(Vec::new()) };
    let conditions = value.open_table()?;
    let entries = conditions.entries();
    let read = |(name, value): &(&str, Value<'_>)| {
        let Some(capture) = captures.iter().position(|capture| &*capture.name == *name) else {
            let near = nearest(name, captures.iter().map(|capture| &*capture.name));
            let hint = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
            conditions.complain_about_key(name, format!("`{name}` is not a capture of this route{hint}"));
            return None;
        };
        let stage = captures.get(capture)?.source.stage(captures);
        if stage == Stage::Response {
            conditions.complain_about_key(name, format!("`{name}` comes from the answer: it can't be a condition"));
            return None;
        }
        Some(Condition { capture, in_head: stage == Stage::Head, is: key == "where", values: read_values(value)? })
    };
    let read: Vec<Condition> = entries.iter().filter_map(read).collect();
    (read.len() == entries.len()).then_some(read)
}

/// A string, number or boolean, or a list of them.
fn read_values(value: &Value<'_>) -> Option<Vec<Term>> {
    let one = |json: &serde_json::Value| match json {
        serde_json::Value::String(text) => Some(Term::from(text.as_str())),
        serde_json::Value::Bool(value) => Some(Term::Bool(*value)),
        serde_json::Value::Number(number) => number.as_i64().map(Term::Integer),
        _ => None,
    };
    let values = match &value.json()? {
        serde_json::Value::Array(list) => list.iter().map(one).collect::<Option<Vec<_>>>(),
        single => one(single).map(|term| vec![term]),
    };
    if values.is_none() {
        value.complain(format!(
            "`{}` is not a value to compare with: use a string, a number, true, false or a list of them",
            value.name()
        ));
    }
    values
}

fn check_elements(table: &Table<'_>, captures: &[Capture], has_each: bool) {
    let element = captures.iter().find(|capture| capture.source.stage(captures) == Stage::Element);
    if let (Some(capture), false) = (element, has_each) {
        table.complain(format!("`{}` looks into an element: the route needs an `each`", capture.name));
    }
}
