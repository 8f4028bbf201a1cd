//! May this bearer do that, and with which credential? (DESIGN §8, §9, §14)
//!
//! Layer 1, pure: a decision is a function of a compiled program, the facts of a request and the time.

mod decision;

pub use decision::{
    Candidate, CredentialChoice, DecidedItem, Decision, Denial, FailedCheck, Narrowing, Origin, Permit, Watch,
};
