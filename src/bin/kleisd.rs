//! The daemon.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use kleis::admin::daemon::{Daemon, DaemonOptions};
use kleis::config::Home;
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// The credential proxy's daemon. Runs in the foreground; SIGHUP loads the configuration again, SIGTERM
/// ends it in order.
#[derive(Debug, Parser)]
#[command(name = "kleisd", version)]
struct Args {
    /// Where config/ and data/ are [default: $KLEIS_HOME, else the XDG directories]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// How log lines look; they go to standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// What to log: error, warn, info, debug or trace, or more finely as in `kleis::proxy=debug`
    #[arg(long, env = "KLEIS_LOG", default_value = "info")]
    log: String,
    /// Start although the audit was cut or changed since the last run; the break is recorded
    #[arg(long)]
    accept_audit_break: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args = Args::parse();
    match log(&args).and_then(|()| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kleisd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let home = match &args.home {
        Some(dir) => Home::at(&std::path::absolute(dir)?),
        None => Home::find()?,
    };
    let options = DaemonOptions { accept_audit_break: args.accept_audit_break };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let daemon = Daemon::start(home, options).await?;
        let at: Vec<_> = daemon.listening().iter().map(|(role, address)| format!("{address} ({role})")).collect();
        tracing::info!("kleisd serves: {}", at.join(", "));
        daemon.run_until_signal().await?;
        Ok(())
    })
}

/// Our own lines at the level that was asked for; of libraries only warnings and errors. They print headers
/// at `debug` and below, and with them secrets (R127): no setting turns that on.
fn log(args: &Args) -> Result<(), Failure> {
    let asked = EnvFilter::try_new(&args.log).map_err(|error| format!("`--log {}`: {error}", args.log))?;
    let ours =
        filter_fn(|metadata| metadata.target().starts_with("kleis") || *metadata.level() <= tracing::Level::WARN);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match args.log_format {
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
        LogFormat::Text => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            layer.with_target(false).with_ansi(colour).boxed()
        }
    };
    tracing_subscriber::registry().with(layer.with_filter(asked.and(ours))).try_init()?;
    Ok(())
}
