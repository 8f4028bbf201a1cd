//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::input::Source;
use crate::words::{CredentialName, GrantName, ServiceName, SpecName};

/// Somebody installs a credential once; everybody else holds a token that says what may be done with it.
#[derive(Debug, Parser)]
#[command(name = "kleis", version, propagate_version = true, max_term_width = 110, after_help = EXIT_CODES)]
pub struct Cli {
    /// Where config/ and data/ are [default: $XDG_CONFIG_HOME/kleis and $XDG_STATE_HOME/kleis]
    #[arg(long, global = true, env = "KLEIS_HOME", value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print JSON, for machines
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done · 1 the answer is no (denied, not verified, a test failed) · \
2 the command or a file is wrong · 3 something outside is (no daemon, no permission, disk)";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole thing in a minute: on loopback, with no account
    Demo(Demo),
    /// First set-up: keys, a commented config.toml, and what to do next
    Init,
    /// Print what to configure for a shell or for git
    Setup(Setup),
    /// Try every client found here against a proxy; say what is wrong and how to mend it
    Doctor,
    /// Credentials: what the proxy spends and nobody else sees
    #[command(subcommand)]
    Credential(CredentialCommand),
    /// Tokens: what bearers hold
    #[command(subcommand)]
    Token(TokenCommand),
    /// Services: upstreams that manifests describe
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Grants: when a credential may be spent
    #[command(subcommand)]
    Grant(GrantCommand),
    /// Specs: what a kind of bearer may do
    #[command(subcommand)]
    Spec(SpecCommand),
    /// Would this request be allowed? (no proxy needed)
    Check(Check),
    /// Why was that request decided so?
    Explain {
        /// The request id, from a refusal or the audit
        request_id: String,
    },
    /// Run a policy's test file
    Test {
        /// Test files (TOML)
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// The audit: what was decided and what came of it
    #[command(subcommand)]
    Audit(AuditCommand),
    /// The daemon's state
    Status,
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages to a folder
    #[command(hide = true)]
    Man {
        /// The folder
        dir: PathBuf,
    },
}

/// `kleis demo`
#[derive(Debug, Args)]
pub struct Demo {
    /// Keep the throw-away home and say where it is
    #[arg(long)]
    pub keep: bool,
}

/// `kleis setup`
#[derive(Debug, Args)]
pub struct Setup {
    /// What to print
    #[arg(long = "for", value_enum, default_value = "shell")]
    pub target: SetupTarget,
    /// The token that the sandbox will hold: `-`, `@file` or `env:NAME`
    #[arg(long, value_name = "SOURCE")]
    pub token: Option<Source>,
    /// Where the sandbox reaches the proxy [default: public_url, else the first proxy listener]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// For what `kleis setup` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SetupTarget {
    /// `export` lines: proxy and CA variables for all common clients
    Shell,
    /// git alone, through the proxy: `git config` lines
    Git,
    /// git alone, by rewriting URLs: needs no CA
    GitRewrite,
}

/// `kleis credential …`
#[derive(Debug, Subcommand)]
pub enum CredentialCommand {
    /// Install a credential, sealed, or replace the one of that name
    Add(CredentialAdd),
    /// List credentials and their states
    List,
    /// Show one, without its secret
    Show {
        /// Its name, `service/account`
        name: CredentialName,
    },
    /// Remove an installed one
    Remove {
        /// Its name, `service/account`
        name: CredentialName,
    },
}

/// `kleis credential add`
#[derive(Debug, Args)]
pub struct CredentialAdd {
    /// Its name, `service/account`
    pub name: CredentialName,
    /// The service it is for [default: the first half of the name]
    #[arg(long)]
    pub service: Option<ServiceName>,
    /// Where the secret is read: `-` (standard input), `@file` or `env:NAME`
    #[arg(long, value_name = "SOURCE")]
    pub secret: Source,
    /// How it is obtained: static, exec or github-app [default: the manifest's]
    #[arg(long)]
    pub provider: Option<String>,
    /// Its kind, where a service has more than one: api_key or oauth
    #[arg(long)]
    pub kind: Option<String>,
    /// The provider's settings as JSON, or `@file`
    #[arg(long, value_name = "JSON|@FILE")]
    pub config: Option<String>,
    /// One setting of the provider
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Only these hosts of the service [default: all that its manifest names]
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
}

/// `kleis token …`
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token by hand; it is printed and not kept
    Mint(TokenMint),
    /// Take something away from a token, offline
    Attenuate(TokenAttenuate),
    /// Show what is in a token
    Inspect {
        /// The token: `-`, `@file` or `env:NAME`
        #[arg(long, value_name = "SOURCE", default_value = "-")]
        token: Source,
    },
    /// List tokens that were made here and still live
    List,
    /// Revoke: at once, open streams included
    Revoke(TokenRevoke),
}

/// `kleis token mint`
#[derive(Debug, Args)]
pub struct TokenMint {
    /// A grant it may use; give it again for more, tried in this order
    #[arg(long = "grant", value_name = "GRANT", required = true)]
    pub grants: Vec<GrantName>,
    /// Who will hold it, for the audit
    #[arg(long)]
    pub bearer: String,
    /// How long it lives, as in `8h`
    #[arg(long, value_parser = crate::words::parse_duration)]
    pub ttl: Duration,
    /// A fact that grants may look at, as in `task_fork("owner", "repo")`
    #[arg(long = "fact", value_name = "DATALOG")]
    pub facts: Vec<String>,
}

/// `kleis token attenuate`
#[derive(Debug, Args)]
pub struct TokenAttenuate {
    /// The token: `-`, `@file` or `env:NAME`
    #[arg(long, value_name = "SOURCE", default_value = "-")]
    pub token: Source,
    /// A check that must hold, as in `check if operation("read")`
    #[arg(long = "check", value_name = "DATALOG")]
    pub checks: Vec<String>,
    /// A narrowing, as in `github: only read`
    #[arg(long = "allow", value_name = "LINE")]
    pub allows: Vec<String>,
    /// An earlier end, from now, as in `1h`
    #[arg(long, value_parser = crate::words::parse_duration)]
    pub ttl: Option<Duration>,
}

/// `kleis token revoke`
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TokenRevoke {
    /// A revocation id, from `token list`, `token inspect` or the audit
    pub id: Option<String>,
    /// The token itself: `-`, `@file` or `env:NAME`
    #[arg(long, value_name = "SOURCE")]
    pub token: Option<Source>,
    /// All tokens of a bearer
    #[arg(long)]
    pub bearer: Option<String>,
    /// All tokens that an issuer had made
    #[arg(long)]
    pub issuer: Option<String>,
    /// All tokens of a spec
    #[arg(long)]
    pub spec: Option<SpecName>,
}

/// `kleis service …`
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// List services
    List,
    /// Show one: hosts, verbs, operations, selectors
    Show {
        /// Its name
        name: ServiceName,
        /// Print the manifest itself
        #[arg(long)]
        source: bool,
    },
    /// Check a manifest file
    Check {
        /// Files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// `kleis grant …`
#[derive(Debug, Subcommand)]
pub enum GrantCommand {
    /// List grants
    List,
    /// Show one
    Show {
        /// Its name
        name: GrantName,
    },
    /// Check grant files: errors, and warnings about what bites
    Check {
        /// Files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// `kleis spec …`
#[derive(Debug, Subcommand)]
pub enum SpecCommand {
    /// List specs
    List,
    /// Show one
    Show {
        /// Its name
        name: SpecName,
    },
    /// Check spec files
    Check {
        /// Files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// `kleis check`
#[derive(Debug, Args)]
pub struct Check {
    /// The method
    pub method: String,
    /// The URL
    pub url: String,
    /// A token: `-`, `@file` or `env:NAME`
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["grant", "spec"])]
    pub token: Option<Source>,
    /// Grants to try, instead of a token
    #[arg(long, value_name = "GRANT")]
    pub grant: Vec<GrantName>,
    /// A spec to try, instead of a token
    #[arg(long, conflicts_with = "grant")]
    pub spec: Option<SpecName>,
    /// A fact that the token would state
    #[arg(long = "fact", value_name = "DATALOG")]
    pub facts: Vec<String>,
    /// A header, as in `content-type: application/json`
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The body, or `@file`
    #[arg(short = 'd', long = "data", value_name = "BODY|@FILE")]
    pub body: Option<String>,
    /// Print all facts of the request
    #[arg(long = "facts")]
    pub show_facts: bool,
    /// Print how the decision came about
    #[arg(long)]
    pub explain: bool,
}

/// `kleis audit …`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Print the last entries, and go on with --follow
    Tail {
        /// How many
        #[arg(short = 'n', long, default_value_t = 20)]
        lines: usize,
        /// Wait for more
        #[arg(short, long)]
        follow: bool,
    },
    /// Check the chain: every line, its order, and its end
    Verify,
    /// Print all entries of one request
    Show {
        /// The request id
        request_id: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
