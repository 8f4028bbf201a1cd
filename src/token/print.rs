//! Datalog as text for people, escaped so that no string can pretend to be something else.
//!
//! What datalog can spell comes back the same when parsed; a control character, which it has no escape
//! for, is shown as `\u{…}`: terminals and log readers are targets too.

use std::fmt::Write as _;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::ast;
use crate::facts::{Fact, Key, Term};

/// A fact: `task_fork("o", "r")`.
pub fn print_fact(fact: &Fact) -> String {
    let mut out = name(&fact.predicate);
    list(&mut out, "(", fact.terms.iter(), ")", put_term);
    out
}

/// A term.
pub fn print_term(term: &Term) -> String {
    let mut out = String::new();
    put_term(&mut out, term);
    out
}

/// A check: `check if time($t), $t < 2026-12-01T00:00:00Z`.
pub fn print_check(check: &ast::Check) -> String {
    let mut out = String::from(match check.kind {
        ast::CheckKind::One => "check if ",
        ast::CheckKind::All => "check all ",
        ast::CheckKind::Reject => "reject if ",
    });
    for (index, query) in check.queries.iter().enumerate() {
        if index > 0 {
            out.push_str(" or ");
        }
        put_body(&mut out, query);
    }
    out
}

/// A rule: `a($x) <- b($x), $x > 2`.
pub fn print_rule(rule: &ast::Rule) -> String {
    let mut out = String::new();
    put_predicate(&mut out, &rule.head);
    out.push_str(" <- ");
    put_body(&mut out, rule);
    out
}

/// A predicate's name. The ones of a block may be any string; one that is no name is shown quoted.
fn name(name: &str) -> String {
    let mut out = String::new();
    put_name(&mut out, name);
    out
}

fn put_name(out: &mut String, name: &str) {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':')) {
        out.push_str(name);
    } else {
        put_string(out, name);
    }
}

fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => put_char(out, c),
        }
    }
    out.push('"');
}

fn put_char(out: &mut String, c: char) {
    if is_unprintable(c) {
        let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
    } else {
        out.push(c);
    }
}

/// Text for a terminal or a log: what can't be seen is shown as `\u{…}`.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| put_char(&mut out, c));
    out
}

/// Control characters, line and paragraph separators, and what turns the direction of text.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn list<T>(out: &mut String, open: &str, items: impl Iterator<Item = T>, close: &str, put: impl Fn(&mut String, T)) {
    out.push_str(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        put(out, item);
    }
    out.push_str(close);
}

fn put_date(out: &mut String, seconds: u64) {
    let date = i64::try_from(seconds).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
    match date.and_then(|date| date.format(&Rfc3339).ok()) {
        Some(text) => out.push_str(&text),
        None => {
            let _ = write!(out, "<{seconds} seconds>");
        }
    }
}

fn put_term(out: &mut String, term: &Term) {
    match term {
        Term::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        Term::Str(text) => put_string(out, text),
        Term::Date(date) => put_date(out, *date),
        Term::Bytes(bytes) => {
            let _ = write!(out, "hex:{}", hex::encode(bytes));
        }
        Term::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Term::Null => out.push_str("null"),
        Term::Set(terms) if terms.is_empty() => out.push_str("{,}"),
        Term::Set(terms) => list(out, "{", terms.iter(), "}", put_term),
        Term::Array(terms) => list(out, "[", terms.iter(), "]", put_term),
        Term::Map(entries) => list(out, "{", entries.iter(), "}", |out, (key, term)| {
            match key {
                Key::Integer(number) => {
                    let _ = write!(out, "{number}");
                }
                Key::Str(text) => put_string(out, text),
            }
            out.push_str(": ");
            put_term(out, term);
        }),
    }
}

fn put_ast_term(out: &mut String, term: &ast::Term) {
    match term {
        ast::Term::Variable(variable) => {
            out.push('$');
            put_name(out, variable);
        }
        ast::Term::Parameter(parameter) => {
            out.push('{');
            put_name(out, parameter);
            out.push('}');
        }
        ast::Term::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        ast::Term::Str(text) => put_string(out, text),
        ast::Term::Date(date) => put_date(out, *date),
        ast::Term::Bytes(bytes) => {
            let _ = write!(out, "hex:{}", hex::encode(bytes));
        }
        ast::Term::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        ast::Term::Null => out.push_str("null"),
        ast::Term::Set(terms) if terms.is_empty() => out.push_str("{,}"),
        ast::Term::Set(terms) => list(out, "{", terms.iter(), "}", put_ast_term),
        ast::Term::Array(terms) => list(out, "[", terms.iter(), "]", put_ast_term),
        ast::Term::Map(entries) => list(out, "{", entries.iter(), "}", |out, (key, term)| {
            match key {
                ast::MapKey::Integer(number) => {
                    let _ = write!(out, "{number}");
                }
                ast::MapKey::Str(text) => put_string(out, text),
                ast::MapKey::Parameter(parameter) => {
                    out.push('{');
                    put_name(out, parameter);
                    out.push('}');
                }
            }
            out.push_str(": ");
            put_ast_term(out, term);
        }),
    }
}

fn put_predicate(out: &mut String, predicate: &ast::Predicate) {
    put_name(out, &predicate.name);
    list(out, "(", predicate.terms.iter(), ")", put_ast_term);
}

fn put_body(out: &mut String, rule: &ast::Rule) {
    list(out, "", rule.body.iter(), "", put_predicate);
    for (index, expression) in rule.expressions.iter().enumerate() {
        if index > 0 || !rule.body.is_empty() {
            out.push_str(", ");
        }
        match print_ops(&expression.ops) {
            Some(text) => out.push_str(&text),
            None => out.push_str("<not an expression>"),
        }
    }
    if !rule.scopes.is_empty() {
        list(out, " trusting ", rule.scopes.iter(), "", put_scope);
    }
}

fn put_scope(out: &mut String, scope: &ast::Scope) {
    match scope {
        ast::Scope::Authority => out.push_str("authority"),
        ast::Scope::Previous => out.push_str("previous"),
        ast::Scope::PublicKey(key) => {
            let algorithm = match key.algorithm {
                ast::Algorithm::Ed25519 => "ed25519",
                ast::Algorithm::Secp256r1 => "secp256r1",
            };
            let _ = write!(out, "{algorithm}/{}", hex::encode(&key.key));
        }
        ast::Scope::Parameter(parameter) => {
            out.push('{');
            put_name(out, parameter);
            out.push('}');
        }
    }
}

/// Operations in postfix order, as a block holds them, to infix. `None` if they don't add up.
fn print_ops(ops: &[ast::Op]) -> Option<String> {
    let mut stack: Vec<String> = Vec::new();
    for op in ops {
        let text = match op {
            ast::Op::Value(term) => {
                let mut out = String::new();
                put_ast_term(&mut out, term);
                out
            }
            ast::Op::Unary(unary) => print_unary(unary, &stack.pop()?),
            ast::Op::Binary(binary) => {
                let right = stack.pop()?;
                print_binary(binary, &stack.pop()?, &right)
            }
            ast::Op::Closure(params, ops) => {
                let body = print_ops(ops)?;
                let mut out = String::new();
                for param in params {
                    out.push('$');
                    put_name(&mut out, param);
                    out.push_str(" -> ");
                }
                out + &body
            }
        };
        stack.push(text);
    }
    let only = stack.pop()?;
    stack.is_empty().then_some(only)
}

fn print_unary(unary: &ast::Unary, value: &str) -> String {
    match unary {
        ast::Unary::Negate => format!("!{value}"),
        ast::Unary::Parens => format!("({value})"),
        ast::Unary::Length => format!("{value}.length()"),
        ast::Unary::TypeOf => format!("{value}.type()"),
        ast::Unary::Ffi(function) => format!("{value}.extern::{}()", name(function)),
    }
}

fn print_binary(binary: &ast::Binary, left: &str, right: &str) -> String {
    let infix = |symbol: &str| format!("{left} {symbol} {right}");
    let method = |function: &str| format!("{left}.{function}({right})");
    match binary {
        ast::Binary::LessThan => infix("<"),
        ast::Binary::GreaterThan => infix(">"),
        ast::Binary::LessOrEqual => infix("<="),
        ast::Binary::GreaterOrEqual => infix(">="),
        ast::Binary::Equal => infix("==="),
        ast::Binary::NotEqual => infix("!=="),
        ast::Binary::HeterogeneousEqual => infix("=="),
        ast::Binary::HeterogeneousNotEqual => infix("!="),
        ast::Binary::Add => infix("+"),
        ast::Binary::Sub => infix("-"),
        ast::Binary::Mul => infix("*"),
        ast::Binary::Div => infix("/"),
        ast::Binary::And => infix("&&!"),
        ast::Binary::Or => infix("||!"),
        ast::Binary::LazyAnd => infix("&&"),
        ast::Binary::LazyOr => infix("||"),
        ast::Binary::BitwiseAnd => infix("&"),
        ast::Binary::BitwiseOr => infix("|"),
        ast::Binary::BitwiseXor => infix("^"),
        ast::Binary::Contains => method("contains"),
        ast::Binary::Prefix => method("starts_with"),
        ast::Binary::Suffix => method("ends_with"),
        ast::Binary::Regex => method("matches"),
        ast::Binary::Intersection => method("intersection"),
        ast::Binary::Union => method("union"),
        ast::Binary::All => method("all"),
        ast::Binary::Any => method("any"),
        ast::Binary::Get => method("get"),
        ast::Binary::TryOr => method("try_or"),
        ast::Binary::Ffi(function) => format!("{left}.extern::{}({right})", name(function)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{parse_check, parse_facts};
    use super::*;

    #[test]
    fn what_is_printed_reads_back_the_same() {
        for text in [
            r#"check if time($t), $t < 2026-12-01T00:00:00Z"#,
            r#"check if operation("read"), repository($o, $r) or operation("fetch")"#,
            r#"check all label_added($l), ["a", "b"].contains($l)"#,
            r#"reject if request_path($p), $p.matches("^/a\\.b\"c") && !$p.starts_with("/x")"#,
            r#"check if body($p, $v), $p.any($q -> $q == "a" || $q === 1), ($v.length() + 1) * 2 >= 3"#,
            r#"check if x($m), $m.get("k").try_or(null) != hex:00ff, 5 / 2 - 1 <= 1"#,
            r#"check if a(true, null, [1, [2]], {"k": 1, 2: "x"}), 1 | 2 & 3 ^ 4 !== 0"#,
            r#"check if "mail: only read".extern::allows()"#,
            r#"check if $x.extern::glob("a/*"), x($x), $x.type() == "string""#,
        ] {
            let check = parse_check(text).unwrap();
            let printed = print_check(&check);
            assert_eq!(parse_check(&printed).unwrap(), check, "{text} → {printed}");
        }
        let fact = &parse_facts(r#"f("a\"b\\c\nd", -3, {"x"}, {,}, hex:0a, 2020-01-01T00:00:00Z)"#).unwrap()[0];
        assert_eq!(&parse_facts(&print_fact(fact)).unwrap()[0], fact);
    }

    #[test]
    fn no_string_and_no_name_pretends_to_be_something_else() {
        let hostile = "a\"); admin(\"x\u{1b}[31m\u{2028}\r";
        let shown = print_fact(&Fact::new("f", vec![Term::from(hostile)]));
        assert_eq!(shown, r#"f("a\"); admin(\"x\u{1b}[31m\u{2028}\u{d}")"#);
        let shown = print_fact(&Fact::new("f(1); g", vec![Term::from(1)]));
        assert_eq!(shown, r#""f(1); g"(1)"#);
    }

    #[test]
    fn an_expression_that_does_not_add_up_is_said_to_be_none() {
        let mut check = parse_check("check if 1 < 2").unwrap();
        check.queries[0].expressions[0].ops.pop();
        assert_eq!(print_check(&check), "check if <not an expression>");
    }
}
