//! The `exec` provider: a command prints the secret (R148).

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use zeroize::Zeroizing;

use super::live::Failure;
use super::provider::{Obtained, ProviderError, Surroundings, settings};
use crate::words::{Secret, Timestamp, format_duration, parse_duration};

/// What a command may print.
const OUTPUT_LIMIT: usize = 128 * 1024;
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// All that a command is given of kleisd's environment: what finds programs and files of the user, and no
/// credential.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// A command and how long what it prints is good for.
pub(super) struct Exec {
    command: String,
    args: Vec<String>,
    /// `None`: as the output says, or [`DEFAULT_LIFETIME`] if it says nothing.
    lifetime: Option<Duration>,
    timeout: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    lifetime: Option<String>,
    timeout: Option<String>,
}

impl Exec {
    pub(super) fn parse(value: &Value) -> Result<Exec, String> {
        let given: Settings = settings("exec", value)?;
        if given.command.is_empty() {
            return Err("settings of provider `exec`: `command` is empty: name a program".to_owned());
        }
        let read = |key: &str, text: Option<String>| match text {
            None => Ok(None),
            Some(text) => match parse_duration(&text) {
                Ok(duration) if duration >= Duration::from_secs(1) => Ok(Some(duration)),
                _ => {
                    Err(format!("settings of provider `exec`: {key} `{text}` is not a duration such as `30s` or `1h`"))
                }
            },
        };
        Ok(Exec {
            lifetime: read("lifetime", given.lifetime)?,
            timeout: read("timeout", given.timeout)?.unwrap_or(DEFAULT_TIMEOUT),
            command: given.command,
            args: given.args,
        })
    }

    pub(super) async fn obtain(
        &self,
        around: &Surroundings,
        material: Option<&Secret>,
    ) -> Result<Obtained, ProviderError> {
        let output = self.run(material).await?;
        let now = around.clock.now();
        let (secret, expires) = understand(&output, now).map_err(|why| self.failure(why))?;
        if expires.is_some_and(|at| at <= now) {
            return Err(self.failure("printed a secret that has expired already").into());
        }
        let lifetime = |given: Duration| now.saturating_add(given.as_secs());
        // Replaced a little before its end, so that no request leaves with one that expires on its way.
        let before_end = expires.map(|at| at - ((at - now) / 10).min(300));
        let refresh_at = match (self.lifetime, before_end) {
            (Some(given), Some(end)) => lifetime(given).min(end),
            (Some(given), None) => lifetime(given),
            (None, Some(end)) => end,
            (None, None) => lifetime(DEFAULT_LIFETIME),
        };
        Ok(Obtained { secret, refresh_at, expires_at: expires.unwrap_or(refresh_at), minted: None })
    }

    async fn run(&self, material: Option<&Secret>) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .env_clear()
            .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| self.failure(format!("cannot be started: {error}")))?;
        let mut group = Group::of(child);
        match tokio::time::timeout(self.timeout, converse(&mut group, material)).await {
            Err(_) => Err(self.failure(format!("did not end within {}", format_duration(self.timeout)))),
            Ok(Err(error)) => Err(self.failure(format!("cannot be read: {error}"))),
            Ok(Ok(spoken)) => self.judge(spoken),
        }
    }

    fn judge(&self, spoken: Spoken) -> Result<Zeroizing<Vec<u8>>, Failure> {
        if spoken.stdout.len() > OUTPUT_LIMIT {
            return Err(self.failure(format!("printed more than {OUTPUT_LIMIT} bytes")));
        }
        if !spoken.status.success() {
            // Its words are not repeated anywhere: programs print secrets when they fail.
            let why = format!(
                "ended with {}; {} bytes on its standard error are not shown: run it by hand to see them",
                spoken.status, spoken.stderr
            );
            return Err(self.failure(why));
        }
        Ok(spoken.stdout)
    }

    fn failure(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Provider(format!("command `{}` {why}", self.command))
    }
}

/// A child that leads a process group; the whole group is killed when this is dropped.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn of(child: Child) -> Group {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Group { child, id }
    }

    fn kill(&mut self) {
        if let Some(id) = self.id.take() {
            // Nobody left in the group is fine.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Spoken {
    status: std::process::ExitStatus,
    stdout: Zeroizing<Vec<u8>>,
    stderr: usize,
}

/// Writes and reads at once: a program that fills one pipe while we wait at another would stand still.
async fn converse(group: &mut Group, material: Option<&Secret>) -> std::io::Result<Spoken> {
    let (stdin, stdout, stderr) = (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take());
    let write = async {
        if let (Some(mut stdin), Some(material)) = (stdin, material) {
            // A program that doesn't read its input closes the pipe: that is its right.
            let _ = stdin.write_all(material.expose()).await;
        }
    };
    let ended = async {
        let status = group.child.wait().await;
        // What it left running holds the pipes open, and would be nobody's child.
        group.kill();
        status
    };
    let (status, stdout, stderr, ()) = tokio::join!(ended, keep(stdout), count(stderr), write);
    Ok(Spoken { status: status?, stdout: stdout?, stderr: stderr? })
}

/// Reads to the end and keeps at most one byte more than is allowed.
async fn keep(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut kept = Zeroizing::new(Vec::with_capacity(OUTPUT_LIMIT + 1));
    if let Some(mut pipe) = pipe {
        Box::pin((&mut pipe).take(OUTPUT_LIMIT as u64 + 1).read_to_end(&mut kept)).await?;
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(kept)
}

async fn count(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<usize> {
    match pipe {
        Some(mut pipe) => Ok(tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await? as usize),
        None => Ok(0),
    }
}

/// The secret, and when it ends if the command says so. Either plain text, or a JSON object with `secret`,
/// `token` or `access_token` (a Kubernetes `ExecCredential` has it in `status`).
fn understand(output: &[u8], now: Timestamp) -> Result<(Secret, Option<Timestamp>), String> {
    let object = match serde_json::from_slice::<Value>(output) {
        Ok(Value::Object(object)) => object,
        _ => return Ok((Secret::new(output), None)),
    };
    let fields = match object.get("status") {
        Some(Value::Object(status)) => status,
        _ => &object,
    };
    let secret = ["secret", "token", "access_token"].iter().find_map(|key| fields.get(*key));
    let Some(Value::String(secret)) = secret else {
        return Err("printed JSON without a `secret`, `token` or `access_token` that is a string".to_owned());
    };
    Ok((Secret::new(secret.as_str()), expiry(fields, now)?))
}

fn expiry(fields: &serde_json::Map<String, Value>, now: Timestamp) -> Result<Option<Timestamp>, String> {
    let wrong = |key: &str| format!("printed JSON whose `{key}` is no time: use seconds, or RFC 3339 for a date");
    if let Some(value) = fields.get("expires_in") {
        let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok()).ok_or_else(|| wrong("expires_in"))?;
        return Ok(Some(now.saturating_add(seconds)));
    }
    for key in ["expires_at", "expires", "expiration", "expirationTimestamp"] {
        let at = match fields.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => parse_date(text),
            Some(value) => value.as_u64(),
        };
        return at.map(Some).ok_or_else(|| wrong(key));
    }
    Ok(None)
}

/// An RFC 3339 date as seconds.
pub(super) fn parse_date(text: &str) -> Option<Timestamp> {
    let date = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
    Timestamp::try_from(date.unix_timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use serde_json::json;

    use super::super::clock::Clock;
    use super::super::exchange::nobody;
    use super::*;

    fn around() -> Surroundings {
        Surroundings { exchange: Arc::new(nobody()), clock: Clock::new(|| 1_000_000) }
    }

    fn shell(script: &str) -> Exec {
        Exec::parse(&json!({"command": "sh", "args": ["-c", script], "timeout": "5s"})).unwrap()
    }

    async fn obtain(script: &str) -> Result<Obtained, String> {
        let got = shell(script).obtain(&around(), Some(&Secret::new("GOOD"))).await;
        got.map_err(|error| error.failure.to_string())
    }

    #[tokio::test]
    async fn r148_the_material_comes_on_standard_input_and_the_secret_on_standard_output() {
        let got = obtain("read -r x; printf '%s-minted\\n' \"$x\"").await.unwrap();
        assert_eq!(got.secret, Secret::new("GOOD-minted\n"));
        assert_eq!((got.refresh_at, got.expires_at), (1_000_300, 1_000_300));
        assert!(obtain("printf tok").await.is_ok(), "a command that doesn't read its input");
    }

    #[tokio::test]
    async fn r148_a_command_that_hangs_is_killed_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 3600 & echo $! > {}; sleep 3600", pid.display());
        let mut exec = shell(&script);
        exec.timeout = Duration::from_millis(500);
        let started = Instant::now();
        let error = exec.obtain(&around(), None).await.err().unwrap().failure.to_string();
        assert!(error.contains("within 500ms"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(60));
        wait_for_death(&pid);
    }

    #[tokio::test]
    async fn r148_what_a_command_leaves_running_is_killed_when_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 3600 & echo $! > {}; printf tok", pid.display());
        assert_eq!(obtain(&script).await.unwrap().secret, Secret::new("tok"));
        wait_for_death(&pid);
    }

    fn wait_for_death(pid_file: &std::path::Path) {
        let pid = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        while !state().is_empty() && !state().contains(") Z ") {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn r148_both_pipes_are_drained_and_bounded() {
        let noisy = "head -c 1048576 /dev/zero | tr '\\0' e >&2; printf tok";
        assert_eq!(obtain(noisy).await.unwrap().secret, Secret::new("tok"));
        let endless = obtain("head -c 10485760 /dev/zero | tr '\\0' o").await.err().unwrap();
        assert!(endless.contains("more than 131072 bytes"), "{endless}");
    }

    #[tokio::test]
    async fn r148_what_a_failing_command_says_is_repeated_nowhere() {
        let error = obtain("echo GOOD-on-stderr >&2; echo GOOD-on-stdout; exit 1").await.err().unwrap();
        assert!(error.contains("exit status: 1") && error.contains("15 bytes"), "{error}");
        assert!(!error.contains("GOOD"));
        let absent = Exec::parse(&json!({"command": "/nowhere/at-all"})).unwrap();
        let error = absent.obtain(&around(), None).await.err().unwrap().failure.to_string();
        assert!(error.contains("cannot be started"), "{error}");
    }

    #[tokio::test]
    async fn r148_json_may_say_when_the_secret_ends() {
        let json = r#"printf '{"token": "tok", "expires_in": 100}'"#;
        let got = obtain(json).await.unwrap();
        assert_eq!((got.secret, got.refresh_at, got.expires_at), (Secret::new("tok"), 1_000_090, 1_000_100));
        let kubernetes = r#"printf '{"kind":"ExecCredential","status":{"token":"tok","expirationTimestamp":"1970-01-12T14:00:00Z"}}'"#;
        assert_eq!(obtain(kubernetes).await.unwrap().expires_at, 1_000_800);
        for wrong in [
            r#"{"token": 5}"#,
            r#"{"other": "x"}"#,
            r#"{"token": "GOOD", "expires_at": "soon"}"#,
            r#"{"token": "GOOD", "expires_at": 5}"#,
        ] {
            let error = obtain(&format!("printf '%s' '{wrong}'")).await.err().unwrap();
            assert!(!error.contains("GOOD"), "{error}");
        }
    }

    #[tokio::test]
    async fn r148_the_environment_is_minimal() {
        let got = obtain("env | cut -d= -f1 | sort | tr '\\n' ,").await.unwrap();
        let names = got.secret.expose_str().unwrap().to_owned();
        for name in names.split(',').filter(|name| !name.is_empty() && !["PWD", "SHLVL", "_", "OLDPWD"].contains(name))
        {
            assert!(ENVIRONMENT.contains(&name), "{name}");
        }
    }

    #[test]
    fn wrong_settings_say_what_would_be_right() {
        for (given, says) in [
            (json!({}), "command"),
            (json!({"command": ""}), "name a program"),
            (json!({"command": "x", "lifetime": "0s"}), "lifetime `0s`"),
            (json!({"command": "x", "timeout": 5}), "exec"),
            (json!({"command": "x", "cmd": "y"}), "cmd"),
        ] {
            let error = Exec::parse(&given).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
