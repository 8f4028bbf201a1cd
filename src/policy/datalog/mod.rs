//! The evaluator: biscuit's datalog over interned words, with counted work (DESIGN §14).
//!
//! Nothing here knows grants, specs or permits: files and blocks go in, a verdict comes out. The order of
//! reading: [`word`] and [`interner`] are values, [`expr`] and [`eval`] expressions, [`relation`] facts,
//! [`plan`], [`strata`] and [`machine`] what is compiled, [`run`] what happens for a request.

mod body;
#[cfg(test)]
mod differential;
mod eval;
mod expr;
mod externs;
mod fault;
#[cfg(test)]
mod generate;
mod interner;
mod machine;
mod plan;
mod relation;
mod run;
mod strata;
mod word;

pub(super) use expr::{CompileError, Narrow};
pub(super) use fault::{Budget, Fault, Meter};
pub(super) use machine::{Input, Machine, MachineError, Owner, Place, What};
pub(super) use run::{Nearest, Run, Scratch, Stop, Verdict};
