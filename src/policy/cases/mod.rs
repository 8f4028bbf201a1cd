//! `kleis test`: requests with the decisions that are expected of a grant or a spec.
//!
//! ```toml
//! spec  = "worker"                        # or grant = "g", grants = ["g", "h"]
//! facts = ['task_fork("bot", "proj")']    # what the token states
//! cases = [
//!   "allow GET https://api.github.com/repos/bot/proj",
//!   "allow POST https://github.com/bot/proj.git/git-receive-pack push refs/heads/dev/x",
//!   "deny  POST https://github.com/bot/proj.git/git-receive-pack push refs/heads/main -refs/heads/old",
//!   'deny  PATCH https://api.github.com/repos/bot/proj json {"private": false}',
//! ]
//!
//! [[case]]
//! name    = "a label that is not ours"
//! request = "POST https://api.github.com/repos/bot/proj/issues/1/labels"
//! json    = { labels = ["other"] }
//! expect  = "deny"
//! reason  = "policy_denied"
//! ```
//!
//! Pure: rules and texts in, results out. Tokens are real ones, signed by a key of the moment, and
//! requests are read by the same code as the proxy's, so that a case says what the proxy will do.

mod describe;
mod judge;
mod pack;
mod read;
mod run;
#[cfg(test)]
mod tests;

use crate::facts::Fact;
use crate::service::Place;
use crate::token::Candidates;
use crate::words::{CredentialName, Reason, Timestamp};

pub use describe::{DescribeError, Described};
pub use judge::{Judged, Setting, judge};
pub use run::{CaseResult, Report, RunError, run};

/// A test file.
#[derive(Debug, Clone)]
pub struct CaseFile {
    /// What is tested.
    pub candidates: Candidates,
    /// Whom the token stands for.
    pub bearer: String,
    /// What the token states.
    pub facts: Vec<Fact>,
    /// Allow lines that narrow it.
    pub narrow: Vec<String>,
    /// When the requests are made; `None`: now.
    pub time: Option<Timestamp>,
    /// In the order of the file: the short ones, then the long ones.
    pub cases: Vec<Case>,
    /// The file, as errors name it.
    pub file: String,
}

/// One request and what is expected of it.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it shows; the short form's own text if it has no name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// The request.
    pub request: Described,
    /// More that the token states.
    pub facts: Vec<Fact>,
    /// The account that the client's placeholder names.
    pub account: Option<String>,
    /// What is expected.
    pub expect: Expect,
}

/// What is expected of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// That it may be made, and on which credential if that is said.
    Allow(Option<CredentialName>),
    /// That it may not, and why if that is said.
    Deny(Option<Reason>),
}
