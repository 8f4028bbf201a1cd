//! May this bearer do that, and with which credential? (DESIGN §8, §9, §14)
//!
//! Layer 1, pure: a decision is a function of a compiled program, the facts of a request and the time.

pub mod allow;
pub mod cases;
mod choice;
mod datalog;
mod decide;
mod decision;
mod explain;
mod explanation;
pub mod grant;
mod limits;
pub mod lint;
mod program;
mod rulebook;
mod situation;
pub mod spec;

pub use decide::{admit, decide};
pub use decision::{
    Candidate, CredentialChoice, DecidedItem, Decision, Denial, FailedCheck, Narrowing, Origin, Permit, Watch,
};
pub use explanation::{ExplainedCheck, ExplainedItem, Explanation, explain};
pub use grant::Grant;
pub use limits::Limits;
pub use program::{Program, compile, compile_endpoint, compile_passthrough};
pub use rulebook::Rulebook;
pub use situation::{Accounts, Situation};
pub use spec::Spec;
