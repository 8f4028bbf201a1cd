//! Datalog as it stands in a file: parsed by biscuit's own parser, each statement with its place.
//!
//! What every file may not do is refused here: parameters, `trusting` scopes, regular expressions that
//! do not compile (biscuit-auth counts those as false, so that `reject if $x.matches("(")` would pass).
//! What a manifest or a grant may not do beyond that is refused by whoever reads it.

use biscuit_parser::builder as ast;
use biscuit_parser::parser::{self, SourceResult};

use crate::words::FileErrors;
use crate::words::strict_toml::Value;

/// Statements, each kind in the order of the text.
#[derive(Debug, Clone, Default)]
pub struct Datalog {
    /// Ground facts.
    pub facts: Vec<Placed<ast::Fact>>,
    /// Rules.
    pub rules: Vec<Placed<ast::Rule>>,
    /// `check if`, `check all`, `reject if`.
    pub checks: Vec<Placed<ast::Check>>,
    /// `allow if`, `deny if`.
    pub policies: Vec<Placed<ast::Policy>>,
}

/// A statement and where it stands.
#[derive(Debug, Clone)]
pub struct Placed<T> {
    /// The statement.
    pub statement: T,
    /// As written, without its semicolon.
    pub text: String,
    /// Its place in the file.
    pub place: Place,
}

/// 1-based line and column (in characters).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// Brackets deeper than this are refused before parsing: the parser recurses.
const MAX_DEPTH: usize = 48;
const MAX_REGEX_BYTES: usize = 1 << 20;

impl Datalog {
    /// Parses a text of its own.
    pub fn parse(text: &str, file: &str) -> Result<Datalog, FileErrors> {
        let place = |offset| place_in(text, offset);
        parse_with(text, &place).map_err(|complaints| {
            let mut errors = FileErrors::default();
            for (offset, message) in complaints {
                errors.extend(FileErrors::at(file, text, offset, message));
            }
            errors
        })
    }

    /// Parses a string value of a TOML file; complaints go to the file, at the right line.
    pub fn read(value: &Value<'_>) -> Option<Datalog> {
        let places = value.places();
        let place = |offset| {
            let (line, column) = places(offset);
            Place { line, column }
        };
        match parse_with(value.string()?, &place) {
            Ok(datalog) => Some(datalog),
            Err(complaints) => {
                complaints.into_iter().for_each(|(offset, message)| value.complain_within(offset, message));
                None
            }
        }
    }

    /// Whether there is no statement at all.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.rules.is_empty() && self.checks.is_empty() && self.policies.is_empty()
    }

    /// All bodies: of rules, checks and policies, with the place of their statement.
    pub fn bodies(&self) -> impl Iterator<Item = (&ast::Rule, Place)> {
        let rules = self.rules.iter().map(|rule| (&rule.statement, rule.place));
        let checks = self.checks.iter().flat_map(|c| c.statement.queries.iter().map(move |query| (query, c.place)));
        let policies = self.policies.iter().flat_map(|p| p.statement.queries.iter().map(move |query| (query, p.place)));
        rules.chain(checks).chain(policies)
    }
}

/// The place of a byte of a text.
pub fn place_in(text: &str, offset: usize) -> Place {
    let error = FileErrors::at("", text, offset, "").0.pop();
    let (line, column) = error.map_or((None, None), |error| (error.line, error.column));
    Place { line: line.unwrap_or(1), column: column.unwrap_or(1) }
}

/// Whether an expression calls this extern, closures included.
pub fn calls_extern(ops: &[ast::Op], name: &str) -> bool {
    ops.iter().any(|op| match op {
        ast::Op::Unary(ast::Unary::Ffi(called)) | ast::Op::Binary(ast::Binary::Ffi(called)) => called == name,
        ast::Op::Closure(_, inner) => calls_extern(inner, name),
        ast::Op::Value(_) | ast::Op::Unary(_) | ast::Op::Binary(_) => false,
    })
}

type Complaint = (usize, String);

fn parse_with(text: &str, place: &dyn Fn(usize) -> Place) -> Result<Datalog, Vec<Complaint>> {
    let text = &*without_hash_comments(text);
    let start = text.len() - text.trim_start().len();
    let body = text.trim();
    if body.is_empty() {
        return Ok(Datalog::default());
    }
    if let Some(offset) = too_deep(body) {
        return Err(vec![(start + offset, format!("more than {MAX_DEPTH} brackets stand inside one another here"))]);
    }
    let source = parser::parse_source(body)
        .map_err(|errors| errors.iter().map(|error| syntax_complaint(text, error)).collect::<Vec<_>>())?;
    let complaints = forbidden(text, &source);
    if complaints.is_empty() { Ok(placed(text, source, place)) } else { Err(complaints) }
}

/// The text with `# …` blanked, byte for byte, outside strings and biscuit's own comments. The files are
/// TOML, where `#` begins a comment, and people write it in here as well (DESIGN §7 does).
fn without_hash_comments(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('#') {
        return text.into();
    }
    let (mut blanked, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let line = rest.find('\n').unwrap_or(rest.len());
        let skip = match first {
            '"' => string_end(rest),
            '#' => line,
            '/' if rest.starts_with("//") => line,
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at_checked(skip).unwrap_or((rest, ""));
        match first {
            '#' => blanked.extend(std::iter::repeat_n(' ', token.len())),
            _ => blanked.push_str(token),
        }
        rest = behind;
    }
    blanked.into()
}

/// Where a slice of `text` begins in it. The parser's slices are always slices of its input.
fn offset_in(text: &str, slice: &str) -> usize {
    (slice.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len())
}

fn syntax_complaint(text: &str, error: &parser::Error<'_>) -> Complaint {
    let offset = offset_in(text, error.input);
    let short = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(40).collect::<String>();
    let message = match &error.message {
        Some(message) => format!("datalog: {message}, near `{}`", short(error.input)),
        None => {
            // The parser says only where it gave up, which is inside the statement.
            let before = text.get(..offset).unwrap_or("");
            let start = before.rfind(';').map_or(0, |end| end + 1);
            let statement = short(text.get(start..).unwrap_or("").split(';').next().unwrap_or(""));
            format!("datalog: `{statement}` is no statement: use a fact, a rule, a check or a policy")
        }
    };
    (offset, message)
}

fn placed<'t>(text: &'t str, source: SourceResult<'t>, place: &dyn Fn(usize) -> Place) -> Datalog {
    fn all<'t, T>(list: Vec<(&'t str, T)>, text: &'t str, place: &dyn Fn(usize) -> Place) -> Vec<Placed<T>> {
        let one = |(slice, statement): (&'t str, T)| {
            let start = slice.len() - slice.trim_start().len();
            Placed { statement, text: slice.trim().to_owned(), place: place(offset_in(text, slice) + start) }
        };
        list.into_iter().map(one).collect()
    }
    Datalog {
        facts: all(source.facts, text, place),
        rules: all(source.rules, text, place),
        checks: all(source.checks, text, place),
        policies: all(source.policies, text, place),
    }
}

/// What no file may contain.
fn forbidden(text: &str, source: &SourceResult<'_>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (slice, fact) in &source.facts {
        if fact.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty()) {
            complaints.push((offset_in(text, slice), PARAMETER.to_owned()));
        }
    }
    let rules = source.rules.iter().map(|(slice, rule)| (*slice, std::slice::from_ref(rule)));
    let checks = source.checks.iter().map(|(slice, check)| (*slice, check.queries.as_slice()));
    let policies = source.policies.iter().map(|(slice, policy)| (*slice, policy.queries.as_slice()));
    for (slice, queries) in rules.chain(checks).chain(policies) {
        let start = slice.len() - slice.trim_start().len();
        let wrong = queries.iter().filter_map(forbidden_in_body);
        complaints.extend(wrong.map(|message| (offset_in(text, slice) + start, message)));
    }
    complaints
}

const PARAMETER: &str = "a parameter in braces can't be filled in a file: write the value";

fn forbidden_in_body(rule: &ast::Rule) -> Option<String> {
    if rule.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty()) {
        return Some(PARAMETER.to_owned());
    }
    if !rule.scopes.is_empty() {
        return Some(
            "`trusting` is not supported: a file sees the authorizer's and the authority block's facts".into(),
        );
    }
    rule.expressions.iter().find_map(|expression| bad_regex(&expression.ops))
}

/// The first literal regular expression that does not compile.
fn bad_regex(ops: &[ast::Op]) -> Option<String> {
    let literal = ops.windows(2).find_map(|pair| match pair {
        [ast::Op::Value(ast::Term::Str(pattern)), ast::Op::Binary(ast::Binary::Regex)] => {
            let compiled = regex::RegexBuilder::new(pattern).size_limit(MAX_REGEX_BYTES).build();
            compiled.err().map(|error| format!("`{pattern}` is not a regular expression: {}", last_line(&error)))
        }
        _ => None,
    });
    literal.or_else(|| {
        ops.iter().find_map(|op| match op {
            ast::Op::Closure(_, inner) => bad_regex(inner),
            _ => None,
        })
    })
}

/// A regex error draws a picture over several lines; its last line says it.
fn last_line(error: &regex::Error) -> String {
    error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Where brackets (or negations) outside strings and comments get too deep.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut bangs, mut rest) = (0usize, 0usize, text);
    while let Some(first) = rest.chars().next() {
        let skip = match first {
            '"' => string_end(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => first.len_utf8(),
        };
        match first {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ';' => depth = 0,
            _ => {}
        }
        bangs = if first == '!' { bangs + 1 } else { 0 };
        if depth + bangs > MAX_DEPTH {
            return Some(text.len() - rest.len());
        }
        rest = rest.get(skip..).unwrap_or_default();
    }
    None
}

/// The length of the string literal that `text` begins with, quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (offset, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wrong(text: &str) -> String {
        Datalog::parse(text, "g").unwrap_err().to_string()
    }

    #[test]
    fn statements_keep_their_text_and_place() {
        let parsed = Datalog::parse(
            "\n// a comment\nx(1);\n  y($a) <- x($a),\n  $a > 0;\n/* more */ check if y(1);\nallow if true;\n",
            "g",
        )
        .unwrap();
        assert_eq!(parsed.facts[0].place, Place { line: 3, column: 1 });
        assert_eq!(parsed.rules[0].place, Place { line: 4, column: 3 });
        assert_eq!(parsed.rules[0].text, "y($a) <- x($a),\n  $a > 0");
        assert_eq!(parsed.checks[0].place, Place { line: 6, column: 12 });
        assert_eq!(parsed.policies[0].text, "allow if true");
    }

    #[test]
    fn r155_nothing_and_comments_are_no_statement() {
        for text in ["", "  \n ", "// only a comment", "/* more */\n"] {
            assert!(Datalog::parse(text, "g").unwrap().is_empty(), "{text:?}");
        }
    }

    #[test]
    fn a_hash_begins_a_comment_as_in_the_file_around_it() {
        let parsed = Datalog::parse("# one \"\nx(\"#1\"); # two; y(1);\n// three # \"\n  y(2);", "g").unwrap();
        assert_eq!(parsed.facts.len(), 2);
        assert_eq!(parsed.facts[0].statement.predicate.terms, [ast::Term::Str("#1".to_owned())]);
        assert_eq!(parsed.facts[1].place, Place { line: 4, column: 3 });
    }

    #[test]
    fn a_syntax_error_has_the_place_of_the_statement() {
        assert!(wrong("x(1);\n allow iff true;\n").starts_with("g:2:"), "{}", wrong("x(1);\n allow iff true;\n"));
        assert!(wrong("x($a);").starts_with("g:1:"));
        assert!(wrong("y($b) <- x($a);").contains("$b"));
    }

    #[test]
    fn what_no_file_may_contain_is_refused() {
        assert!(wrong("x({p});").contains("parameter"));
        assert!(wrong("y($a) <- x($a, {p});").contains("parameter"));
        assert!(wrong("allow if x(1) trusting previous;").contains("trusting"));
        assert!(wrong("reject if x($a), $a.matches(\"(\");").contains("regular expression"));
        assert!(wrong("check if x($a), [1].any($b -> $a.matches(\"[\"));").contains("regular expression"));
    }

    #[test]
    fn deep_nesting_is_refused_before_it_is_parsed() {
        assert!(wrong(&format!("check if {}1{} == 1;", "(".repeat(4000), ")".repeat(4000))).contains("brackets"));
        assert!(wrong(&format!("x({});", "[".repeat(100_000))).contains("brackets"));
        assert!(wrong(&format!("// don't \"\ncheck if {}true;", "!".repeat(100_000))).contains("brackets"));
        let fine = format!("check if {}1{} == 1;", "(".repeat(40), ")".repeat(40));
        assert!(Datalog::parse(&fine, "g").is_ok());
    }

    #[test]
    fn an_extern_is_found_inside_a_closure() {
        let parsed = Datalog::parse("check if [\"a\"].any($x -> $x.extern::allows());", "g").unwrap();
        let ops = &parsed.checks[0].statement.queries[0].expressions[0].ops;
        assert!(calls_extern(ops, "allows") && !calls_extern(ops, "glob"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z$(){}\\[\\];,.<\"/*! \n\\\\-]{0,80}") {
            let _ = Datalog::parse(&text, "g");
        }
    }
}
