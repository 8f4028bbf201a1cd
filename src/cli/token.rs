//! `kleis token …`

use serde_json::json;

use super::args::{TokenAttenuate, TokenCommand, TokenMint, TokenRevoke};
use super::context::Context;
use super::failure::Failure;
use super::input::Source;
use super::terminal::Style;
use crate::operator::{self, Command, Confidential, Reply, Revoke, TokenView};
use crate::store::TokenFilter;
use crate::token::{Attenuation, Inspection, attenuate, inspect, parse_check};
use crate::words::IssuerName;

/// Runs one.
pub async fn run(context: &Context, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Mint(mint) => make(context, mint).await,
        TokenCommand::Attenuate(arguments) => narrow(context, &arguments),
        TokenCommand::Inspect { token } => show(context, &token),
        TokenCommand::List => list(context).await,
        TokenCommand::Revoke(arguments) => revoke(context, arguments).await,
    }
}

/// Reads a token from where it is; it never was an argument.
pub fn read(source: &Source) -> Result<Confidential, Failure> {
    let text = source.read()?;
    let token = text.as_str().trim();
    if !token.is_ascii() {
        return Err(Failure::Usage(format!("{source} holds no token: a token is base64url text")));
    }
    Ok(Confidential::from(token.to_owned()))
}

async fn make(context: &Context, mint: TokenMint) -> Result<(), Failure> {
    let snapshot = context.snapshot()?;
    let ceiling = super::grant::ceiling(&snapshot, &mint.grants)?;
    if let Some((grant, most)) = ceiling.filter(|(_, most)| mint.ttl > *most) {
        let (given, most) = (crate::words::format_duration(mint.ttl), crate::words::format_duration(most));
        return Err(Failure::Usage(format!(
            "ttl `{given}` is above the max_lifetime of grant `{grant}`: at most {most}"
        )));
    }
    let command = Command::TokenMint(operator::TokenMint {
        spec: None,
        grants: mint.grants,
        bearer: mint.bearer,
        ttl: mint.ttl.as_secs(),
        facts: mint.facts,
        narrow: Vec::new(),
        checks: Vec::new(),
        label: None,
    });
    match context.door().await?.execute(command).await? {
        Reply::Token(made) => {
            context.print(
                || made.token.as_str().to_owned(),
                || json!({"token": made.token.as_str(), "revocation_ids": made.revocation_ids, "expires": made.expires}),
            );
            Ok(())
        }
        other => Err(unexpected(&other)),
    }
}

fn narrow(context: &Context, arguments: &TokenAttenuate) -> Result<(), Failure> {
    if arguments.checks.is_empty() && arguments.allows.is_empty() && arguments.ttl.is_none() {
        return Err(Failure::Usage("nothing to take away: give --check, --allow or --ttl".to_owned()));
    }
    let token = read(&arguments.token)?;
    for line in &arguments.allows {
        crate::policy::allow::AllowLine::parse(line)
            .map_err(|error| Failure::Usage(format!("--allow `{line}`: {error}")))?;
    }
    let checks = arguments.checks.iter().map(|text| parse_check(text)).collect::<Result<Vec<_>, _>>();
    let attenuation = Attenuation {
        expires: arguments.ttl.map(|ttl| context.now() + ttl.as_secs()),
        narrowings: arguments.allows.clone(),
        checks: checks.map_err(Failure::usage)?,
    };
    let made = attenuate(token.as_str(), &attenuation, &mut rand::rngs::OsRng).map_err(Failure::usage)?;
    let ids: Vec<String> = made.revocation_ids.iter().map(ToString::to_string).collect();
    context.print(
        || made.token.as_str().to_owned(),
        || json!({"token": made.token.as_str(), "revocation_ids": ids, "expires": made.expires}),
    );
    Ok(())
}

fn show(context: &Context, source: &Source) -> Result<(), Failure> {
    let token = read(source)?;
    let keys = context.root_keys();
    let inspection = inspect(token.as_str(), keys.as_ref()).map_err(Failure::usage)?;
    context.print(|| describe(context, &inspection), || json!(inspection));
    Ok(())
}

/// An inspection for people.
fn describe(context: &Context, inspection: &Inspection) -> String {
    let paint = |style, text: &str| context.terminal().paint(style, text);
    let mut lines = vec![match inspection.signed_by_us {
        Some(true) => paint(Style::Good, "signed by this home's root key"),
        Some(false) => paint(Style::Bad, "NOT signed by this home's root key"),
        None => paint(Style::Warn, "signature not checked: this home has no root key"),
    }];
    match inspection.expires {
        Some(end) if end <= context.now() => lines.push(paint(Style::Bad, &format!("expired {}", context.when(end)))),
        Some(end) => lines.push(format!("expires {}", context.when(end))),
        None => lines.push(paint(Style::Warn, "never expires by itself")),
    }
    for (index, block) in inspection.blocks.iter().enumerate() {
        lines.push(String::new());
        let title = if index == 0 { "authority block".to_owned() } else { format!("block {index}") };
        lines.push(paint(Style::Bold, &title));
        lines.push(format!("  revocation id  {}", block.revocation_id));
        let statements = block.facts.iter().chain(&block.rules).chain(&block.checks);
        lines.extend(statements.map(|statement| format!("  {};", super::terminal::visible(statement))));
        if block.third_party {
            lines.push(paint(Style::Warn, "  signed by a third party: kleis refuses such tokens"));
        }
    }
    lines.join("\n")
}

async fn list(context: &Context) -> Result<(), Failure> {
    let command = Command::TokenList { filter: TokenFilter::All, all: false };
    match context.door().await?.execute(command).await? {
        Reply::Tokens { tokens } => {
            context.print(|| table(context, &tokens), || json!({"tokens": tokens}));
            Ok(())
        }
        other => Err(unexpected(&other)),
    }
}

fn table(context: &Context, tokens: &[TokenView]) -> String {
    if tokens.is_empty() {
        return "no live tokens: `kleis token mint --grant … --bearer … --ttl 8h` makes one".to_owned();
    }
    let row = |token: &TokenView| {
        let allows = match &token.spec {
            Some(spec) => format!("spec {spec}"),
            None => token.grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let id: String = token.revocation_id.chars().take(16).collect();
        vec![
            token.bearer.clone(),
            allows,
            token.expires.map_or_else(|| "never".to_owned(), |end| context.when(end)),
            format!("{id}…"),
        ]
    };
    let rows: Vec<Vec<String>> = tokens.iter().map(row).collect();
    context.terminal().table(&["BEARER", "MAY USE", "EXPIRES", "REVOCATION ID"], &rows)
}

async fn revoke(context: &Context, arguments: TokenRevoke) -> Result<(), Failure> {
    let what = if let Some(id) = arguments.id {
        Revoke::Id(id)
    } else if let Some(source) = &arguments.token {
        Revoke::Token(read(source)?)
    } else if let Some(bearer) = arguments.bearer {
        Revoke::Matching(TokenFilter::Bearer(bearer))
    } else if let Some(issuer) = arguments.issuer {
        Revoke::Matching(TokenFilter::Issuer(IssuerName::parse(&issuer).map_err(Failure::usage)?))
    } else if let Some(spec) = arguments.spec {
        Revoke::Matching(TokenFilter::Spec(spec))
    } else {
        return Err(Failure::Usage("what to revoke? give an id, --token, --bearer, --issuer or --spec".to_owned()));
    };
    match context.door().await?.execute(Command::Revoke { what }).await? {
        Reply::Revoked { ids, already } => {
            let said = match (ids.len(), already) {
                (0, 0) => "nothing matches".to_owned(),
                (0, _) => "revoked already".to_owned(),
                (1, _) => "revoked".to_owned(),
                (n, _) => format!("revoked {n} tokens"),
            };
            context.print(|| said, || json!({"revoked": ids, "already": already}));
            Ok(())
        }
        other => Err(unexpected(&other)),
    }
}

/// The daemon is of another version.
pub fn unexpected(reply: &Reply) -> Failure {
    let kind = serde_json::to_value(reply).ok().and_then(|v| v.get("reply").map(ToString::to_string));
    Failure::Outside(format!(
        "the daemon answered {} to another question: is it of this version?",
        kind.unwrap_or_default()
    ))
}
