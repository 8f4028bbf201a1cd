//! The scenes of the demo, each with what it proves.

use std::path::Path;

use super::github::{NAMES, github, seed};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::sandbox::Outcome;
use crate::cli::stage::{Act, Stage, random_secret};
use crate::cli::terminal::{Style, visible};
use crate::operator::{Command, Revoke};

/// May read acme/site and push to dev/*; everything else is refused.
const GRANT: &str = r#"name = "demo"
service = "github"
credential = "github/demo"
datalog = '''
// read, and everything that git does before it pushes
allow if operation($what), ["discover", "fetch", "read", "push_probe"].contains($what), repository("acme", "site");
// push to branches below dev/, and nowhere else
allow if operation("push"), repository("acme", "site"), ref_update($ref), $ref.starts_with("refs/heads/dev/");
'''
"#;

/// Plays all scenes; the first that does not go as promised fails the demo.
pub async fn play(context: &Context, dir: &Path) -> Result<(), Failure> {
    let teller = Teller { context, scene: 0 };
    teller.say("kleis demo: a credential proxy in a minute, on loopback, nothing leaves this machine\n");
    let (stage, teller) = set(teller, dir).await?;
    let teller = scenes(teller, &stage).await?;
    let teller = proofs(teller, &stage).await?;
    stage.end().await;
    teller.say("\nThat is all: the job used real URLs with real git and curl, and never held the credential.");
    teller.say("Next: `kleis init` makes a home of your own; README.md has the quick start with a real token.");
    Ok(())
}

/// The stage, told in scenes.
async fn set<'a>(mut teller: Teller<'a>, dir: &Path) -> Result<(Stage, Teller<'a>), Failure> {
    let secret = random_secret();
    let repositories = dir.join("upstream");
    seed(&repositories, "acme", "site").await?;
    let stage = Stage::set(
        dir,
        secret.clone(),
        Act {
            names: NAMES,
            play: github(repositories, secret.clone()),
            manifest: None,
            service: "github",
            grant: GRANT,
        },
    )
    .await?;
    teller.scene("an upstream that plays GitHub, with a private repository acme/site");
    let begins = secret.get(..8).unwrap_or_default();
    teller.note(&format!("it takes one token ({begins}…, 32 random bytes) and answers 401 to anything else"));

    teller.scene("the owner installs the credential and writes a grant");
    teller.command("kleis credential add github/demo --service github --secret -");
    GRANT.lines().filter(|line| line.starts_with("allow") || line.starts_with("//")).for_each(|line| teller.note(line));

    teller.scene("a job gets a token of its own, good for 10 minutes, and an environment");
    teller.command("kleis token mint --grant demo --bearer demo:job-1 --ttl 10m");
    let holds = stage.sandbox.environment().iter().any(|(_, value)| value.contains(&secret));
    teller.prove(!holds, "its environment: proxy, CA, placeholders; the credential is in none of its variables")?;
    Ok((stage, teller))
}

/// What the job does.
async fn scenes<'a>(mut teller: Teller<'a>, stage: &Stage) -> Result<Teller<'a>, Failure> {
    let sandbox = &stage.sandbox;
    teller.scene("the job works with real git and the real URL");
    let url = "https://github.com/acme/site.git";
    teller.command(&format!("git clone {url}"));
    let cloned = sandbox.run("", "git", &["clone", "-q", url, "site"]).await?;
    teller.expect(cloned, true, "clone works")?;

    let file = ["-c", "user.name=job", "-c", "user.email=job@acme.test", "commit", "-q", "--allow-empty", "-m", "work"];
    sandbox.run("site", "git", &file).await?;
    teller.command("git push origin HEAD:dev/x");
    let pushed = sandbox.run("site", "git", &["push", "-q", "origin", "HEAD:refs/heads/dev/x"]).await?;
    teller.expect(pushed, true, "push to dev/x works")?;

    teller.command("git push origin HEAD:main");
    let refused = sandbox.run("site", "git", &["push", "-q", "origin", "HEAD:refs/heads/main"]).await?;
    let told = refused.said.contains("remote:");
    teller.quote(&refused.said);
    teller.expect(refused, false, "push to main is refused before a byte of it went up")?;
    teller.prove(told, "and git says why")?;

    teller.scene("the same credential speaks to the API, in the API's own way");
    teller.command("curl https://api.github.com/repos/acme/site");
    let read = sandbox.run("", "curl", &["-sS", "-f", "https://api.github.com/repos/acme/site"]).await?;
    teller.quote(&read.said);
    teller.expect(read, true, "git got Basic, the API gets Bearer: the manifest knows")?;
    teller.command("curl https://api.github.com/repos/acme/secret-plans");
    let other = sandbox.run("", "curl", &["-sS", "https://api.github.com/repos/acme/secret-plans"]).await?;
    let denied = other.said.contains("\"message\"");
    teller.quote(&other.said);
    teller.prove(denied, "another repository is refused, in the words of that API")?;
    Ok(teller)
}

/// What can be shown afterwards.
async fn proofs<'a>(mut teller: Teller<'a>, stage: &Stage) -> Result<Teller<'a>, Failure> {
    teller.scene("what the upstream saw");
    let seen = stage.origin.seen();
    let token = stage.token.as_str();
    let leaked = seen.iter().filter(|one| one.headers.iter().any(|(_, value)| value.contains(token))).count();
    let once = seen.iter().filter(|one| one.count("authorization") == 1).count();
    let said = format!(
        "{} requests, each with the injected credential; the job's token reached it {leaked} times",
        seen.len()
    );
    teller.prove(once == seen.len() && leaked == 0 && !seen.is_empty(), &said)?;

    teller.scene("the token is revoked");
    revoke(stage).await?;
    teller.command("kleis token revoke --bearer demo:job-1");
    let fetch = stage.sandbox.run("site", "git", &["fetch", "-q", "origin"]).await?;
    teller.quote(&fetch.said);
    teller.expect(fetch, false, "the next request is refused, at once")?;

    teller.scene("the audit");
    stage.daemon.flush().await;
    let verified = crate::audit::verify(&stage.home.data_dir().join("audit"), stage.daemon.audit_head().as_ref())
        .map_err(Failure::outside)?;
    let said = format!("{} entries, hash-chained, verified; the credential is in none of them", verified.entries);
    let clean = !holds_secret(&stage.home.data_dir().join("audit"), &stage.secret)?;
    teller.command("kleis audit verify");
    teller.prove(verified.is_whole() && verified.entries > 0 && clean, &said)?;
    Ok(teller)
}

async fn revoke(stage: &Stage) -> Result<(), Failure> {
    stage.execute(Command::Revoke { what: Revoke::Token(stage.token.clone()) }).await.map(|_| ())
}

/// Whether any file of the folder holds the secret.
fn holds_secret(dir: &Path, secret: &str) -> Result<bool, Failure> {
    let mut found = false;
    for entry in std::fs::read_dir(dir).map_err(Failure::outside)? {
        let bytes = std::fs::read(entry.map_err(Failure::outside)?.path()).map_err(Failure::outside)?;
        found |= bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
    }
    Ok(found)
}

/// Tells the story.
struct Teller<'a> {
    context: &'a Context,
    scene: usize,
}

impl Teller<'_> {
    fn say(&self, text: &str) {
        say!("{text}");
    }

    fn paint(&self, style: Style, text: &str) -> String {
        self.context.terminal().paint(style, text)
    }

    fn scene(&mut self, title: &str) {
        self.scene += 1;
        self.say(&format!("\n{}", self.paint(Style::Bold, &format!("{}. {title}", self.scene))));
    }

    fn note(&self, text: &str) {
        self.say(&self.paint(Style::Dim, &format!("   {text}")));
    }

    fn command(&self, text: &str) {
        self.say(&format!("   $ {text}"));
    }

    /// What a program said, as far as it fits on a screen.
    fn quote(&self, said: &str) {
        for line in said.lines().filter(|line| !line.trim().is_empty()).take(8) {
            self.note(&format!("  {}", visible(line)));
        }
    }

    fn expect(&self, outcome: Outcome, success: bool, promise: &str) -> Result<(), Failure> {
        if outcome.success != success {
            self.quote(&outcome.said);
        }
        self.prove(outcome.success == success, promise)
    }

    fn prove(&self, holds: bool, promise: &str) -> Result<(), Failure> {
        if holds {
            self.say(&format!("   {} {promise}", self.paint(Style::Good, "✓")));
            Ok(())
        } else {
            self.say(&format!("   {} {promise}", self.paint(Style::Bad, "✗")));
            Err(Failure::No(format!("the demo broke a promise: {promise}")))
        }
    }
}
