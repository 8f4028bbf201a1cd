//! What the one door promises.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::audit::{AuditOptions, tail};
use crate::store::{CredentialRecord, DataDirError, StoreError, TokenFilter, TokenKind};
use crate::token::{self, Attenuation, Identity};
use crate::words::{CredentialName, GrantName, HostPattern, IssuerName, ServiceName, SpecName};

const SECRET: &str = "ghp_GOODsecretGOODsecretGOODsecret";

async fn open(dir: &Path) -> Operator {
    Operator::open(&dir.join("data"), AuditOptions::default()).await.unwrap()
}

fn add(name: &str) -> CredentialAdd {
    CredentialAdd {
        name: CredentialName::parse(name).unwrap(),
        service: ServiceName::parse("github").unwrap(),
        provider: "static".into(),
        kind: "api_key".into(),
        hosts: vec![HostPattern::parse("api.good.test").unwrap()],
        settings: "{}".into(),
        secret: SECRET.to_owned().into(),
        replace: false,
    }
}

fn mint_for(bearer: &str) -> TokenMint {
    TokenMint {
        spec: None,
        grants: vec![GrantName::parse("g").unwrap()],
        bearer: bearer.into(),
        ttl: 3600,
        facts: vec![r#"task_fork("o", "r")"#.into()],
        narrow: vec!["mail: only read".into()],
        checks: vec!["check if operation(\"read\")".into()],
        label: Some("by hand".into()),
    }
}

async fn made(operator: &Operator, command: Command) -> TokenMade {
    match operator.execute("uid:1", command).await.unwrap() {
        Reply::Token(made) => made,
        other => panic!("{other:?}"),
    }
}

async fn tokens(operator: &Operator, all: bool) -> Vec<TokenView> {
    match operator.execute("uid:1", Command::TokenList { filter: TokenFilter::All, all }).await.unwrap() {
        Reply::Tokens { tokens } => tokens,
        other => panic!("{other:?}"),
    }
}

async fn revoke(operator: &Operator, what: Revoke) -> (Vec<String>, u64) {
    match operator.execute("uid:1", Command::Revoke { what }).await.unwrap() {
        Reply::Revoked { ids, already } => (ids, already),
        other => panic!("{other:?}"),
    }
}

fn record(dir: &Path) -> String {
    tail(&dir.join("data/audit"), 1000).unwrap().join("\n")
}

/// Every byte of every file below.
fn everything(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes.extend(everything(&path));
        } else {
            bytes.extend(fs::read(&path).unwrap());
        }
    }
    bytes
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[tokio::test]
async fn a_first_start_makes_what_is_missing_and_a_second_finds_it() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    let fingerprint = operator.root_keys().fingerprint();
    let seal = operator.seal().key_id().clone();
    let busy = Operator::open(&dir.path().join("data"), AuditOptions::default()).await.unwrap_err();
    assert!(matches!(busy, OperatorError::DataDir(DataDirError::Locked { .. })) && busy.code() == "locked");
    operator.close().await.unwrap();
    drop(operator);
    for name in ["kleis.db", "root.key", "seal.key", "lock"] {
        let mode = fs::metadata(dir.path().join("data").join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    let operator = open(dir.path()).await;
    assert_eq!(operator.root_keys().fingerprint(), fingerprint);
    assert_eq!(operator.seal().key_id(), &seal);
}

#[tokio::test]
async fn r170_a_credential_goes_in_and_never_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    let command = Command::CredentialAdd(add("github/me"));
    assert!(!format!("{command:?}").contains(SECRET));
    let mut answers = Vec::new();
    for command in [
        command,
        Command::CredentialAdd(CredentialAdd { replace: true, ..add("github/me") }),
        Command::CredentialList,
        Command::CredentialShow { name: add("github/me").name },
        Command::Status,
    ] {
        let reply = operator.execute("uid:1", command).await.unwrap();
        answers.push(format!("{reply:?} {}", serde_json::to_string(&reply).unwrap()));
    }
    assert!(answers[1].contains("replaced\":true") && answers[1].contains("generation\":2"), "{}", answers[1]);
    for (command, code) in [
        (Command::CredentialAdd(add("github/me")), "exists"),
        (Command::CredentialAdd(CredentialAdd { hosts: vec![], ..add("github/you") }), "invalid"),
        (Command::CredentialAdd(CredentialAdd { settings: "[]".into(), ..add("github/you") }), "invalid"),
        (Command::CredentialShow { name: CredentialName::parse("github/ne").unwrap() }, "missing"),
        (Command::CredentialRemove { name: CredentialName::parse("x/y").unwrap() }, "missing"),
    ] {
        let error = operator.execute("uid:1", command).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        answers.push(error.to_string());
    }
    assert!(answers.iter().any(|a| a.contains("did you mean `github/me`?")));
    operator.execute("uid:1", Command::CredentialRemove { name: add("github/me").name }).await.unwrap();
    operator.execute("uid:1", Command::CredentialAdd(add("github/me"))).await.unwrap();
    operator.close().await.unwrap();
    answers.push(String::from_utf8_lossy(&everything(dir.path())).into_owned());
    assert!(answers.iter().all(|answer| !answer.contains(SECRET) && !answer.contains(&SECRET[..8])));
    let record = record(dir.path());
    for operation in ["credential.add", "credential.remove"] {
        assert!(record.contains(operation) && record.contains("\"by\":\"uid:1\""), "{record}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_for_credentials_has_heard_when_the_answer_comes_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    operator.execute("uid:1", Command::CredentialAdd(add("github/first"))).await.unwrap();
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let to = heard.clone();
    let hear = move |all: Vec<CredentialRecord>| *to.lock().unwrap() = all.iter().map(|c| c.name.to_string()).collect();
    operator.on_credentials(hear).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["github/first"]);
    operator.execute("uid:1", Command::CredentialAdd(add("github/second"))).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["github/first", "github/second"]);
    operator.execute("uid:1", Command::CredentialRemove { name: add("github/first").name }).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["github/second"]);
    // Many at once: the last that is heard is what is there.
    let many = (0..16).map(|number| {
        let operator = operator.clone();
        tokio::spawn(async move {
            let command = Command::CredentialAdd(add(&format!("github/n{number}")));
            operator.execute("uid:1", command).await.unwrap();
        })
    });
    for one in many.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    assert_eq!(heard.lock().unwrap().len(), 17);
}

#[tokio::test]
async fn a_token_by_hand_is_listed_recorded_and_never_kept() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    let made = made(&operator, Command::TokenMint(mint_for("alice"))).await;
    let verified = token::verify(made.token.as_str(), operator.root_keys()).unwrap();
    assert!(matches!(verified.identity(), Identity::Bearer { bearer, .. } if bearer.as_ref() == "alice"));
    assert_eq!(verified.expires(), Some(made.expires));
    assert_eq!(verified.blocks()[0].checks.len(), 3);
    let listed = tokens(&operator, false).await;
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].revocation_id.as_str(), listed[0].label.as_deref()),
        (made.revocation_ids[0].as_str(), Some("by hand"))
    );
    assert!(!format!("{made:?}").contains(made.token.as_str()));

    let issuer = Command::IssuerToken { issuer: IssuerName::parse("orchestra").unwrap(), ttl: 60, label: None };
    let issued = self::made(&operator, issuer).await;
    assert!(matches!(
        token::verify(issued.token.as_str(), operator.root_keys()).unwrap().identity(),
        Identity::Issuer(_)
    ));
    assert_eq!(tokens(&operator, false).await.iter().filter(|t| t.kind == TokenKind::Issuer).count(), 1);
    operator.close().await.unwrap();

    let kept = everything(dir.path());
    for token in [&made.token, &issued.token] {
        assert!(!contains(&kept, &token.as_str()[..24]));
    }
    let record = record(dir.path());
    assert!(
        record.contains("token.mint") && record.contains("issuer.token") && record.contains(&made.revocation_ids[0])
    );
}

#[tokio::test]
async fn a_mint_that_makes_no_sense_is_refused_with_the_reason_and_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    let spec = Some(SpecName::parse("worker").unwrap());
    for (asked, said) in [
        (TokenMint { spec: spec.clone(), ..mint_for("a") }, "spec or grants, not both"),
        (TokenMint { grants: vec![], ..mint_for("a") }, "needs a spec, or at least one grant"),
        (TokenMint { ttl: 0, ..mint_for("a") }, "ttl `0`"),
        (TokenMint { ttl: u64::MAX, ..mint_for("a") }, "100 years"),
        (TokenMint { facts: vec!["nonsense".into()], ..mint_for("a") }, "`nonsense` is not a fact: use"),
        (TokenMint { facts: vec!["bearer(\"root\")".into()], ..mint_for("a") }, "fact `bearer` is not for"),
        (TokenMint { checks: vec!["f(1)".into()], ..mint_for("a") }, "is not one check: use"),
        (TokenMint { narrow: vec!["".into()], ..mint_for("a") }, "is not an allow line"),
    ] {
        let error = operator.execute("uid:1", Command::TokenMint(asked)).await.unwrap_err();
        assert!(error.to_string().contains(said) && error.code() == "invalid", "{error}");
    }
    assert!(tokens(&operator, true).await.is_empty());
}

#[tokio::test]
async fn a_revocation_is_in_memory_on_disk_and_on_streams_when_the_answer_comes() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    let parent = made(&operator, Command::TokenMint(mint_for("alice"))).await;
    let narrower = Attenuation { narrowings: vec!["a: none".into()], ..Attenuation::default() };
    let child = token::attenuate(parent.token.as_str(), &narrower, &mut rand::rngs::OsRng).unwrap();
    let verified = token::verify(child.token.as_str(), operator.root_keys()).unwrap();
    let ids = verified.revocation_ids();
    let told = operator.revocations().changes();

    // The child alone, by the token itself: it was made offline, the store has never seen it.
    let (revoked, already) = revoke(&operator, Revoke::Token(child.token.as_str().to_owned().into())).await;
    assert_eq!((revoked, already), (vec![ids[1].to_string()], 0));
    assert!(told.has_changed().unwrap() && operator.revocations().any_revoked(ids));
    assert!(!operator.revocations().any_revoked(&ids[..1]));
    assert_eq!(tokens(&operator, false).await.len(), 1);
    // Again: no harm.
    let again = revoke(&operator, Revoke::Id(ids[1].to_string())).await;
    assert_eq!(again, (vec![], 1));
    drop((operator, told));

    let operator = loop {
        // The lock goes with the last of the tasks that hold the door.
        match Operator::open(&dir.path().join("data"), AuditOptions::default()).await {
            Ok(operator) => break operator,
            Err(OperatorError::DataDir(DataDirError::Locked { .. })) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(operator.revocations().any_revoked(ids));
    let (revoked, _) = revoke(&operator, Revoke::Matching(TokenFilter::Bearer("alice".into()))).await;
    assert_eq!(revoked, [ids[0].to_string()]);
    assert!(tokens(&operator, false).await.is_empty() && tokens(&operator, true).await[0].revoked.is_some());
    for wrong in ["", "xyz", "ab", &"g".repeat(128)] {
        let error = operator.execute("uid:1", Command::Revoke { what: Revoke::Id(wrong.into()) }).await.unwrap_err();
        assert_eq!(error.code(), "invalid");
    }
}

#[tokio::test]
async fn a_revocation_is_done_to_the_end_when_its_caller_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    let made = made(&operator, Command::TokenMint(mint_for("alice"))).await;
    let id = token::RevocationId::parse(&made.revocation_ids[0]).unwrap();
    let mut told = operator.revocations().changes();
    {
        let command = Command::Revoke { what: Revoke::Id(id.to_string()) };
        let mut call = std::pin::pin!(operator.execute("uid:1", command));
        // Polled once, and dropped.
        assert!(futures_util::poll!(&mut call).is_pending());
    }
    told.changed().await.unwrap();
    assert!(operator.revocations().any_revoked(std::slice::from_ref(&id)));
    assert!(operator.store().token(&id).await.unwrap().unwrap().revoked.is_some());
}

#[tokio::test]
async fn what_cant_be_recorded_is_not_done_but_a_revocation_is() {
    let dir = tempfile::tempdir().unwrap();
    let operator = open(dir.path()).await;
    let made = made(&operator, Command::TokenMint(mint_for("alice"))).await;
    operator.audit().close().await.unwrap();
    for command in [Command::CredentialAdd(add("github/me")), Command::TokenMint(mint_for("bob"))] {
        let error = operator.execute("uid:1", command).await.unwrap_err();
        assert_eq!(error.code(), "audit_unavailable", "{error}");
    }
    assert!(operator.store().credentials().await.unwrap().is_empty());
    assert_eq!(tokens(&operator, true).await.len(), 1);
    let command = Command::Revoke { what: Revoke::Id(made.revocation_ids[0].clone()) };
    let error = operator.execute("uid:1", command).await.unwrap_err();
    assert!(error.to_string().starts_with("it was done, but could not be recorded"), "{error}");
    assert!(tokens(&operator, false).await.is_empty());
}

#[tokio::test]
async fn damaged_keys_stores_and_modes_are_told_with_the_mend() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let operator = open(dir.path()).await;
    operator.close().await.unwrap();
    drop(operator);
    let fails = async |path: &str, content: &[u8], mode: u32| -> String {
        let path = data.join(path);
        let before = fs::read(&path).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Operator::open(&data, AuditOptions::default()).await.unwrap_err().to_string();
        fs::write(&path, before).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        error
    };
    assert!(fails("root.key", b"1 ed25519-private/zz", 0o600).await.contains("line 1 is not a key"));
    assert!(fails("root.key", b"", 0o600).await.contains("restore it from a backup"));
    assert!(fails("seal.key", b"short", 0o600).await.contains("exactly 32 bytes"));
    assert!(fails("kleis.db", &b"no database ".repeat(99), 0o600).await.contains("restore `kleis.db` from a backup"));
    assert!(fails("seal.key", &[7; 32], 0o644).await.contains("run `chmod 600"));
    open(dir.path()).await;
}

#[tokio::test]
async fn the_record_is_verified_beside_the_one_who_writes_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    assert!(verify_record(&data, "local").await.unwrap().is_whole(), "nothing is there, and nothing is missing");
    let operator = open(dir.path()).await;
    made(&operator, Command::TokenMint(mint_for("alice"))).await;
    operator.audit().flush().await.unwrap();
    let verification = verify_record(&data, "local").await.unwrap();
    assert!(verification.is_whole() && verification.entries == 1, "{verification:?}");
    fs::remove_dir_all(data.join("audit")).unwrap();
    assert!(!verify_record(&data, "local").await.unwrap().is_whole());
}

#[test]
fn commands_and_replies_are_strict_json() {
    let commands = [
        Command::CredentialAdd(add("github/me")),
        Command::TokenMint(mint_for("a")),
        Command::Revoke { what: Revoke::Id("ab".into()) },
        Command::Revoke { what: Revoke::Matching(TokenFilter::Issuer(IssuerName::parse("o").unwrap())) },
        Command::TokenList { filter: TokenFilter::All, all: true },
        Command::Status,
        Command::CredentialList,
    ];
    for command in commands {
        let text = serde_json::to_string(&command).unwrap();
        let back: Command = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }
    for wrong in [
        r#"{"command": "token_mint", "bearer": "a", "ttl": 1, "nonsense": 1}"#,
        r#"{"command": "token_mint", "bearer": "a", "ttl": "1"}"#,
        r#"{"command": "nonsense"}"#,
        r#"{"command": "credential_show", "name": "no-slash"}"#,
    ] {
        assert!(serde_json::from_str::<Command>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_error_has_a_code() {
    let exists = OperatorError::from(StoreError::Exists { what: "credential", name: "a/b".into() });
    assert_eq!(exists.code(), "exists");
}
