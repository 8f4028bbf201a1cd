//! What ends an evaluation early, and how work is counted.

use crate::policy::Limits;

/// Why an expression has no value. Needed and without a value: the request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The operands are of other types than the operation takes.
    #[error("the operands have the wrong types")]
    Type,
    /// An integer left its 64 bits.
    #[error("an integer overflowed")]
    Overflow,
    /// Also `i64::MIN / -1`, as in biscuit.
    #[error("a division has no result")]
    Division,
    /// Not bound by the body.
    #[error("a variable has no value")]
    UnknownVariable,
    /// A closure's parameter has the name of a bound variable.
    #[error("a closure's parameter shadows a variable")]
    Shadowed,
    /// biscuit counts an invalid pattern as no match; then `reject if $x.matches("(")` passes.
    #[error("a pattern is not valid or too large")]
    Pattern,
    /// Longer than any sensible value.
    #[error("a string became too long")]
    TooLong,
    /// Nested deeper than can be followed.
    #[error("a value is nested too deeply")]
    TooDeep,
    /// `"…".extern::cidr_contains(…)`.
    #[error("`cidr_contains` takes a network like `10.0.0.0/8` and an address")]
    Cidr,
    /// `$v.extern::semver_satisfies(…)`.
    #[error("`semver_satisfies` takes a version and a requirement like `^1.2`")]
    Semver,
    /// `$v.extern::json_pointer(…)`.
    #[error("a JSON pointer is empty or begins with `/`")]
    Pointer,
    /// `$p.extern::path_normalize()`.
    #[error("a path climbs above its root")]
    Path,
}

/// What stops an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An expression has no value. `try_or` catches it.
    Error(EvalError),
    /// The budget is used up. Nothing catches it.
    Fuel(Budget),
}

/// Whose budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// The manifest's, the grant's, the proxy's own.
    Policy,
    /// What rules and checks of the token's blocks may use.
    Token,
    /// How many facts a request may bring.
    Facts,
    /// How many facts rules may derive.
    Derived,
    /// How many facts rules of token blocks may derive.
    TokenDerived,
}

impl From<EvalError> for Fault {
    fn from(error: EvalError) -> Fault {
        Fault::Error(error)
    }
}

/// Counts candidate rows, and other work in the same coin.
#[derive(Debug, Clone)]
pub struct Meter {
    policy: u64,
    token: u64,
    derived: u32,
    token_derived: u32,
    used: u64,
}

impl Meter {
    /// A full one.
    pub fn new(limits: &Limits) -> Meter {
        Meter {
            policy: limits.policy_fuel,
            token: limits.token_fuel,
            derived: limits.max_derived,
            token_derived: limits.max_token_derived,
            used: 0,
        }
    }

    /// Uses up `rows` of the budget that the rule's owner has.
    pub fn burn(&mut self, token: bool, rows: u64) -> Result<(), Fault> {
        self.used += rows;
        let (left, budget) = if token { (&mut self.token, Budget::Token) } else { (&mut self.policy, Budget::Policy) };
        match left.checked_sub(rows) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => Err(Fault::Fuel(budget)),
        }
    }

    /// Counts a fact that a rule derived.
    pub fn derive(&mut self, token: bool) -> Result<(), Fault> {
        let (left, budget) =
            if token { (&mut self.token_derived, Budget::TokenDerived) } else { (&mut self.derived, Budget::Derived) };
        match left.checked_sub(1) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => Err(Fault::Fuel(budget)),
        }
    }

    /// Rows so far.
    pub fn used(&self) -> u64 {
        self.used
    }
}
