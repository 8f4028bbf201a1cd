//! Random policies, facts and blocks over a small vocabulary, for tests against biscuit-auth. Driven by
//! bytes, so that proptest can shrink them.

use std::fmt::Write;

/// Reads choices from bytes; when they end, every choice is the first.
pub struct Choices<'b> {
    bytes: &'b [u8],
}

/// A case: the authorizer's source, the authority block's, and those of attenuation blocks.
#[derive(Debug, Clone)]
pub struct Case {
    pub facts: Vec<String>,
    pub authorizer: String,
    pub blocks: Vec<String>,
}

const PREDICATES: [(&str, usize); 7] = [("p", 1), ("q", 2), ("r", 1), ("s", 2), ("t", 1), ("u", 2), ("p", 2)];
const VARIABLES: [&str; 3] = ["$x", "$y", "$z"];
const CONSTANTS: [&str; 14] = [
    "0",
    "1",
    "2",
    "-1",
    "\"a\"",
    "\"b\"",
    "\"ab\"",
    "true",
    "null",
    "[1, 2]",
    "[\"a\", 0]",
    "{1, 2}",
    "{\"k\": 1}",
    "9223372036854775807",
];

impl<'b> Choices<'b> {
    pub fn new(bytes: &'b [u8]) -> Choices<'b> {
        Choices { bytes }
    }

    fn below(&mut self, n: usize) -> usize {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                usize::from(*first) % n
            }
            None => 0,
        }
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn constant(&mut self) -> &'static str {
        // mostly few values, so that joins meet
        if self.below(5) > 0 { self.pick(&["1", "2", "\"a\"", "1"]) } else { self.pick(&CONSTANTS) }
    }

    fn atom(&mut self, bound: &mut Vec<&'static str>) -> String {
        let (name, arity) = PREDICATES[self.below(PREDICATES.len())];
        let terms: Vec<&str> = (0..arity)
            .map(|_| match self.below(5) {
                0 => self.constant(),
                _ => {
                    let variable = self.pick(&VARIABLES);
                    if !bound.contains(&variable) {
                        bound.push(variable);
                    }
                    variable
                }
            })
            .collect();
        format!("{name}({})", terms.join(", "))
    }

    fn term(&mut self, bound: &[&'static str]) -> &'static str {
        if !bound.is_empty() && self.below(3) > 0 { bound[self.below(bound.len())] } else { self.constant() }
    }

    fn expression(&mut self, bound: &[&'static str], depth: usize) -> String {
        let a = self.term(bound);
        let b = self.term(bound);
        if depth > 0 {
            match self.below(8) {
                0 => return format!("{} && {}", self.expression(bound, depth - 1), self.expression(bound, 0)),
                1 => return format!("{} || {}", self.expression(bound, depth - 1), self.expression(bound, 0)),
                2 => return format!("!({})", self.expression(bound, depth - 1)),
                3 => return format!("({}).try_or(true)", self.expression(bound, depth - 1)),
                4 => return format!("({}).try_or(false)", self.expression(bound, depth - 1)),
                _ => {}
            }
        }
        match self.below(24) {
            0..=4 => format!("{a} == {b}"),
            5 | 6 => format!("{a} != {b}"),
            7 => format!("{a} === {b}"),
            8 => format!("{a} !== {b}"),
            9 => format!("{a} < {b}"),
            10 => format!("{a} >= {b}"),
            11 => format!("{a} + {b} == {a}"),
            12 => format!("{a} / {b} <= 1"),
            13 => format!("{a} - 1 == {b}"),
            14 => format!("{a} * {b} > 0"),
            15 => format!("{a}.length() == 1"),
            16 => format!("{a}.type() == \"string\""),
            17 => format!("{a}.starts_with({b})"),
            18 => format!("{a}.contains({b})"),
            19 => format!("{a}.get({b}) == 1"),
            20 => format!("[1, 2, \"a\"].any($w -> $w == {a})"),
            21 => format!("{{1, 2}}.all($w -> $w != {a})"),
            22 => format!("{a}.matches(\"^a\")"),
            _ => format!("{a}.intersection({b}) == {{1, 2}}"),
        }
    }

    fn body(&mut self, bound: &mut Vec<&'static str>) -> String {
        let mut parts: Vec<String> = Vec::new();
        for _ in 0..[1, 1, 2, 3][self.below(4)] {
            parts.push(self.atom(bound));
        }
        for _ in 0..[0, 0, 1, 1, 2][self.below(5)] {
            parts.push(self.expression(bound, 2));
        }
        parts.join(", ")
    }

    fn fact(&mut self) -> String {
        let (name, arity) = PREDICATES[self.below(PREDICATES.len())];
        let terms: Vec<&str> = (0..arity).map(|_| self.constant()).collect();
        format!("{name}({});", terms.join(", "))
    }

    fn rule(&mut self) -> String {
        let mut bound = Vec::new();
        let body = self.body(&mut bound);
        let (name, arity) = PREDICATES[self.below(PREDICATES.len())];
        let terms: Vec<&str> = (0..arity).map(|_| self.term(&bound)).collect();
        format!("{name}({}) <- {body};", terms.join(", "))
    }

    fn bodies(&mut self, several: bool) -> String {
        let count = if several { 1 + self.below(2) } else { 1 };
        (0..count).map(|_| self.body(&mut Vec::new())).collect::<Vec<_>>().join(" or ")
    }

    fn check(&mut self) -> String {
        match self.below(5) {
            0..=2 => format!("check if {};", self.bodies(true)),
            3 => format!("check all {};", self.bodies(true)),
            // biscuit-auth differs where there is an `or`: tested on its own
            _ => format!("reject if {};", self.bodies(false)),
        }
    }

    fn policy(&mut self) -> String {
        let kind = if self.below(4) > 0 { "allow" } else { "deny" };
        format!("{kind} if {};", self.bodies(true))
    }

    fn block(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.below(4) {
            let _ = writeln!(text, "{}", self.fact());
        }
        for _ in 0..self.below(3) {
            let _ = writeln!(text, "{}", self.rule());
        }
        for _ in 0..[0, 0, 1, 2][self.below(4)] {
            let _ = writeln!(text, "{}", self.check());
        }
        text
    }

    /// A whole case.
    pub fn case(&mut self) -> Case {
        let mut authorizer = String::new();
        for _ in 0..self.below(5) {
            let _ = writeln!(authorizer, "{}", self.rule());
        }
        for _ in 0..[0, 0, 1, 2][self.below(4)] {
            let _ = writeln!(authorizer, "{}", self.check());
        }
        for _ in 0..1 + self.below(3) {
            let _ = writeln!(authorizer, "{}", self.policy());
        }
        Case {
            facts: (0..2 + self.below(14)).map(|_| self.fact()).collect(),
            authorizer,
            blocks: (0..1 + self.below(3)).map(|_| self.block()).collect(),
        }
    }
}
