//! A sandbox for the demo and the doctor: an environment of proxy and CA variables and nothing else, and the programs
//! that run in it.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use super::environment::{self, Reach};
use super::failure::Failure;

/// An empty home and the variables that go with it.
pub struct Sandbox {
    home: PathBuf,
    environment: Vec<(String, String)>,
}

/// What a program did.
pub struct Outcome {
    /// Whether it ended with 0.
    pub success: bool,
    /// Standard output and error.
    pub said: String,
}

impl Sandbox {
    /// Variables as `kleis setup` prints them, and the placeholders of the manifests.
    pub fn new(home: PathBuf, reach: Reach<'_>, placeholders: Vec<(String, String)>) -> Sandbox {
        let mut environment: Vec<(String, String)> =
            environment::variables(reach).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        environment.extend(placeholders);
        environment.push(("HOME".to_owned(), home.display().to_string()));
        environment.push(("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()));
        environment.push(("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()));
        environment.push(("LC_ALL".to_owned(), "C".to_owned()));
        Sandbox { home, environment }
    }

    /// All variables, as a program in it sees them.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Runs a program in a folder below the home.
    pub async fn run(&self, folder: &str, program: &str, arguments: &[&str]) -> Result<Outcome, Failure> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.home.join(folder))
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| Failure::Outside(format!("can't run `{program}`: {error}")))?;
        let said = [output.stdout, output.stderr].concat();
        Ok(Outcome { success: output.status.success(), said: String::from_utf8_lossy(&said).into_owned() })
    }
}
