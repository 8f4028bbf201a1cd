//! The one door through which state changes (DESIGN §15).
//!
//! kleisd opens it and serves it on `control.sock`; when no daemon runs, the CLI opens it in its own
//! process. Either holds the data directory's lock, so there is one audit writer and one owner of the
//! revocations in memory.

mod command;
mod door;
mod error;
mod run;

pub use command::{
    Command, Confidential, CredentialAdd, CredentialView, Reply, Revoke, Status, TokenMade, TokenMint, TokenView,
};
pub use door::{Operator, verify_record};
pub use error::OperatorError;

#[cfg(test)]
mod tests;
