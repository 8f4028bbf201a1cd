//! The command line on a home of its own, with no daemon.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

use std::process::{Command, Stdio};

fn kleis(home: &std::path::Path, args: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_kleis"))
        .args(args)
        .env("KLEIS_HOME", home)
        .env("NO_COLOR", "1")
        .env("TEST_SECRET", "ghp_not-a-real-one")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

#[test]
fn what_one_command_writes_does_not_keep_the_next_from_starting() {
    let home = tempfile::tempdir().unwrap();
    for args in [
        &["init"][..],
        &["credential", "add", "github/me", "--secret", "env:TEST_SECRET"],
        &["setup"],
        &["credential", "list"],
        &["credential", "show", "github/me", "--json"],
        &["audit", "verify"],
    ] {
        let (success, said) = kleis(home.path(), args);
        assert!(success, "{args:?}: {said}");
        assert!(!said.contains("ghp_not-a-real-one"), "{args:?} shows the secret");
    }
}

#[test]
fn a_secret_as_an_argument_is_refused_and_not_repeated() {
    let home = tempfile::tempdir().unwrap();
    let (success, said) = kleis(home.path(), &["credential", "add", "github/me", "--secret", "ghp_not-a-real-one"]);
    assert!(!success && said.contains("never an argument") && !said.contains("ghp_not"), "{said}");
}
