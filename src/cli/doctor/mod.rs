//! `kleis doctor`: tries every client found here against a proxy and an origin of our own, and says
//! what is wrong and how to mend it.
//!
//! The origin is known to work and the token is known to be good, so what fails is the client's side:
//! it goes around the proxy, it loses the proxy's credential, or it does not trust the CA. Which of
//! these it was is read off what reached the proxy and the origin, not off the client's words.

mod clients;

use std::time::Duration;

use serde_json::json;

use super::context::Context;
use super::failure::Failure;
use super::origin::answer;
use super::stage::{self, Act, Stage, random_secret};
use super::terminal::{Style, visible};
use clients::{CLIENTS, Client};

/// Longer than any client needs for one small answer from loopback.
const PATIENCE: Duration = Duration::from_secs(30);

const NAMES: &[&str] = &["doctor.kleis.test"];

const MANIFEST: &str = r#"
name = "doctor"
about = "the doctor's origin"
hosts = ["doctor.kleis.test"]
modes = ["rewrite", "connect"]
[credential]
hosts = ["doctor.kleis.test"]
[[credential.inject]]
hosts = ["doctor.kleis.test"]
kind = "header"
name = "Authorization"
template = "Bearer {{secret}}"
[[route]]
match = "GET|HEAD doctor.kleis.test /{rest*}"
emit = ['operation("read")']
"#;

const GRANT: &str = r#"
name = "demo"
service = "doctor"
credential = "doctor/demo"
datalog = '''
allow if operation("read");
'''
"#;

/// What was found of one client.
struct Finding {
    client: &'static Client,
    verdict: Verdict,
}

/// Where a client got to.
enum Verdict {
    /// The origin got its request with the injected credential.
    Works,
    /// It is not installed.
    Absent,
    /// Nothing came to the proxy: it goes around it.
    Around,
    /// It came to the proxy without its credential.
    NoCredential,
    /// It opened a tunnel and ended the TLS handshake, or sent nothing in it.
    Distrusts,
    /// It asked, was answered, and failed all the same.
    Other(String),
}

/// Runs it.
pub async fn run(context: &Context) -> Result<(), Failure> {
    let dir = stage::folder("kleis-doctor-")?;
    let secret = random_secret();
    let play = std::sync::Arc::new(|_| {
        Box::pin(async { answer(200, "text/plain", "well\n") })
            as std::pin::Pin<Box<dyn Future<Output = http::Response<super::origin::AnswerBody>> + Send>>
    });
    let act = Act { names: NAMES, play, manifest: Some(MANIFEST), service: "doctor", grant: GRANT };
    let stage = Stage::set(dir.path(), secret, act).await?;
    let mut findings = Vec::new();
    for client in CLIENTS {
        findings.push(Finding { client, verdict: examine(&stage, client).await });
    }
    stage.end().await;
    report(context, &findings)
}

/// Runs one client and looks at what came where.
async fn examine(stage: &Stage, client: &Client) -> Verdict {
    let Some(command) = client.command() else { return Verdict::Absent };
    let (asked, decided) = (stage.origin.seen().len(), stage.daemon.counts());
    let arguments: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
    let running = stage.sandbox.run("", &command.program, &arguments);
    let outcome = match tokio::time::timeout(PATIENCE, running).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(failure)) => return Verdict::Other(failure.to_string()),
        Err(_) => return Verdict::Other(format!("no end within {} seconds", PATIENCE.as_secs())),
    };
    let injected = format!("Bearer {}", stage.secret);
    let seen = stage.origin.seen();
    let arrived = seen.iter().skip(asked).any(|one| one.header("authorization") == Some(&injected));
    let now = stage.daemon.counts();
    if arrived && (outcome.success || client.may_fail) {
        Verdict::Works
    } else if now.connections == decided.connections {
        Verdict::Around
    } else if now.tunnels == decided.tunnels && now.requests == decided.requests {
        Verdict::NoCredential
    } else if now.requests == decided.requests {
        Verdict::Distrusts
    } else {
        let said = outcome.said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        Verdict::Other(visible(said))
    }
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Verdict::Works => "works",
            Verdict::Absent => "absent",
            Verdict::Around => "goes around the proxy",
            Verdict::NoCredential => "loses the proxy credential",
            Verdict::Distrusts => "does not trust the CA",
            Verdict::Other(_) => "fails",
        }
    }
}

impl Finding {
    fn mend(&self) -> Option<String> {
        match &self.verdict {
            Verdict::Works | Verdict::Absent => None,
            Verdict::Around => Some(self.client.around.to_owned()),
            Verdict::NoCredential => Some(self.client.credential.to_owned()),
            Verdict::Distrusts => Some(self.client.trust.to_owned()),
            Verdict::Other(said) => Some(format!("it said: {said}")),
        }
    }
}

fn report(context: &Context, findings: &[Finding]) -> Result<(), Failure> {
    let failed = findings.iter().filter(|one| one.mend().is_some()).count();
    context.print(
        || {
            let terminal = context.terminal();
            let mut lines = Vec::new();
            for one in findings.iter().filter(|one| !matches!(one.verdict, Verdict::Absent)) {
                let (mark, style) = if one.mend().is_none() { ("✓", Style::Good) } else { ("✗", Style::Bad) };
                lines.push(format!("{} {:<18} {}", terminal.paint(style, mark), one.client.name, one.verdict.word()));
                lines.extend(one.mend().map(|mend| terminal.paint(Style::Dim, &format!("    {mend}"))));
            }
            let absent: Vec<&str> = findings
                .iter()
                .filter(|one| matches!(one.verdict, Verdict::Absent))
                .map(|one| one.client.name)
                .collect();
            if !absent.is_empty() {
                lines.push(terminal.paint(Style::Dim, &format!("not installed here: {}", absent.join(", "))));
            }
            lines.join("\n")
        },
        || {
            let one =
                |one: &Finding| json!({"client": one.client.name, "verdict": one.verdict.word(), "mend": one.mend()});
            json!({"clients": findings.iter().map(one).collect::<Vec<_>>()})
        },
    );
    if failed == 0 { Ok(()) } else { Err(Failure::No(String::new())) }
}
