//! The forms of checks that kleis knows: an expiry and a narrowing.
//!
//! Whoever evaluates a token asks here, so that the two never mean different things in different rooms.

use super::{Block, ast};
use crate::words::Timestamp;

/// The predicate of the time fact.
const TIME: &str = "time";
/// The extern of narrowings.
const ALLOWS: &str = "allows";

/// The line of `check if "LINE".extern::allows()`, if the check is exactly that.
pub fn narrowing(check: &ast::Check) -> Option<&str> {
    let query = only_query(check)?;
    if !query.body.is_empty() {
        return None;
    }
    let [ast::Expression { ops }] = query.expressions.as_slice() else { return None };
    match ops.as_slice() {
        [ast::Op::Value(ast::Term::Str(line)), ast::Op::Unary(ast::Unary::Ffi(name))] if name == ALLOWS => Some(line),
        _ => None,
    }
}

/// The first second at which `check if time($t), $t < DATE` (or `<=`) fails, if the check is exactly that.
pub fn expiry(check: &ast::Check) -> Option<Timestamp> {
    let query = only_query(check)?;
    let [ast::Predicate { name, terms }] = query.body.as_slice() else { return None };
    let [ast::Term::Variable(bound)] = terms.as_slice() else { return None };
    let [ast::Expression { ops }] = query.expressions.as_slice() else { return None };
    let [ast::Op::Value(ast::Term::Variable(compared)), ast::Op::Value(ast::Term::Date(date)), ast::Op::Binary(op)] =
        ops.as_slice()
    else {
        return None;
    };
    match op {
        _ if name != TIME || bound != compared => None,
        ast::Binary::LessThan => Some(*date),
        ast::Binary::LessOrEqual => Some(date.saturating_add(1)),
        _ => None,
    }
}

/// `check if …` with one alternative and the usual scope.
fn only_query(check: &ast::Check) -> Option<&ast::Rule> {
    match (&check.kind, check.queries.as_slice()) {
        (ast::CheckKind::One, [query]) if query.scopes.is_empty() => Some(query),
        _ => None,
    }
}

/// `check if "LINE".extern::allows()`
pub(super) fn narrowing_check(line: &str) -> ast::Check {
    let ops = vec![ast::Op::Value(ast::Term::Str(line.to_owned())), ast::Op::Unary(ast::Unary::Ffi(ALLOWS.to_owned()))];
    check_if(vec![], ops)
}

/// `check if time($t), $t < DATE`
pub(super) fn expiry_check(at: Timestamp) -> ast::Check {
    let ops = vec![
        ast::Op::Value(ast::variable("t")),
        ast::Op::Value(ast::Term::Date(at)),
        ast::Op::Binary(ast::Binary::LessThan),
    ];
    check_if(vec![ast::Predicate::new(TIME.to_owned(), vec![ast::variable("t")])], ops)
}

fn check_if(body: Vec<ast::Predicate>, ops: Vec<ast::Op>) -> ast::Check {
    let head = ast::Predicate::new("query".to_owned(), vec![]);
    let query = ast::Rule::new(head, body, vec![ast::Expression { ops }], vec![]);
    ast::Check { queries: vec![query], kind: ast::CheckKind::One }
}

/// When a token ends: the earliest plain expiry of any block, and whether anything looks at the time in
/// another form.
pub(super) fn life(blocks: &[Block]) -> (Option<Timestamp>, bool) {
    let expires = blocks.iter().flat_map(|b| &b.checks).filter_map(expiry).min();
    let reads_time = |rule: &ast::Rule| rule.body.iter().any(|p| p.name == TIME);
    let odd = blocks.iter().any(|block| {
        block.rules.iter().any(reads_time)
            || block.checks.iter().any(|check| expiry(check).is_none() && check.queries.iter().any(reads_time))
    });
    (expires, odd)
}

#[cfg(test)]
mod tests {
    use super::super::parse_check;
    use super::*;

    #[test]
    fn only_the_plain_form_is_an_expiry() {
        let day = 1_796_083_200;
        for (text, expected) in [
            ("check if time($t), $t < 2026-12-01T00:00:00Z", Some(day)),
            ("check if time($now), $now <= 2026-12-01T00:00:00Z", Some(day + 1)),
            ("check if time($t), $t < 2026-12-01T00:00:00Z, $t > 2020-01-01T00:00:00Z", None),
            ("check if time($t), 2026-12-01T00:00:00Z > $t", None),
            ("check if time($t), $t < 2026-12-01T00:00:00Z or true", None),
            ("check all time($t), $t < 2026-12-01T00:00:00Z", None),
            ("reject if time($t), $t < 2026-12-01T00:00:00Z", None),
            ("check if time($t), $t < 2026-12-01T00:00:00Z trusting previous", None),
            ("check if other($t), $t < 2026-12-01T00:00:00Z", None),
            ("check if time($t), time($u), $t < 2026-12-01T00:00:00Z", None),
        ] {
            assert_eq!(expiry(&parse_check(text).unwrap()), expected, "{text}");
        }
        assert_eq!(expiry(&expiry_check(day)), Some(day));
    }

    #[test]
    fn only_a_literal_receiver_is_a_narrowing() {
        let check = narrowing_check("mail: only read");
        assert_eq!(narrowing(&check), Some("mail: only read"));
        assert_eq!(parse_check(r#"check if "mail: only read".extern::allows()"#).unwrap(), check);
        for text in [
            r#"check if line($l), $l.extern::allows()"#,
            r#"check if "x".extern::allows() or true"#,
            r#"reject if "x".extern::allows()"#,
            r#"check if !"x".extern::allows()"#,
            r#"check if "x".extern::glob("y")"#,
        ] {
            assert_eq!(narrowing(&parse_check(text).unwrap()), None, "{text}");
        }
    }
}
