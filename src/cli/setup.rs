//! `kleis setup`: what to configure so that clients go through the proxy.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::{Setup, SetupTarget};
use super::context::Context;
use super::environment::{self, Reach, quoted};
use super::failure::Failure;
use crate::ca::Ca;
use crate::words::HostPattern;

/// Stands for the token where none was given: the output is then safe to paste anywhere.
const PLACEHOLDER: &str = "TOKEN";

/// Runs it.
pub fn run(context: &Context, arguments: &Setup) -> Result<(), Failure> {
    let token = arguments.token.as_ref().map(super::token::read).transpose()?;
    let token = token.as_ref().map_or(PLACEHOLDER, |token| token.as_str());
    let address = address(context, arguments)?;
    let proxy = format!("http://kleis:{token}@{address}");
    if arguments.target == SetupTarget::GitRewrite {
        return rewrite(context, &proxy);
    }
    let (ca, bundle) = write_bundle(context)?;
    match arguments.target {
        SetupTarget::Git => git(context, &proxy, &bundle.display().to_string()),
        SetupTarget::Shell | SetupTarget::GitRewrite => {
            let variables = environment::variables(Reach { proxy: &proxy, bundle: &bundle, ca: &ca });
            let mut placeholders = placeholders(context)?;
            placeholders.retain(|(name, _)| !variables.iter().any(|(known, _)| known == name));
            let all: Vec<(String, String)> =
                variables.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(placeholders).collect();
            shell(context, &all);
        }
    }
    Ok(())
}

/// The configuration's `public_url`.
fn public_url(context: &Context) -> Option<String> {
    let snapshot = context.snapshot().ok()?;
    snapshot.config.public_url.as_ref().map(|url| format!("http://{}", url.authority().host_header()))
}

/// `host:port` of the proxy as the sandbox reaches it.
fn address(context: &Context, arguments: &Setup) -> Result<String, Failure> {
    let given = arguments.url.clone().or_else(|| public_url(context));
    let url = match given {
        Some(url) => url,
        None => format!("http://{}", context.first_proxy_listener()?),
    };
    let rest = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    rest.filter(|rest| !rest.is_empty() && !rest.contains(['/', '@']))
        .map(str::to_owned)
        .ok_or_else(|| Failure::Usage(format!("`{url}` is no proxy URL: use `http://host:port`")))
}

/// The CA and a bundle of the system's roots and the CA, below `data/`.
fn write_bundle(context: &Context) -> Result<(PathBuf, PathBuf), Failure> {
    let data = context.home()?.data_dir().to_owned();
    let ca = Ca::load_or_make(&data).map_err(Failure::outside)?;
    let bundle = data.join("bundle.pem");
    write_private(&bundle, &ca.bundle())
        .map_err(|error| Failure::Outside(format!("can't write `{}`: {error}", bundle.display())))?;
    Ok((data.join("ca.pem"), bundle))
}

/// `data/` holds nothing that others may read: kleis refuses to start on a file that is open to them.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

/// The placeholders that clients want before they send anything (`GH_TOKEN`), from all manifests.
fn placeholders(context: &Context) -> Result<Vec<(String, String)>, Failure> {
    let snapshot = context.snapshot()?;
    let mut all: Vec<(String, String)> = Vec::new();
    for service in snapshot.catalog.iter() {
        all.extend(environment::placeholders(service));
    }
    all.sort();
    all.dedup_by(|a, b| a.0 == b.0);
    Ok(all)
}

fn shell(context: &Context, variables: &[(String, String)]) {
    context.print(
        || {
            let mut lines: Vec<String> =
                variables.iter().map(|(name, value)| format!("export {name}={}", quoted(value))).collect();
            lines.push(format!("unset {}", environment::UNSET.join(" ")));
            lines.join("\n")
        },
        || {
            let env: serde_json::Map<_, _> = variables.iter().map(|(n, v)| (n.clone(), json!(v))).collect();
            json!({"env": env, "unset": environment::UNSET})
        },
    );
}

fn git(context: &Context, proxy: &str, bundle: &str) {
    let settings = [("http.proxy", proxy), ("http.proxyAuthMethod", "basic"), ("http.sslCAInfo", bundle)];
    print_git(context, &settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

/// `url.….insteadOf` for each host that can be reached by rewriting: no CA needed.
fn rewrite(context: &Context, proxy: &str) -> Result<(), Failure> {
    let snapshot = context.snapshot()?;
    let mut settings = Vec::new();
    for service in snapshot.catalog.iter().filter(|service| service.modes().rewrite) {
        for host in service.hosts().iter().filter_map(HostPattern::exact_host).filter_map(|host| host.as_name()) {
            settings.push((format!("url.{proxy}/https/{host}/.insteadOf"), format!("https://{host}/")));
        }
    }
    print_git(context, &settings);
    Ok(())
}

fn print_git(context: &Context, settings: &[(String, String)]) {
    context.print(
        || {
            let line =
                |(key, value): &(String, String)| format!("git config --global {} {}", quoted(key), quoted(value));
            settings.iter().map(line).collect::<Vec<_>>().join("\n")
        },
        || json!({"git": settings.iter().map(|(k, v)| json!({"key": k, "value": v})).collect::<Vec<_>>()}),
    );
}
