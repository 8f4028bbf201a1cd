//! `kleis demo`: the whole thing in a minute, on loopback, with no account.
//!
//! A throw-away home, an upstream that plays GitHub, a real kleisd in this process, and real `git` and
//! `curl` in an environment that holds no credential. Each step says what it proves, and the demo fails
//! if one doesn't.

pub mod github;
mod script;

use super::args::Demo;
use super::context::Context;
use super::failure::Failure;
use super::stage;

/// Runs it.
pub async fn run(context: &Context, arguments: &Demo) -> Result<(), Failure> {
    let dir = stage::folder("kleis-demo-")?;
    let outcome = script::play(context, dir.path()).await;
    if arguments.keep {
        say!("\nkept: {}", dir.keep().display());
    }
    outcome
}
