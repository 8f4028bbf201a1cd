//! The command line (DESIGN §18).
//!
//! A file for each command. What changes state goes through [`door`]; what only reads files reads them.
//! Each command prints for people or, with `--json`, for machines, and ends with an exit code that says
//! whether the answer was no, the question was wrong, or something outside was.

/// Prints a line to standard output. A reader that went away (`| head`) ends the command quietly, where
/// `println!` would panic.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        if writeln!(std::io::stdout(), $($text)*).is_err() {
            std::process::exit(0);
        }
    }};
}

pub mod args;
mod audit;
mod check;
mod context;
mod credential;
pub mod demo;
mod doctor;
mod door;
mod environment;
mod explain;
mod failure;
mod grant;
mod init;
mod input;
pub mod origin;
mod sandbox;
mod service;
mod setup;
mod stage;
mod status;
mod terminal;
mod token;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use context::Context;
use failure::Failure;

/// Reads the arguments and does what they say.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Context::new(cli.home, cli.json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(&context, &Failure::Outside(format!("no runtime: {error}"))),
    };
    match runtime.block_on(run(&context, cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(&context, &failure),
    }
}

/// Says why, if it has not been said yet, and with which code.
fn end(context: &Context, failure: &Failure) -> ExitCode {
    let text = failure.to_string();
    if !text.is_empty() {
        if context.wants_json() {
            eprintln!("{}", serde_json::json!({"error": text}));
        } else {
            eprintln!("{} {text}", terminal::Terminal::stderr().paint(terminal::Style::Bad, "kleis:"));
        }
    }
    failure.exit_code()
}

async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => demo::run(context, &arguments).await,
        Command::Doctor => doctor::run(context).await,
        Command::Init => init::run(context).await,
        Command::Setup(arguments) => setup::run(context, &arguments),
        Command::Credential(command) => credential::run(context, command).await,
        Command::Token(command) => token::run(context, command).await,
        Command::Service(command) => service::run(context, command),
        Command::Grant(command) => grant::run(context, command),
        Command::Spec(command) => grant::run_spec(context, command),
        Command::Explain { request_id } => explain::run(context, &request_id),
        Command::Audit(command) => audit::run(context, command).await,
        Command::Check(arguments) => check::check(context, &arguments),
        Command::Test { files } => check::test(context, &files),
        Command::Status => status::run(context).await,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "kleis", &mut std::io::stdout());
            Ok(())
        }
        Command::Man { dir } => clap_mangen::generate_to(Cli::command(), dir).map_err(Failure::outside),
    }
}
