//! What the vault promises, with a provider that is a command.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::super::exchange::nobody;
use super::super::live::Source;
use super::super::seal::Label;
use super::*;
use crate::store::CredentialState;
use crate::words::{Reason, Secret};

fn vault() -> Vault {
    Vault::new(Seal::from_key([7; 32]), Arc::new(nobody()))
}

fn name(text: &str) -> CredentialName {
    CredentialName::parse(text).unwrap()
}

fn record(called: &str, secret: &str, generation: u64) -> CredentialRecord {
    let mut record = CredentialRecord {
        name: name(called),
        service: ServiceName::parse("good").unwrap(),
        provider: "static".to_owned(),
        kind: "api_key".to_owned(),
        hosts: vec![HostPattern::parse("api.good.test").unwrap()],
        settings: "{}".to_owned(),
        generation,
        seal_key_id: String::new(),
        sealed: Vec::new(),
        source: None,
        state: CredentialState::Ready,
        created: 0,
        updated: 0,
    };
    let sealed = Seal::from_key([7; 32]).seal(&Label::from(&record), &Secret::new(secret)).unwrap();
    (record.seal_key_id, record.sealed) = (sealed.key_id.to_string(), sealed.blob);
    record
}

fn declared(called: &str, provider: &str, settings: serde_json::Value, source: Source) -> Declared {
    Declared {
        name: name(called),
        service: ServiceName::parse("good").unwrap(),
        provider: provider.to_owned(),
        kind: "api_key".into(),
        hosts: None,
        settings,
        source,
    }
}

async fn secret(vault: &Vault, called: &str) -> Result<String, CredentialError> {
    let live = vault.obtain(&name(called), &Narrowing::default()).await?;
    Ok(live.secret.expose_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_installed_secret_is_given_with_its_kind_generation_and_hosts() {
    let vault = vault();
    vault.set_installed(vec![record("good/me", "GOOD\n", 3)]);
    let live = vault.obtain(&name("good/me"), &Narrowing::default()).await.unwrap();
    assert_eq!((live.secret, live.kind.as_ref(), live.generation), (Secret::new("GOOD"), "api_key", 3));
    assert_eq!(live.hosts.unwrap().len(), 1);
    assert_eq!(vault.states(), [(name("good/me"), State::Ok)]);
}

#[tokio::test]
async fn a_credential_nobody_installed_is_missing() {
    let error = secret(&vault(), "good/me").await.unwrap_err();
    assert_eq!((error.reason(), error.failure), (Reason::CredentialMissing, Failure::Missing));
}

#[tokio::test]
async fn a_record_that_was_edited_in_the_store_is_refused_and_shown_as_failing() {
    let vault = vault();
    let mut wider = record("good/me", "GOOD", 1);
    wider.hosts.push(HostPattern::parse("evil.test").unwrap());
    vault.set_installed(vec![wider]);
    let error = secret(&vault, "good/me").await.unwrap_err();
    assert_eq!(error.reason(), Reason::CredentialUnavailable);
    assert!(error.to_string().contains("does not belong"), "{error}");
    assert!(matches!(&vault.list()[0].state, State::Failing { .. }));
}

#[tokio::test]
async fn r161_a_changed_secret_under_the_same_name_is_another_secret() {
    let vault = vault();
    vault.set_installed(vec![record("good/me", "first", 1)]);
    let first = vault.obtain(&name("good/me"), &Narrowing::default()).await.unwrap();
    vault.set_installed(vec![record("good/me", "second", 2)]);
    let second = vault.obtain(&name("good/me"), &Narrowing::default()).await.unwrap();
    assert_eq!(second.secret, Secret::new("second"));
    assert_ne!(first.serial, second.serial);
    vault.set_installed(Vec::new());
    assert!(secret(&vault, "good/me").await.is_err());
}

#[tokio::test]
async fn r59_a_secret_that_cannot_be_sent_is_the_providers_trouble_and_is_not_shown() {
    let vault = vault();
    vault.set_installed(vec![record("good/me", "GOOD\r\nX-Evil: 1", 1)]);
    let error = secret(&vault, "good/me").await.unwrap_err();
    assert_eq!(error.reason(), Reason::CredentialUnavailable);
    assert!(!format!("{error} {error:?}").contains("GOOD") && !format!("{:?}", vault.list()).contains("GOOD"));
}

#[tokio::test]
async fn a_declared_file_rotates_without_a_restart_and_hides_an_installed_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    fs::write(&path, "first\n").unwrap();
    let vault = vault();
    vault.set_installed(vec![record("good/me", "installed", 1)]);
    let one = || vec![declared("good/me", "static", json!({}), Source::File(path.clone()))];
    vault.set_declared(one());
    assert_eq!(secret(&vault, "good/me").await.unwrap(), "first");
    fs::write(dir.path().join("next"), "second").unwrap();
    fs::rename(dir.path().join("next"), &path).unwrap();
    while secret(&vault, "good/me").await.unwrap() != "second" {
        tokio::task::yield_now().await;
    }
    vault.set_declared(one());
    assert_eq!(vault.obtain(&name("good/me"), &Narrowing::default()).await.unwrap().generation, 2);
    vault.set_declared(Vec::new());
    assert_eq!(secret(&vault, "good/me").await.unwrap(), "installed");
}

#[tokio::test]
async fn a_declared_environment_variable_is_read_when_it_is_loaded() {
    let vault = vault();
    let path = Source::Env("PATH".to_owned());
    let none = Source::Env("KLEIS_TEST_NO_SUCH_VARIABLE".to_owned());
    vault.set_declared(vec![
        declared("good/path", "static", json!({}), path),
        declared("good/none", "static", json!({}), none),
        declared("good/empty", "static", json!({}), Source::None),
        declared("good/wrong", "statik", json!({}), Source::None),
    ]);
    assert_eq!(secret(&vault, "good/path").await.unwrap(), std::env::var("PATH").unwrap());
    for (called, says) in [("none", "is not set"), ("empty", "needs a secret"), ("wrong", "did you mean `static`?")] {
        let error = secret(&vault, &format!("good/{called}")).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// A command that prints a number one higher each time it runs.
fn counting(dir: &Path) -> Declared {
    let count = dir.join("count");
    let script = format!("echo x >> {0}; wc -l < {0} | tr -d ' '", count.display());
    let settings = json!({"command": "sh", "args": ["-c", script], "lifetime": "100s"});
    declared("good/me", "exec", settings, Source::None)
}

#[tokio::test]
async fn r137_parallel_requests_run_a_command_once_and_its_answer_lives_as_long_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let time = Arc::new(std::sync::atomic::AtomicU64::new(1000));
    let clock = {
        let time = time.clone();
        Clock::new(move || time.load(std::sync::atomic::Ordering::Relaxed))
    };
    let vault = Arc::new(Vault::with_clock(Seal::from_key([7; 32]), Arc::new(nobody()), clock));
    vault.set_declared(vec![counting(dir.path())]);
    let all: Vec<_> = (0..50)
        .map(|_| {
            let vault = vault.clone();
            tokio::spawn(async move { secret(&vault, "good/me").await.unwrap() })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), "1");
    }
    time.store(1099, std::sync::atomic::Ordering::Relaxed);
    vault.set_declared(vec![counting(dir.path())]);
    assert_eq!(secret(&vault, "good/me").await.unwrap(), "1", "an unchanged declaration keeps what it has");
    time.store(1100, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(secret(&vault, "good/me").await.unwrap(), "2");
}

#[tokio::test]
async fn a_refused_secret_is_replaced_once_a_minute_and_a_fixed_one_never() {
    let dir = tempfile::tempdir().unwrap();
    let vault = vault();
    vault.set_declared(vec![counting(dir.path())]);
    vault.set_installed(vec![record("good/fixed", "GOOD", 1)]);
    let any = Narrowing::default();
    let first = vault.obtain(&name("good/me"), &any).await.unwrap();
    let second = vault.obtain_other(&name("good/me"), &any, first.serial).await.unwrap().unwrap();
    assert_eq!(second.secret, Secret::new("2"));
    assert!(vault.obtain_other(&name("good/me"), &any, second.serial).await.unwrap().is_none());
    let fixed = vault.obtain(&name("good/fixed"), &any).await.unwrap();
    assert!(vault.obtain_other(&name("good/fixed"), &any, fixed.serial).await.unwrap().is_none());
    assert!(!fixed.replaceable && first.replaceable);
}

#[tokio::test]
async fn narrowings_that_mean_nothing_to_a_provider_share_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let vault = vault();
    vault.set_declared(vec![counting(dir.path())]);
    for owner in ["a", "b"] {
        let narrowing = Narrowing { permissions: BTreeMap::new(), repositories: None, owner: Some(owner.into()) };
        let live = vault.obtain(&name("good/me"), &narrowing).await.unwrap();
        assert_eq!(live.secret, Secret::new("1"));
    }
}
