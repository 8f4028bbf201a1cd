//! What is measured: kleisd in a home of its own, and the bare MITM, each a process.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kleis::audit::AuditOptions;
use kleis::operator::{Command as Order, Confidential, CredentialAdd, Operator, Reply, TokenMint};
use kleis::words::{CredentialName, GrantName, HostPattern, ServiceName};

use crate::bare::Fault;
use crate::origin::HOST;

const SECRET: &str = "bench-real-0123456789abcdef0123456789abcdef";

/// A running proxy.
pub struct Contender {
    pub name: &'static str,
    pub address: SocketAddr,
    /// `user:password`.
    pub login: String,
    /// What its clients trust.
    pub ca: PathBuf,
    child: Child,
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Contender {
    /// The bare MITM; `guarded` relays as kleisd does.
    pub fn bare(dir: &Path, origin: SocketAddr, origin_ca: &Path, guarded: bool) -> Result<Contender, Fault> {
        let address = free()?;
        let name = if guarded { "bare, guarded" } else { "bare" };
        let data = dir.join(name);
        std::fs::create_dir_all(&data)?;
        let mut command = pinned(&std::env::current_exe()?);
        command.arg("bare").arg(address.to_string()).arg(&data).arg(origin_ca).arg(format!("Bearer {SECRET}"));
        command.env("BARE_RESOLVE", format!("{HOST}:443={origin}"));
        if guarded {
            command.arg("guarded");
        }
        start(name, address, "bench:secret".into(), data.join("ca.pem"), command)
    }

    /// kleisd with a full policy: a grant as orchestrators write them, a token with a task's facts, the audit on.
    pub async fn kleisd(dir: &Path, origin: SocketAddr, origin_ca: &Path) -> Result<Contender, Fault> {
        let address = free()?;
        let home = dir.join("home");
        let config = home.join("config");
        for folder in ["services", "grants"] {
            std::fs::create_dir_all(config.join(folder))?;
        }
        let settings = format!(
            "listen = \"{address}\"\n[upstream]\nca_file = \"{}\"\n[upstream.resolve]\n\"{HOST}:443\" = \"{origin}\"\n",
            origin_ca.display()
        );
        std::fs::write(config.join("config.toml"), settings)?;
        std::fs::write(config.join("services/bench.toml"), include_str!("bench-service.toml"))?;
        std::fs::write(config.join("grants/bench.toml"), include_str!("bench-grant.toml"))?;
        let token = prepare(&home.join("data"), "bench", &[HOST]).await?;
        let mut command = pinned(Path::new(env!("CARGO_BIN_EXE_kleisd")));
        command.arg("--home").arg(&home).arg("--log").arg("warn");
        start("kleisd", address, format!("kleis:{token}"), home.join("data/ca.pem"), command)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// Installs the credential and makes the token, as `kleis credential add` and `kleis token mint` do.
async fn prepare(data: &Path, service: &str, hosts: &[&str]) -> Result<String, Fault> {
    let operator = Operator::open(data, AuditOptions::default()).await?;
    let add = CredentialAdd {
        name: CredentialName::parse(&format!("{service}/main"))?,
        service: ServiceName::parse(service)?,
        provider: "static".into(),
        kind: "api_key".into(),
        hosts: hosts.iter().map(|host| HostPattern::parse(host)).collect::<Result<_, _>>()?,
        settings: "{}".into(),
        secret: Confidential::from(SECRET.to_owned()),
        replace: false,
    };
    operator.execute("bench", Order::CredentialAdd(add)).await?;
    let facts =
        ["task_id(\"42\")", "task_fork(\"bot\", \"site\")", "task_upstream(\"acme\", \"site\")", "task_issue(7)"];
    let mint = TokenMint {
        spec: None,
        grants: vec![GrantName::parse("bench")?],
        bearer: "bench:42".into(),
        ttl: 86_400,
        facts: facts.map(str::to_owned).into(),
        narrow: Vec::new(),
        checks: Vec::new(),
        label: None,
    };
    let Reply::Token(made) = operator.execute("bench", Order::TokenMint(mint)).await? else {
        return Err("no token".into());
    };
    operator.close().await?;
    Ok(made.token.as_str().to_owned())
}

/// A home and a table for a bench of other proxies: kleisd as the service `github`, for `api.github.com` and
/// `*.test`. `{…}` is filled in by that bench.
pub async fn beside_peers(dir: &Path) -> Result<(), Fault> {
    let config = dir.join("home/config");
    for folder in ["services", "grants"] {
        std::fs::create_dir_all(config.join(folder))?;
    }
    let as_github = |text: &str| text.replace("\"bench\"", "\"github\"").replace("bench/main", "github/main");
    let service = as_github(include_str!("bench-service.toml"));
    let service =
        service.replace("[\"api.bench.test\"]", "[\"api.github.com\", \"*.test\"]").replace("api.bench.test ", "* ");
    std::fs::write(config.join("services/github.toml"), service)?;
    let grant = as_github(include_str!("bench-grant.toml")).replace("name = \"github\"", "name = \"bench\"");
    std::fs::write(config.join("grants/bench.toml"), grant.replace("grant(\"github\")", "grant(\"bench\")"))?;
    let settings = "listen = \"{listen}\"\n[upstream]\nca_file = \"{origin_ca}\"\nallow_private = [\"127.0.0.0/8\"]\n";
    std::fs::write(dir.join("config.toml.in"), settings)?;
    let token = prepare(&dir.join("home/data"), "github", &["api.github.com", "*.test"]).await?;
    let (dir, kleisd) = (dir.display(), env!("CARGO_BIN_EXE_kleisd"));
    let table = format!(
        "[kleisd]\nkind = \"mitm\"\nh2 = true\ntrust = \"{{work}}/home/data/ca.pem\"\nproxy_auth = \"kleis:{token}\"\n\
         files = {{ \"{{work}}/config.toml\" = \"{dir}/config.toml.in\" }}\n\
         prepare = [[\"cp\", \"-r\", \"{dir}/home\", \"{{work}}/home\"], \
         [\"cp\", \"{{work}}/config.toml\", \"{{work}}/home/config/config.toml\"]]\n\
         cmd = [\"{kleisd}\", \"--home\", \"{{work}}/home\", \"--log\", \"warn\"]\n"
    );
    std::fs::write(Path::new(&dir.to_string()).join("kleisd.toml"), table)?;
    Ok(())
}

fn free() -> Result<SocketAddr, Fault> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// On the second core, where there is one: origin and load have the first.
fn pinned(program: &Path) -> Command {
    let two = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
    if two && Path::new("/usr/bin/taskset").exists() {
        let mut command = Command::new("/usr/bin/taskset");
        command.args(["-c", "1"]).arg(program);
        return command;
    }
    Command::new(program)
}

fn start(
    name: &'static str,
    address: SocketAddr,
    login: String,
    ca: PathBuf,
    mut command: Command,
) -> Result<Contender, Fault> {
    let child = command.stdin(Stdio::null()).spawn()?;
    let contender = Contender { name, address, login, ca, child };
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        if begun.elapsed() > Duration::from_secs(20) {
            return Err(format!("{name} does not listen").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(contender)
}
