//! The value of an expression under bindings, as biscuit-auth 6 gives it.

use std::hash::Hash;

use super::expr::{BinaryOp, Expr, Patterns, Slot, regex};
use super::externs::{self, Extern};
use super::fault::{EvalError, Fault, Meter};
use super::interner::Terms;
use super::word::{Kind, Tag, Word};

/// The longest string that an expression may make.
const MAX_STRING: usize = 1 << 20;

/// What a pattern that is known only now costs to compile, in candidate rows.
const PATTERN_ROWS: u64 = 4_000;

/// Evaluates expressions.
pub struct Evaluator<'a, 't> {
    /// Values.
    pub terms: &'a mut Terms<'t>,
    /// Work.
    pub meter: &'a mut Meter,
    /// Patterns known at load.
    pub patterns: &'a Patterns,
    /// What the narrowings say of the item at hand.
    pub allowed: &'a [bool],
    /// Whose budget.
    pub token: bool,
    /// Size of a regex that is known only now.
    pub max_regex: usize,
}

type Value = Result<Word, Fault>;

impl Evaluator<'_, '_> {
    /// The value of a filter: anything but a boolean is an error.
    pub fn filter(&mut self, expr: &Expr, slots: &mut [Word]) -> Result<bool, Fault> {
        match self.eval(expr, slots)? {
            Word::TRUE => Ok(true),
            Word::FALSE => Ok(false),
            _ => Err(EvalError::Type.into()),
        }
    }

    fn eval(&mut self, expr: &Expr, slots: &mut [Word]) -> Value {
        match expr {
            Expr::Const(word) => Ok(*word),
            Expr::Slot(slot) => read(slots, *slot),
            Expr::Fail(error) => Err((*error).into()),
            Expr::FailAfter(operand, error) => {
                self.eval(operand, slots)?;
                Err((*error).into())
            }
            Expr::Negate(operand) => Ok(Word::bool(!boolean(self.eval(operand, slots)?)?)),
            Expr::Length(operand) => {
                let word = self.eval(operand, slots)?;
                self.length(word)
            }
            Expr::TypeOf(operand) => {
                let kind = self.eval(operand, slots)?.kind();
                Ok(self.terms.str(kind.name()))
            }
            Expr::Binary(op, pair) => {
                let left = self.eval(&pair.0, slots)?;
                let right = self.eval(&pair.1, slots)?;
                self.binary(*op, left, right)
            }
            // the right side's value is the result, whatever its type
            Expr::And(pair) => match boolean(self.eval(&pair.0, slots)?)? {
                false => Ok(Word::FALSE),
                true => self.eval(&pair.1, slots),
            },
            Expr::Or(pair) => match boolean(self.eval(&pair.0, slots)?)? {
                true => Ok(Word::TRUE),
                false => self.eval(&pair.1, slots),
            },
            Expr::TryOr(pair) => {
                let fallback = self.eval(&pair.1, slots)?;
                match self.eval(&pair.0, slots) {
                    Err(Fault::Error(_)) => Ok(fallback),
                    other => other,
                }
            }
            Expr::Quantify { all, over, slot, body } => {
                let over = self.eval(over, slots)?;
                self.quantify(*all, over, *slot, body, slots)
            }
            Expr::Matches(operand, index) => {
                let word = self.eval(operand, slots)?;
                let text = string(self.terms, word)?;
                self.meter.burn(self.token, cost(text.len()))?;
                let regex = self.patterns.regex(*index).ok_or(EvalError::Pattern)?;
                Ok(Word::bool(regex.is_match(text)))
            }
            Expr::Glob(operand, index) => {
                let word = self.eval(operand, slots)?;
                let text = string(self.terms, word)?;
                self.meter.burn(self.token, cost(text.len()))?;
                let glob = self.patterns.glob(*index).ok_or(EvalError::Pattern)?;
                Ok(Word::bool(glob.is_match(text)))
            }
            Expr::Extern(function, operands) => {
                let left = self.eval(&operands.0, slots)?;
                let right = match &operands.1 {
                    Some(argument) => self.eval(argument, slots)?,
                    None => Word::NULL,
                };
                self.call(*function, left, right)
            }
            Expr::Allows(index) => Ok(Word::bool(self.allowed.get(*index).copied().unwrap_or(false))),
        }
    }

    fn length(&self, word: Word) -> Value {
        let length = match word.kind() {
            Kind::Str => self.terms.get_str(word).len(),
            Kind::Bytes => self.terms.get_bytes(word).len(),
            Kind::Set | Kind::Array => self.terms.get_list(word).len(),
            Kind::Map => self.terms.get_list(word).len() / 2,
            Kind::Integer | Kind::Date | Kind::Bool | Kind::Null => return Err(EvalError::Type.into()),
        };
        i64::try_from(length).ok().and_then(Word::small_integer).ok_or(EvalError::Overflow.into())
    }

    /// `all` and `any`. An array has an order, and what stands behind the deciding element is not
    /// evaluated. A set or a map has none: every element is evaluated, so that an error in one denies
    /// whatever order a library would have chosen.
    fn quantify(&mut self, all: bool, over: Word, slot: Slot, body: &Expr, slots: &mut [Word]) -> Value {
        let (step, ordered) = match over.kind() {
            Kind::Array => (1, true),
            Kind::Set => (1, false),
            Kind::Map => (2, false),
            _ => return Err(EvalError::Type.into()),
        };
        let mut result = all;
        let mut index = 0;
        while let Some(first) = self.terms.get_list(over).get(index).copied() {
            self.meter.burn(self.token, 1)?;
            let element = match step {
                2 => {
                    let value = self.terms.get_list(over).get(index + 1).copied().unwrap_or(Word::NULL);
                    self.terms.array(&[first, value])
                }
                _ => first,
            };
            write(slots, slot, element)?;
            if boolean(self.eval(body, slots)?)? != all {
                result = !all;
                if ordered {
                    break;
                }
            }
            index += step;
        }
        Ok(Word::bool(result))
    }

    fn binary(&mut self, op: BinaryOp, left: Word, right: Word) -> Value {
        match op {
            BinaryOp::Equal => return Ok(Word::bool(left == right)),
            BinaryOp::NotEqual => return Ok(Word::bool(left != right)),
            BinaryOp::StrictEqual => return same_kind(left, right).map(|()| Word::bool(left == right)),
            BinaryOp::StrictNotEqual => return same_kind(left, right).map(|()| Word::bool(left != right)),
            BinaryOp::Contains => return self.contains(left, right),
            BinaryOp::Get => return self.get(left, right),
            BinaryOp::Invalid => return Err(EvalError::Type.into()),
            _ => {}
        }
        match (left.kind(), right.kind()) {
            (Kind::Integer, Kind::Integer) => self.integers(op, left, right),
            (Kind::Str, Kind::Str) => self.strings(op, left, right),
            (Kind::Date, Kind::Date) => {
                let (Some(i), Some(j)) = (self.terms.get_date(left), self.terms.get_date(right)) else {
                    return Err(EvalError::Type.into());
                };
                compare(op, &i, &j)
            }
            (Kind::Bool, Kind::Bool) => match op {
                BinaryOp::And => Ok(Word::bool(left == Word::TRUE && right == Word::TRUE)),
                BinaryOp::Or => Ok(Word::bool(left == Word::TRUE || right == Word::TRUE)),
                _ => Err(EvalError::Type.into()),
            },
            (Kind::Set, Kind::Set) => self.sets(op, left, right),
            (Kind::Array, Kind::Array) => {
                let (i, j) = (self.terms.get_list(left), self.terms.get_list(right));
                match op {
                    BinaryOp::Prefix => Ok(Word::bool(i.starts_with(j))),
                    BinaryOp::Suffix => Ok(Word::bool(i.ends_with(j))),
                    _ => Err(EvalError::Type.into()),
                }
            }
            _ => Err(EvalError::Type.into()),
        }
    }

    fn integers(&mut self, op: BinaryOp, left: Word, right: Word) -> Value {
        let (Some(i), Some(j)) = (self.terms.get_integer(left), self.terms.get_integer(right)) else {
            return Err(EvalError::Type.into());
        };
        let value = match op {
            BinaryOp::Add => i.checked_add(j).ok_or(EvalError::Overflow)?,
            BinaryOp::Sub => i.checked_sub(j).ok_or(EvalError::Overflow)?,
            BinaryOp::Mul => i.checked_mul(j).ok_or(EvalError::Overflow)?,
            BinaryOp::Div => i.checked_div(j).ok_or(EvalError::Division)?,
            BinaryOp::BitwiseAnd => i & j,
            BinaryOp::BitwiseOr => i | j,
            BinaryOp::BitwiseXor => i ^ j,
            _ => return compare(op, &i, &j),
        };
        Ok(self.terms.integer(value))
    }

    fn strings(&mut self, op: BinaryOp, left: Word, right: Word) -> Value {
        let (a, b) = (self.terms.get_str(left), self.terms.get_str(right));
        self.meter.burn(self.token, cost(a.len() + b.len()))?;
        match op {
            BinaryOp::Prefix => Ok(Word::bool(a.starts_with(b))),
            BinaryOp::Suffix => Ok(Word::bool(a.ends_with(b))),
            BinaryOp::Add => {
                if a.len() + b.len() > MAX_STRING {
                    return Err(EvalError::TooLong.into());
                }
                let joined = [a, b].concat();
                Ok(self.terms.str(&joined))
            }
            BinaryOp::Regex => {
                self.meter.burn(self.token, PATTERN_ROWS)?;
                let regex = regex(b, self.max_regex).map_err(|_| EvalError::Pattern)?;
                Ok(Word::bool(regex.is_match(a)))
            }
            _ => Err(EvalError::Type.into()),
        }
    }

    fn sets(&mut self, op: BinaryOp, left: Word, right: Word) -> Value {
        let (a, b) = (self.terms.get_list(left), self.terms.get_list(right));
        self.meter.burn(self.token, cost((a.len() + b.len()) * 8))?;
        let mut words: Vec<Word> = match op {
            // both are sorted by word
            BinaryOp::Intersection => a.iter().filter(|word| b.binary_search(word).is_ok()).copied().collect(),
            BinaryOp::Union => a.iter().chain(b).copied().collect(),
            _ => return Err(EvalError::Type.into()),
        };
        Ok(self.terms.set(&mut words))
    }

    fn contains(&mut self, left: Word, right: Word) -> Value {
        match (left.kind(), right.kind()) {
            (Kind::Str, Kind::Str) => {
                let (a, b) = (self.terms.get_str(left), self.terms.get_str(right));
                self.meter.burn(self.token, cost(a.len() + b.len()))?;
                Ok(Word::bool(a.contains(b)))
            }
            (Kind::Set, Kind::Set) => {
                let (a, b) = (self.terms.get_list(left), self.terms.get_list(right));
                self.meter.burn(self.token, cost((a.len() + b.len()) * 8))?;
                Ok(Word::bool(b.iter().all(|word| a.binary_search(word).is_ok())))
            }
            (Kind::Set, Kind::Integer | Kind::Date | Kind::Bool | Kind::Str | Kind::Bytes) => {
                Ok(Word::bool(self.terms.get_list(left).binary_search(&right).is_ok()))
            }
            (Kind::Array, _) => {
                let list = self.terms.get_list(left);
                self.meter.burn(self.token, cost(list.len() * 8))?;
                Ok(Word::bool(list.contains(&right)))
            }
            (Kind::Map, _) => {
                let list = self.terms.get_list(left);
                self.meter.burn(self.token, cost(list.len() * 8))?;
                Ok(Word::bool(externs::map_get(self.terms, left, right).is_some()))
            }
            _ => Err(EvalError::Type.into()),
        }
    }

    fn get(&mut self, left: Word, right: Word) -> Value {
        match (left.kind(), right.kind()) {
            (Kind::Array, Kind::Integer) => {
                let index = self.terms.get_integer(right).and_then(|index| usize::try_from(index).ok());
                Ok(index.and_then(|index| self.terms.get_list(left).get(index).copied()).unwrap_or(Word::NULL))
            }
            (Kind::Map, Kind::Integer | Kind::Str) => {
                self.meter.burn(self.token, cost(self.terms.get_list(left).len() * 8))?;
                Ok(externs::map_get(self.terms, left, right).unwrap_or(Word::NULL))
            }
            _ => Err(EvalError::Type.into()),
        }
    }

    fn call(&mut self, function: Extern, left: Word, right: Word) -> Value {
        if function == Extern::JsonPointer {
            let pointer = string(self.terms, right)?;
            self.meter.burn(self.token, cost(pointer.len()) + 1)?;
            return Ok(externs::json_pointer(self.terms, left, pointer)?);
        }
        let text = string(self.terms, left)?;
        let argument = if function == Extern::PathNormalize { "" } else { string(self.terms, right)? };
        self.meter.burn(self.token, cost(text.len() + argument.len()) + 4)?;
        Ok(match function {
            Extern::Glob => {
                self.meter.burn(self.token, PATTERN_ROWS)?;
                Word::bool(externs::glob(argument).ok_or(EvalError::Pattern)?.is_match(text))
            }
            Extern::CidrContains => Word::bool(externs::cidr_contains(text, argument)?),
            Extern::SemverSatisfies => Word::bool(externs::semver_satisfies(text, argument)?),
            Extern::PathNormalize => {
                let normal = externs::path_normalize(text)?;
                self.terms.str(&normal)
            }
            Extern::JsonPointer => Word::NULL,
        })
    }
}

/// Work on that many bytes, in candidate rows.
fn cost(bytes: usize) -> u64 {
    (bytes / 64) as u64
}

fn read(slots: &[Word], slot: Slot) -> Value {
    slots.get(usize::from(slot)).copied().ok_or(EvalError::UnknownVariable.into())
}

fn write(slots: &mut [Word], slot: Slot, word: Word) -> Result<(), Fault> {
    *slots.get_mut(usize::from(slot)).ok_or(EvalError::UnknownVariable)? = word;
    Ok(())
}

fn boolean(word: Word) -> Result<bool, Fault> {
    match word {
        Word::TRUE => Ok(true),
        Word::FALSE => Ok(false),
        _ => Err(EvalError::Type.into()),
    }
}

fn string<'t>(terms: &'t Terms<'_>, word: Word) -> Result<&'t str, Fault> {
    if word.tag() == Tag::Str { Ok(terms.get_str(word)) } else { Err(EvalError::Type.into()) }
}

fn same_kind(left: Word, right: Word) -> Result<(), Fault> {
    if left.kind() == right.kind() { Ok(()) } else { Err(EvalError::Type.into()) }
}

fn compare<T: Ord + Hash>(op: BinaryOp, left: &T, right: &T) -> Value {
    Ok(Word::bool(match op {
        BinaryOp::LessThan => left < right,
        BinaryOp::GreaterThan => left > right,
        BinaryOp::LessOrEqual => left <= right,
        BinaryOp::GreaterOrEqual => left >= right,
        _ => return Err(EvalError::Type.into()),
    }))
}
