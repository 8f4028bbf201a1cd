//! `kleis credential …`

use serde_json::{Map, Value, json};

use super::args::{CredentialAdd, CredentialCommand};
use super::context::Context;
use super::failure::Failure;
use super::token::unexpected;
use crate::operator::{self, Command, CredentialView, Reply};
use crate::service::Service;
use crate::store::CredentialState;
use crate::words::{HostPattern, ServiceName};

/// Runs one.
pub async fn run(context: &Context, command: CredentialCommand) -> Result<(), Failure> {
    match command {
        CredentialCommand::Add(add) => install(context, add).await,
        CredentialCommand::List => list(context).await,
        CredentialCommand::Show { name } => {
            let reply = context.door().await?.execute(Command::CredentialShow { name }).await?;
            let Reply::Credentials { credentials } = reply else { return Err(unexpected(&reply)) };
            let text = || credentials.iter().map(|one| describe(context, one)).collect::<Vec<_>>().join("\n\n");
            context.print(text, || json!({"credentials": credentials}));
            Ok(())
        }
        CredentialCommand::Remove { name } => {
            context.door().await?.execute(Command::CredentialRemove { name: name.clone() }).await?;
            context.print(|| format!("removed {name}"), || json!({"removed": name}));
            Ok(())
        }
    }
}

async fn install(context: &Context, add: CredentialAdd) -> Result<(), Failure> {
    let snapshot = context.snapshot()?;
    let service = service_of(&add)?;
    let known = || snapshot.catalog.iter().map(|one| one.name().as_str()).collect::<Vec<_>>();
    let manifest = snapshot.catalog.get(service.as_str()).ok_or_else(|| {
        let near = crate::words::nearest(service.as_str(), known());
        let hint =
            near.map_or_else(|| format!("known are {}", known().join(", ")), |name| format!("did you mean `{name}`?"));
        Failure::Usage(format!("there is no service `{service}`: {hint}"))
    })?;
    let hosts = sealed_hosts(&add, manifest)?;
    let settings = settings(&add)?;
    let secret = add.secret.read()?;
    let command = Command::CredentialAdd(operator::CredentialAdd {
        name: add.name,
        service,
        provider: add.provider.unwrap_or_else(|| manifest.provider().to_string()),
        kind: add.kind.unwrap_or_else(|| "api_key".to_owned()),
        hosts,
        settings,
        secret,
        replace: true,
    });
    match context.door().await?.execute(command).await? {
        Reply::CredentialAdded { credential, replaced } => {
            let hosts: Vec<String> = credential.hosts.iter().map(ToString::to_string).collect();
            let verb = if replaced { "replaced" } else { "installed" };
            let said = format!("{verb} {}: it can go to {} and nowhere else", credential.name, hosts.join(", "));
            context.print(|| said, || json!({"credential": credential, "replaced": replaced}));
            Ok(())
        }
        other => Err(unexpected(&other)),
    }
}

/// `--service`, or the first half of the name.
fn service_of(add: &CredentialAdd) -> Result<ServiceName, Failure> {
    match &add.service {
        Some(service) => Ok(service.clone()),
        None => {
            let first = add.name.as_str().split('/').next().unwrap_or_default();
            ServiceName::parse(first).map_err(Failure::usage)
        }
    }
}

/// The places that the secret is sealed for: the manifest's, or the fewer that `--host` names.
fn sealed_hosts(add: &CredentialAdd, manifest: &Service) -> Result<Vec<HostPattern>, Failure> {
    let all = manifest.credential_hosts();
    if add.host.is_empty() {
        return Ok(all.to_vec());
    }
    let mut hosts = Vec::new();
    for text in &add.host {
        let host = HostPattern::parse(text).map_err(Failure::usage)?;
        if !all.iter().any(|one| one.covers(&host)) {
            let known: Vec<String> = all.iter().map(ToString::to_string).collect();
            let known = known.join(", ");
            return Err(Failure::Usage(format!("`{host}` is no place for secrets of this service: use {known}")));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// `--config` and `--set`, as one JSON object.
fn settings(add: &CredentialAdd) -> Result<String, Failure> {
    let mut all = match add.config.as_deref() {
        None => Map::new(),
        Some(given) => {
            let text = match given.strip_prefix('@') {
                Some(path) => std::fs::read_to_string(path)
                    .map_err(|error| Failure::Usage(format!("can't read `{path}`: {error}")))?,
                None => given.to_owned(),
            };
            serde_json::from_str(&text)
                .map_err(|error| Failure::Usage(format!("--config is not a JSON object: {error}")))?
        }
    };
    for pair in &add.set {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| Failure::Usage(format!("--set `{pair}` is not KEY=VALUE")))?;
        // a number or list is written as in JSON; anything else is text
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        all.insert(key.to_owned(), value);
    }
    Ok(Value::Object(all).to_string())
}

async fn list(context: &Context) -> Result<(), Failure> {
    let reply = context.door().await?.execute(Command::CredentialList).await?;
    let Reply::Credentials { credentials } = reply else { return Err(unexpected(&reply)) };
    let snapshot = context.snapshot()?;
    let mut rows: Vec<Vec<String>> = credentials
        .iter()
        .map(|one| {
            let hosts: Vec<String> = one.hosts.iter().map(ToString::to_string).collect();
            vec![
                one.name.to_string(),
                one.service.to_string(),
                one.provider.clone(),
                state(&one.state),
                hosts.join(", "),
            ]
        })
        .collect();
    for one in snapshot.declared.iter() {
        let state = "declared".to_owned();
        rows.push(vec![one.name.to_string(), one.service.to_string(), one.provider.to_string(), state, String::new()]);
    }
    let empty = "no credentials: `kleis credential add github/me --service github --secret -` installs one";
    let declared: Vec<Value> = snapshot
        .declared
        .iter()
        .map(|one| json!({"name": one.name, "service": one.service, "provider": one.provider.to_string()}))
        .collect();
    context.print(
        || match rows.is_empty() {
            true => empty.to_owned(),
            false => context.terminal().table(&["NAME", "SERVICE", "PROVIDER", "STATE", "HOSTS"], &rows),
        },
        || json!({"credentials": credentials, "declared": declared}),
    );
    Ok(())
}

fn state(state: &CredentialState) -> String {
    match state {
        CredentialState::Ready => "ready".to_owned(),
        CredentialState::NeedsLogin { why } => format!("needs login: {why}"),
    }
}

fn describe(context: &Context, one: &CredentialView) -> String {
    let hosts: Vec<String> = one.hosts.iter().map(ToString::to_string).collect();
    let lines = [
        ("name", one.name.to_string()),
        ("service", one.service.to_string()),
        ("provider", one.provider.clone()),
        ("kind", one.kind.clone()),
        ("hosts", hosts.join(", ")),
        ("settings", one.settings.clone()),
        ("generation", one.generation.to_string()),
        ("state", state(&one.state)),
        ("added", context.when(one.created)),
        ("replaced", context.when(one.updated)),
    ];
    lines
        .iter()
        .map(|(key, value)| format!("{key:<11} {}", super::terminal::visible(value)))
        .collect::<Vec<_>>()
        .join("\n")
}
