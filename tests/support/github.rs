//! A world with a GitHub in it: bare repositories behind the real `git http-backend`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{Options, World, clients, text};

/// What the played GitHub accepts.
pub const SECRET: &str = "GHTOKEN-7c1d9ab2e4f05836";

/// Reads of acme/*, pushes to dev/* of acme/site, pull requests there.
pub const GRANT: &str = r#"
name = "acme"
service = "github"
credential = "github/acme"
datalog = '''
reads("fetch"); reads("discover"); reads("read"); reads("download");
allow if operation($o), reads($o), repository("acme", $r);
allow if operation("push_probe"), repository("acme", "site");
allow if operation("push"), repository("acme", "site"), ref_update($ref), $ref.starts_with("refs/heads/dev/");
allow if operation("open_pr"), repository("acme", "site");
'''
"#;

/// The world, its repositories, and a sandbox's home.
pub struct GithubWorld {
    /// Everything else.
    pub world: World,
    /// `OWNER/NAME.git` below it.
    pub repositories: tempfile::TempDir,
    /// The home of the sandboxed clients.
    pub sandbox: tempfile::TempDir,
    /// A bearer's token for the grant.
    pub token: String,
}

impl GithubWorld {
    /// With `acme/site` and `acme/other` holding one commit each on `main`.
    pub async fn start() -> GithubWorld {
        GithubWorld::with(Options::default(), GRANT).await
    }

    /// The same with other options and another grant named `acme`.
    pub async fn with(mut options: Options, grant: &str) -> GithubWorld {
        let repositories = tempfile::tempdir().unwrap();
        for name in ["site", "other"] {
            seed(&repositories.path().join(format!("acme/{name}.git")));
        }
        options.play = Some(kleis::cli::demo::github::github(repositories.path().to_owned(), SECRET.to_owned()));
        options.files.push(("config/grants/acme.toml".into(), grant.into()));
        options.files.push((
            "config/credentials/github.toml".into(),
            "name = \"github/acme\"\nservice = \"github\"\nsecret_env = \"TEST_GITHUB_SECRET\"\n".into(),
        ));
        options.env.push(("TEST_GITHUB_SECRET".into(), SECRET.into()));
        let world = World::with(options).await;
        let token = world.token(&["acme"]);
        GithubWorld { world, repositories, sandbox: tempfile::tempdir().unwrap(), token }
    }

    /// Real git in the sandbox, with `dir` below its home as the working directory.
    pub fn git(&self, dir: &str, args: &[&str]) -> Output {
        self.git_command(dir, args).output().unwrap()
    }

    /// The command, for tests that add to it.
    pub fn git_command(&self, dir: &str, args: &[&str]) -> Command {
        let git = clients::find("git").expect("git is needed for everything here");
        let mut command = clients::sandboxed(&self.world, &git, &self.token, self.sandbox.path());
        command
            .current_dir(self.sandbox.path().join(dir))
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(args);
        command
    }

    /// The same; failing fails the test.
    pub fn git_ok(&self, dir: &str, args: &[&str]) -> String {
        let out = self.git(dir, args);
        assert!(out.status.success(), "git {args:?}: {}{}", text(&out.stdout), text(&out.stderr));
        text(&out.stdout) + &text(&out.stderr)
    }

    /// A clone of acme/site as `site` in the sandbox.
    pub fn clone_site(&self) {
        self.git_ok("", &["clone", "-q", "https://github.com/acme/site.git", "site"]);
    }

    /// Commits a file in the clone.
    pub fn commit(&self, file: &str, content: &[u8]) {
        std::fs::write(self.sandbox.path().join("site").join(file), content).unwrap();
        self.git_ok("site", &["add", "."]);
        self.git_ok("site", &["commit", "-q", "-m", file]);
    }

    /// What a ref of acme/site points to upstream.
    pub fn upstream_ref(&self, name: &str) -> Option<String> {
        let dir = self.repositories.path().join("acme/site.git");
        let out = Command::new("git").arg("-C").arg(dir).args(["rev-parse", "--verify", "-q", name]).output().unwrap();
        out.status.success().then(|| text(&out.stdout).trim().to_owned())
    }
}

/// A bare repository with one commit on main, taking pushes over HTTP, with push options.
fn seed(bare: &Path) {
    let run = |dir: &Path, args: &[&str]| {
        let out = Command::new("git").arg("-C").arg(dir).args(args).output().unwrap();
        assert!(out.status.success(), "git {args:?}: {}", text(&out.stderr));
    };
    std::fs::create_dir_all(bare).unwrap();
    run(bare, &["init", "-q", "--bare", "-b", "main"]);
    run(bare, &["config", "http.receivepack", "true"]);
    run(bare, &["config", "receive.advertisePushOptions", "true"]);
    run(bare, &["config", "uploadpack.allowFilter", "true"]);
    let work: PathBuf = bare.with_extension("seed");
    std::fs::create_dir_all(&work).unwrap();
    run(&work, &["init", "-q", "-b", "main"]);
    std::fs::write(work.join("README"), "a site\n").unwrap();
    run(&work, &["add", "."]);
    run(&work, &["-c", "user.name=o", "-c", "user.email=o@w", "commit", "-q", "-m", "first"]);
    run(&work, &["push", "-q", bare.to_str().unwrap(), "main"]);
    std::fs::remove_dir_all(work).unwrap();
}
