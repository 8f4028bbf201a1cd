//! `exec:` decoders: a command of the operator's turns a body into JSON (DESIGN §7; only with
//! `allow_exec`).

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::wire::{self, Bounds, Decoded, Decoder};

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// All of our environment that it gets.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"];

/// Runs the command with the body (without its `Content-Encoding`) on its standard input. What it prints is
/// read as JSON; anything but success makes the body undecodable, and so refused.
pub async fn decode(command: &str, media: &str, encoding: &str, bytes: &[u8], bounds: &Bounds) -> Decoded {
    let plain = match wire::inflate(encoding, bytes, bounds.max_decoded) {
        Ok(plain) => plain,
        Err(decoded) => return decoded,
    };
    match tokio::time::timeout(PATIENCE, run(command, media, &plain, bounds.max_decoded)).await {
        Ok(Ok(output)) => wire::decode(&Decoder::Json, "application/json", "", &output, true, bounds),
        Ok(Err(why)) => Decoded::Failed(why.to_owned()),
        Err(_) => Decoded::Failed("the decoder took too long".to_owned()),
    }
}

async fn run(command: &str, media: &str, input: &[u8], limit: usize) -> Result<Vec<u8>, &'static str> {
    let mut words = command.split_ascii_whitespace();
    let program = words.next().ok_or("the decoder names no command")?;
    let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut child = Command::new(program)
        .args(words)
        .env_clear()
        .envs(kept)
        .env("KLEIS_MEDIA_TYPE", media)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|_| "the decoder can't be started")?;
    // both at once: a command that prints before it has read everything must not lock up
    let (written, output) = tokio::join!(feed(child.stdin.take(), input), gather(child.stdout.take(), limit));
    written?;
    let output = output?;
    finish(child).await?;
    Ok(output)
}

async fn feed(stdin: Option<tokio::process::ChildStdin>, input: &[u8]) -> Result<(), &'static str> {
    let Some(mut stdin) = stdin else { return Err("the decoder takes no input") };
    match stdin.write_all(input).await {
        // one that needs only the beginning may close early
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err("the decoder takes no input"),
        _ => Ok(()),
    }
}

async fn gather(stdout: Option<tokio::process::ChildStdout>, limit: usize) -> Result<Vec<u8>, &'static str> {
    let Some(stdout) = stdout else { return Err("the decoder gives no output") };
    let mut output = Vec::new();
    let read = stdout.take(limit as u64 + 1).read_to_end(&mut output).await;
    match read {
        Ok(_) if output.len() <= limit => Ok(output),
        Ok(_) => Err("the decoder prints too much"),
        Err(_) => Err("the decoder's output can't be read"),
    }
}

async fn finish(mut child: Child) -> Result<(), &'static str> {
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        _ => Err("the decoder failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn decoded(command: &str, body: &str) -> Decoded {
        decode(command, "text/x", "", body.as_bytes(), &Bounds::default()).await
    }

    #[tokio::test]
    async fn what_the_command_prints_is_the_body() {
        assert!(matches!(decoded("cat", r#"{"a": 1}"#).await, Decoded::Ready(_)));
        // more than a pipe holds
        let long = format!("[{}1]", "1,".repeat(100));
        let spaced = format!("{long}{}", " ".repeat(300_000));
        assert!(matches!(decoded("cat", &spaced).await, Decoded::Ready(_)));
    }

    #[tokio::test]
    async fn a_command_that_fails_makes_the_body_unreadable() {
        for command in ["false", "/nowhere/to/be/found", "", "echo not json"] {
            assert!(matches!(decoded(command, "{}").await, Decoded::Failed(_)), "{command}");
        }
    }
}
