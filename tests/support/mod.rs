//! A small world for tests: origins that play `*.test`, a home, a real kleisd, real clients.
//!
//! The names are those of the reported cases: `api.good.test` has the credential GOOD,
//! `api.other.test` has OTHER, `plain.good.test` and `internal.good.test` are plain, `store.test` is signed
//! storage, `evil.test` has no credential. Everything listens on 127.0.0.1.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

pub mod clients;
pub mod github;
pub mod play;
pub mod raw;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use kleis::cli::origin::{Origin, Play, answer};

/// What api.good.test takes. Random enough that a search for it finds only itself.
pub const GOOD: &str = "GOOD-9f1c2e7ab35d4f60a8c1";
/// What api.other.test takes.
pub const OTHER: &str = "OTHER-4d7e90b1c2f84a35be66";
/// What the agent holds in place of a credential.
pub const DUMMY: &str = "DUMMY-placeholder-0001";

/// Names that the origin plays.
pub const NAMES: &[&str] = &[
    "api.good.test",
    "api.other.test",
    "plain.good.test",
    "internal.good.test",
    "store.test",
    "evil.test",
    "github.com",
    "api.github.com",
    "uploads.github.com",
    "codeload.github.com",
    "raw.githubusercontent.com",
];

/// Services for the names above, beside the shipped ones.
const SERVICES: &[(&str, &str)] = &[
    (
        "good",
        r#"
name = "good"
about = "the test's API"
hosts = ["api.good.test"]
modes = ["rewrite", "connect"]
[credential]
hosts = ["api.good.test"]
strip = ["cookie", "x-api-key"]
[[credential.inject]]
hosts = ["api.good.test"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"
[[decoder]]
media = ["application/json"]
decoder = "json"
match = "POST api.good.test /json/{rest*}"
[[route]]
match = "GET|HEAD|OPTIONS api.good.test /{rest*}"
emit = ['operation("read")']
[[route]]
match = "POST|PUT|PATCH|DELETE api.good.test /{rest*}"
emit = ['operation("write")']
[verbs.read]
about = "read"
operations = ["read"]
[verbs.write]
about = "write"
operations = ["write"]
"#,
    ),
    (
        "other",
        r#"
name = "other"
about = "another API"
hosts = ["api.other.test"]
modes = ["rewrite", "connect"]
[credential]
hosts = ["api.other.test"]
[[credential.inject]]
hosts = ["api.other.test"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"
[[route]]
match = "GET api.other.test /{rest*}"
emit = ['operation("read")']
"#,
    ),
    (
        "internal",
        r#"
name = "internal"
about = "claimed, no credential, read only; also in clear text"
hosts = ["internal.good.test", "internal.good.test:80", "plain.good.test:80", "plain.good.test"]
modes = ["rewrite", "connect"]
[[route]]
match = "GET|HEAD internal.good.test /{rest*}"
emit = ['operation("read")']
[[route]]
match = "POST internal.good.test /{rest*}"
emit = ['operation("write")']
[[route]]
match = "GET plain.good.test /{rest*}"
emit = ['operation("read")']
"#,
    ),
];

/// Grants that go with them.
const GRANTS: &[(&str, &str)] = &[
    (
        "good",
        r#"
name = "good"
service = "good"
credential = "good/main"
datalog = '''
allow if grant("good"), operation("read");
allow if grant("good"), operation("write");
'''
"#,
    ),
    (
        "good-read",
        r#"
name = "good-read"
service = "good"
credential = "good/main"
datalog = '''
allow if grant("good-read"), operation("read");
'''
"#,
    ),
    (
        "other",
        r#"
name = "other"
service = "other"
credential = "other/main"
datalog = '''
allow if grant("other"), operation("read");
'''
"#,
    ),
    (
        "internal",
        r#"
name = "internal"
service = "internal"
anonymous = true
datalog = '''
allow if grant("internal"), operation("read");
'''
"#,
    ),
];

/// How a world differs from the usual one.
#[derive(Default)]
pub struct Options {
    /// More lines of config.toml: top-level keys first, then tables.
    pub config: String,
    /// Tables behind `[upstream]`'s usual keys.
    pub tables: String,
    /// More files below config/: path and text.
    pub files: Vec<(String, String)>,
    /// What plays the origin; a plain 200 with JSON otherwise.
    pub play: Option<Arc<Play>>,
    /// Environment of the daemon.
    pub env: Vec<(String, String)>,
}

/// A home, an origin and a running kleisd.
pub struct World {
    /// The home: `config/` and `data/`.
    pub home: tempfile::TempDir,
    /// The TLS origin for all [`NAMES`] on port 443.
    pub origin: Origin,
    /// The clear-text origin for `plain.good.test:80` and `internal.good.test:80`.
    pub plain: raw::Recorder,
    /// kleisd's address.
    pub proxy: SocketAddr,
    daemon: Child,
    log: Arc<Mutex<String>>,
}

impl World {
    /// The usual world.
    pub async fn start() -> World {
        World::with(Options::default()).await
    }

    /// A world with differences.
    pub async fn with(options: Options) -> World {
        let play = options.play.clone().unwrap_or_else(|| {
            Arc::new(|request| {
                Box::pin(async move {
                    drop(request);
                    answer(200, "application/json", r#"{"ok":true}"#)
                })
            })
        });
        let origin = Origin::start(NAMES, play).await.unwrap();
        let plain = raw::Recorder::start("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain").await;
        let home = tempfile::tempdir().unwrap();
        let proxy = free_address();
        write_home(home.path(), proxy, &origin, &plain, &options);
        let (daemon, log) = spawn(home.path(), &options.env);
        World { home, origin, plain, proxy, daemon, log }
    }

    /// Runs `kleis ARGS` on this home.
    pub fn kleis(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_kleis"))
            .args(args)
            .env("KLEIS_HOME", self.home.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs `kleis ARGS` and gives its standard output; anything but success is a failed test.
    pub fn kleis_ok(&self, args: &[&str]) -> String {
        let out = self.kleis(args);
        assert!(out.status.success(), "kleis {args:?}: {}{}", text(&out.stdout), text(&out.stderr));
        text(&out.stdout)
    }

    /// A bearer's token for these grants, good for an hour.
    pub fn token(&self, grants: &[&str]) -> String {
        let mut args = vec!["token", "mint", "--bearer", "test:1", "--ttl", "1h"];
        for grant in grants {
            args.extend(["--grant", grant]);
        }
        self.kleis_ok(&args).trim().to_owned()
    }

    /// `http://kleis:TOKEN@127.0.0.1:PORT`
    pub fn proxy_url(&self, token: &str) -> String {
        format!("http://kleis:{token}@{}", self.proxy)
    }

    /// kleisd's CA file.
    pub fn ca_file(&self) -> PathBuf {
        self.home.path().join("data/ca.pem")
    }

    /// All audit lines so far, parsed.
    pub fn audit(&self) -> Vec<serde_json::Value> {
        let mut files: Vec<_> = std::fs::read_dir(self.home.path().join("data/audit"))
            .map(|dir| dir.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect())
            .unwrap_or_default();
        files.sort();
        let all: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The reason of the last decision in the audit.
    pub fn last_reason(&self) -> Option<String> {
        let mut decisions = self.audit().into_iter().filter(|line| line["kind"] == "decision");
        decisions.next_back().and_then(|line| line["reason"].as_str().map(str::to_owned))
    }

    /// What the daemon has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Sends the daemon a signal: `TERM`, `HUP`, `KILL`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Starts the daemon again, on the same home.
    pub fn restart(&mut self) {
        (self.daemon, self.log) = spawn(self.home.path(), &[]);
    }

    /// Waits for the daemon's end.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.daemon.wait().unwrap()
    }

    /// The daemon's process id.
    pub fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Fails if a secret stands anywhere where none may: log, audit, or at a host that is not its own.
    pub fn assert_silent(&self) {
        let audit: String = self.audit().iter().map(ToString::to_string).collect();
        for secret in [GOOD, OTHER] {
            use base64::Engine;
            let coded = base64::engine::general_purpose::STANDARD.encode(secret);
            for shown in [secret, &secret[..10], coded.trim_end_matches('=')] {
                assert!(!self.log().contains(shown), "a secret in the log");
                assert!(!audit.contains(shown), "a secret in the audit");
            }
        }
        for seen in self.origin.seen() {
            let all = format!("{:?} {}", seen.headers, seen.target);
            assert!(!all.contains(GOOD) || seen.authority.starts_with("api.good.test"), "GOOD at {}", seen.authority);
            assert!(
                !all.contains(OTHER) || seen.authority.starts_with("api.other.test"),
                "OTHER at {}",
                seen.authority
            );
        }
        assert!(!self.plain.text().contains(GOOD), "GOOD in clear text");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        if std::thread::panicking() {
            eprintln!("--- kleisd's log\n{}---", self.log());
        }
    }
}

/// Text of an output stream.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A loopback address that nobody listens on. Another process could take it in between; none here does.
pub fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn write_home(home: &Path, proxy: SocketAddr, origin: &Origin, plain: &raw::Recorder, options: &Options) {
    write(home, "origin-ca.pem", origin.ca_pem());
    let mut resolve = String::new();
    for name in NAMES {
        resolve.push_str(&format!("\"{name}:443\" = \"{}\"\n", origin.address()));
    }
    for name in ["plain.good.test", "internal.good.test", "evil.test", "api.good.test"] {
        resolve.push_str(&format!("\"{name}:80\" = \"{}\"\n", plain.address()));
    }
    let config = format!(
        "{}\n[[listen]]\naddress = \"{proxy}\"\nrole = \"proxy\"\n{}\n[upstream]\nca_file = \"{}\"\n[upstream.resolve]\n{resolve}",
        options.config,
        options.tables,
        home.join("origin-ca.pem").display(),
    );
    write(home, "config/config.toml", &config);
    for (name, text) in SERVICES {
        write(home, &format!("config/services/{name}.toml"), text);
    }
    for (name, text) in GRANTS {
        write(home, &format!("config/grants/{name}.toml"), text);
    }
    for (name, service, secret) in [("good/main", "good", GOOD), ("other/main", "other", OTHER)] {
        let file = home.join(format!("secret-{service}"));
        write(home, &format!("secret-{service}"), secret);
        let declared = format!("name = \"{name}\"\nservice = \"{service}\"\nsecret_file = \"{}\"\n", file.display());
        write(home, &format!("config/credentials/{service}.toml"), &declared);
    }
    for (path, text) in &options.files {
        write(home, path, text);
    }
}

/// Writes a file for its owner alone, making the folders on the way.
pub fn write(home: &Path, path: &str, content: &str) {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    let path = home.join(path);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
}

/// Starts kleisd and waits for the line that says it serves.
fn spawn(home: &Path, env: &[(String, String)]) -> (Child, Arc<Mutex<String>>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kleisd"))
        .arg("--home")
        .arg(home)
        .envs(env.iter().map(|(k, v)| (k, v)))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = Arc::new(Mutex::new(String::new()));
    let (ready, wait) = std::sync::mpsc::channel();
    for stream in [
        Box::new(child.stdout.take().unwrap()) as Box<dyn std::io::Read + Send>,
        Box::new(child.stderr.take().unwrap()),
    ] {
        let (log, ready) = (log.clone(), ready.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let serves = line.contains("kleisd serves");
                log.lock().unwrap().push_str(&format!("{line}\n"));
                if serves {
                    let _ = ready.send(());
                }
            }
        });
    }
    drop(ready);
    if wait.recv_timeout(std::time::Duration::from_secs(60)).is_err() {
        let _ = child.kill();
        panic!("kleisd does not start:\n{}", log.lock().unwrap());
    }
    (child, log)
}
