//! A stage for the demo and the doctor: a throw-away home, an upstream of our own, a credential, a real
//! kleisd in this process, a token, and a sandbox that holds nothing else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::RngCore;

use super::door::Door;
use super::environment::{self, Reach};
use super::failure::Failure;
use super::origin::{Origin, Play};
use super::sandbox::Sandbox;
use crate::admin::daemon::{Daemon, DaemonOptions};
use crate::ca::Ca;
use crate::config::Home;
use crate::operator::{Command, Confidential, CredentialAdd, Reply, TokenMint};
use crate::words::{CredentialName, GrantName};

/// What is played.
pub struct Act {
    /// The names of the upstream.
    pub names: &'static [&'static str],
    /// The upstream.
    pub play: Arc<Play>,
    /// A manifest that is not embedded.
    pub manifest: Option<&'static str>,
    /// The service.
    pub service: &'static str,
    /// The grant, named `demo`; it spends `SERVICE/demo`.
    pub grant: &'static str,
}

/// Everything that it takes.
pub struct Stage {
    /// The throw-away home.
    pub home: Home,
    /// The upstream.
    pub origin: Origin,
    /// What the upstream accepts.
    pub secret: String,
    /// The proxy.
    pub daemon: Daemon,
    /// Where clients run.
    pub sandbox: Sandbox,
    /// What the sandbox holds instead of the secret.
    pub token: Confidential,
}

impl Stage {
    /// Sets it below `dir`.
    pub async fn set(dir: &Path, secret: String, act: Act) -> Result<Stage, Failure> {
        let origin = Origin::start(act.names, act.play.clone()).await.map_err(Failure::outside)?;
        let home = write_home(dir, &origin, &act)?;
        install(&home, act.service, &secret).await?;
        let daemon = Daemon::start(home.clone(), DaemonOptions::default()).await.map_err(Failure::outside)?;
        let token = mint(&home).await?;
        let sandbox = sandbox(dir, &home, &act, &daemon, &token)?;
        Ok(Stage { home, origin, secret, daemon, sandbox, token })
    }

    /// Through the daemon's control socket.
    pub async fn execute(&self, command: Command) -> Result<Reply, Failure> {
        execute(&self.home, command).await
    }

    /// Stops the daemon and waits for it.
    pub async fn end(self) {
        self.daemon.stop().await;
    }
}

/// A throw-away folder that is removed with what is in it.
pub fn folder(prefix: &str) -> Result<tempfile::TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(prefix).tempdir();
    made.map_err(|error| Failure::Outside(format!("no throw-away folder: {error}")))
}

/// As long and as random as a real token.
pub fn random_secret() -> String {
    let mut bytes = [0_u8; 32];
    rand::rngs::OsRng.fill_bytes(&mut bytes);
    format!("ghs_{}", hex::encode(bytes))
}

/// A home whose upstream is the origin and nothing else.
fn write_home(dir: &Path, origin: &Origin, act: &Act) -> Result<Home, Failure> {
    let home = Home::at(&dir.join("home"));
    home.create().map_err(Failure::outside)?;
    let roots = dir.join("upstream-ca.pem");
    write(&roots, origin.ca_pem())?;
    let resolve: String = act.names.iter().map(|name| format!("\"{name}:443\" = \"{}\"\n", origin.address())).collect();
    let config = format!(
        "listen = \"127.0.0.1:0\"\n[upstream]\nca_file = \"{}\"\n[upstream.resolve]\n{resolve}",
        roots.display()
    );
    home.write("config.toml", &config).map_err(Failure::outside)?;
    home.write("grants/demo.toml", act.grant).map_err(Failure::outside)?;
    if let Some(manifest) = act.manifest {
        home.write(&format!("services/{}.toml", act.service), manifest).map_err(Failure::outside)?;
    }
    Ok(home)
}

async fn install(home: &Home, service: &str, secret: &str) -> Result<(), Failure> {
    let snapshot = crate::config::load(home)?;
    let manifest = snapshot.catalog.get(service);
    let manifest = manifest.ok_or_else(|| Failure::Outside(format!("there is no manifest `{service}`")))?;
    let add = CredentialAdd {
        name: CredentialName::parse(&format!("{service}/demo")).map_err(Failure::usage)?,
        service: manifest.name().clone(),
        provider: "static".to_owned(),
        kind: "api_key".to_owned(),
        hosts: manifest.credential_hosts().to_vec(),
        settings: "{}".to_owned(),
        secret: Confidential::from(secret.to_owned()),
        replace: false,
    };
    execute(home, Command::CredentialAdd(add)).await.map(|_| ())
}

async fn mint(home: &Home) -> Result<Confidential, Failure> {
    let mint = TokenMint {
        spec: None,
        grants: vec![GrantName::parse("demo").map_err(Failure::usage)?],
        bearer: "demo:job-1".to_owned(),
        ttl: 600,
        facts: Vec::new(),
        narrow: Vec::new(),
        checks: Vec::new(),
        label: None,
    };
    match execute(home, Command::TokenMint(mint)).await? {
        Reply::Token(made) => Ok(made.token),
        other => Err(super::token::unexpected(&other)),
    }
}

/// The daemon's control socket while it runs, this process before.
async fn execute(home: &Home, command: Command) -> Result<Reply, Failure> {
    Door::open(home).await?.execute(command).await
}

fn sandbox(dir: &Path, home: &Home, act: &Act, daemon: &Daemon, token: &Confidential) -> Result<Sandbox, Failure> {
    let address = daemon.addresses().first().copied();
    let address = address.ok_or_else(|| Failure::Outside("the daemon listens nowhere".to_owned()))?;
    let place: PathBuf = dir.join("sandbox");
    std::fs::create_dir_all(&place).map_err(Failure::outside)?;
    let ca = Ca::load_or_make(home.data_dir()).map_err(Failure::outside)?;
    let (ca_file, bundle) = (place.join("ca.pem"), place.join("bundle.pem"));
    write(&ca_file, ca.ca_pem())?;
    write(&bundle, &ca.bundle())?;
    let proxy = format!("http://kleis:{}@{address}", token.as_str());
    let snapshot = crate::config::load(home)?;
    let placeholders = snapshot.catalog.get(act.service).map(|service| environment::placeholders(service));
    let reach = Reach { proxy: &proxy, bundle: &bundle, ca: &ca_file };
    Ok(Sandbox::new(place, reach, placeholders.unwrap_or_default()))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::Outside(format!("can't write `{}`: {error}", path.display())))
}
