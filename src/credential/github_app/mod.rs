//! The `github-app` provider: installation tokens, narrowed to what a grant asks for.
//!
//! An App signs short statements with its key ("this is App 7, now"), asks with one where it is installed,
//! and with another for a token of that installation: for an hour, for the named repositories and
//! permissions (vendor pages "Generating a JWT for a GitHub App", "Create an installation access token for
//! an app").

mod api;
mod permissions;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::exec::parse_date;
use super::live::Failure;
use super::provider::{Obtained, ProviderError, Surroundings, settings};
use crate::policy::Narrowing;
use crate::words::{Secret, Timestamp};
use api::{Answer, Api};
pub use permissions::normalise as normalise_permissions;

/// The statement is dated back, for servers whose clock is behind ours (R131).
const JWT_BACKDATED: u64 = 60;
/// And ends nine minutes after that date: ten are the limit, as the server's clock sees it.
const JWT_LIFE: u64 = 540;
/// A token is replaced this long before it ends.
const MARGIN: u64 = 600;
/// How long a found installation is believed, and how long a missing one.
const FOUND_FOR: u64 = 3600;
const MISSING_FOR: u64 = 30;
/// A request that the API finds wrong stays wrong until somebody changes something (R134).
const WRONG_FOR: Duration = Duration::from_secs(60);
/// Owners come from requests, so what is remembered of them is bounded.
const OWNERS: u64 = 1024;

/// One App.
pub(super) struct GithubApp {
    app_id: String,
    installation_id: Option<u64>,
    owner: Option<Arc<str>>,
    api: Api,
    installations: moka::sync::Cache<Arc<str>, Known>,
}

#[derive(Clone)]
struct Known {
    installation: Result<u64, Failure>,
    until: Timestamp,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    app_id: Value,
    installation_id: Option<Value>,
    owner: Option<String>,
    api: Option<String>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iat: u64,
    exp: u64,
    iss: &'a str,
}

impl GithubApp {
    pub(super) fn parse(value: &Value) -> Result<GithubApp, String> {
        let given: Settings = settings("github-app", value)?;
        let wrong =
            |key: &str, accepted: &str| format!("settings of provider `github-app`: `{key}` must be {accepted}");
        let app_id = text_or_number(&given.app_id)
            .filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'))
            .ok_or_else(|| wrong("app_id", "the App's id or its client id"))?;
        let installation_id = given.installation_id.as_ref().map(|id| {
            let id = text_or_number(id).and_then(|id| id.parse::<u64>().ok());
            id.ok_or_else(|| wrong("installation_id", "a number"))
        });
        let owner = given
            .owner
            .map(|owner| owner_key(&owner).ok_or_else(|| wrong("owner", "the name of an organisation or a user")));
        Ok(GithubApp {
            app_id,
            installation_id: installation_id.transpose()?,
            owner: owner.transpose()?,
            api: Api::parse(given.api.as_deref()).map_err(|accepted| wrong("api", accepted))?,
            installations: moka::sync::Cache::new(OWNERS),
        })
    }

    pub(super) fn check_material(material: &Secret) -> Result<(), Failure> {
        key(material).map(drop)
    }

    /// What makes a difference: the owner unless the installation is fixed, and what is asked for.
    pub(super) fn scope(&self, narrowing: &Narrowing) -> Narrowing {
        let owner = narrowing.owner.as_deref().and_then(owner_key).or_else(|| narrowing.owner.clone());
        Narrowing {
            repositories: narrowing.repositories.clone(),
            permissions: narrowing.permissions.clone(),
            owner: if self.is_fixed() { None } else { owner.or_else(|| self.owner.clone()) },
        }
    }

    /// One installation for every request: it was named, and no owner beside it.
    fn is_fixed(&self) -> bool {
        self.installation_id.is_some() && self.owner.is_none()
    }

    pub(super) async fn obtain(
        &self,
        around: &Surroundings,
        material: &Secret,
        scope: &Narrowing,
    ) -> Result<Obtained, ProviderError> {
        let wanted = request_body(scope)?;
        let now = around.clock.now();
        // Before anything is signed: a request that is refused from memory must cost nothing.
        let known = self.known(scope.owner.as_ref(), now)?;
        let jwt = self.sign(material, now)?;
        let installation = match (known, &scope.owner) {
            (Some(installation), _) => installation,
            (None, Some(owner)) => self.look_up(around, &jwt, owner).await?,
            (None, None) => return Err(no_owner().into()),
        };
        let path = format!("/app/installations/{installation}/access_tokens");
        let answer = self.api.post(around, &path, &jwt, &wanted).await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::OK => understand(&answer, around.clock.now()).map_err(Into::into),
            StatusCode::NOT_FOUND => {
                if let Some(owner) = &scope.owner {
                    self.installations.invalidate(owner);
                }
                Err(Failure::NotHere(format!("installation {installation} is gone: {}", answer.words())).into())
            }
            // Refused for what was asked: a permission or repository that the installation does not have.
            StatusCode::UNPROCESSABLE_ENTITY => Err(ProviderError {
                failure: Failure::Refused(format!(
                    "the App may not have what the grant's `narrow` asks for ({wanted}): {}",
                    answer.words()
                )),
                hold: Some(WRONG_FOR),
            }),
            _ => Err(answer.trouble(around.clock.now())),
        }
    }

    /// The installation, as far as it can be told without asking.
    fn known(&self, owner: Option<&Arc<str>>, now: Timestamp) -> Result<Option<u64>, ProviderError> {
        let Some(owner) = owner else { return Ok(Some(self.installation_id.ok_or_else(no_owner)?)) };
        if let (Some(id), true) = (self.installation_id, self.owner.as_ref() == Some(owner)) {
            return Ok(Some(id));
        }
        // It is put into a path: nothing else may be.
        if owner_key(owner).is_none() {
            return Err(Failure::NotHere("the request's owner is not a name that GitHub knows".to_owned()).into());
        }
        let known = self.installations.get(owner).filter(|known| now < known.until);
        known.map(|known| known.installation.map_err(remembered)).transpose()
    }

    /// Asks for an owner's installation, among organisations and then among users (R136), and remembers the
    /// answer; trouble is not remembered.
    async fn look_up(&self, around: &Surroundings, jwt: &Secret, owner: &Arc<str>) -> Result<u64, ProviderError> {
        let installation = self.ask(around, jwt, owner).await?;
        let until = around.clock.now() + if installation.is_ok() { FOUND_FOR } else { MISSING_FOR };
        self.installations.insert(owner.clone(), Known { installation: installation.clone(), until });
        installation.map_err(remembered)
    }

    /// `Err` outside is trouble, `Err` inside is how it is.
    async fn ask(
        &self,
        around: &Surroundings,
        jwt: &Secret,
        owner: &str,
    ) -> Result<Result<u64, Failure>, ProviderError> {
        for kind in ["orgs", "users"] {
            let answer = self.api.get(around, &format!("/{kind}/{owner}/installation"), jwt).await?;
            match answer.status {
                StatusCode::OK => return Ok(found(&answer, owner)),
                StatusCode::NOT_FOUND => continue,
                status if status.is_redirection() => {
                    return Ok(Err(Failure::NotHere(format!("`{owner}` has been renamed: use its new name"))));
                }
                _ => return Err(answer.trouble(around.clock.now())),
            }
        }
        Ok(Err(Failure::NotHere(format!(
            "the App is not installed for `{owner}`, or `{owner}` does not exist: install it there"
        ))))
    }

    fn sign(&self, material: &Secret, now: Timestamp) -> Result<Secret, Failure> {
        let iat = now.saturating_sub(JWT_BACKDATED);
        let claims = Claims { iat, exp: iat + JWT_LIFE, iss: &self.app_id };
        let jwt = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key(material)?);
        jwt.map(Secret::new).map_err(|_| Failure::Material("the App's private key cannot sign".to_owned()))
    }
}

fn no_owner() -> Failure {
    Failure::NotHere("the request names no owner: set `owner` or `installation_id` for such requests".to_owned())
}

/// A failure that the owner's entry remembers by itself.
fn remembered(failure: Failure) -> ProviderError {
    ProviderError { failure, hold: Some(Duration::ZERO) }
}

fn text_or_number(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => number.as_u64().map(|number| number.to_string()),
        _ => None,
    }
}

/// An owner's name as it is looked up: GitHub ignores case, and allows nothing that means something in a
/// path.
fn owner_key(owner: &str) -> Option<Arc<str>> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (!owner.is_empty() && owner.len() <= 100 && owner.bytes().all(plain)).then(|| owner.to_ascii_lowercase().into())
}

fn key(material: &Secret) -> Result<EncodingKey, Failure> {
    EncodingKey::from_rsa_pem(material.expose()).map_err(|_| {
        Failure::Material(
            "the secret is not an RSA private key in PEM: use the file that GitHub made for the App".into(),
        )
    })
}

/// What is asked for. An empty list of repositories would mean all of them, so it is never sent.
fn request_body(scope: &Narrowing) -> Result<Value, Failure> {
    let mut body = serde_json::Map::new();
    if let Some(repositories) = &scope.repositories {
        if repositories.is_empty() {
            return Err(Failure::NotHere("the grant narrows to repositories and the request names none".to_owned()));
        }
        let names: Vec<&str> = repositories.iter().map(|name| name.as_ref()).collect();
        body.insert("repositories".to_owned(), json!(names));
    }
    if !scope.permissions.is_empty() {
        let permissions = permissions::normalise(&scope.permissions).map_err(Failure::Settings)?;
        body.insert("permissions".to_owned(), json!(permissions));
    }
    Ok(Value::Object(body))
}

/// Reads an installation. A suspended one gives no tokens, and one that goes by another name now belongs to
/// somebody who is not whom the policy spoke of.
fn found(answer: &Answer, owner: &str) -> Result<u64, Failure> {
    let body = answer.json();
    if body.get("suspended_at").is_some_and(|at| !at.is_null()) {
        return Err(Failure::NotHere(format!("the App's installation for `{owner}` is suspended: resume it")));
    }
    let login = body.pointer("/account/login").and_then(Value::as_str);
    if let Some(login) = login.filter(|login| !login.eq_ignore_ascii_case(owner)) {
        let login: String = login.chars().filter(|c| !c.is_control()).take(100).collect();
        return Err(Failure::NotHere(format!("`{owner}` has been renamed to `{login}`: use its new name")));
    }
    let id = body.get("id").and_then(Value::as_u64);
    id.ok_or_else(|| Failure::NotHere(format!("the API's answer for `{owner}` has no installation id")))
}

fn understand(answer: &Answer, now: Timestamp) -> Result<Obtained, Failure> {
    let body = answer.json();
    let token = body.get("token").and_then(Value::as_str).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Failure::Provider("the API's answer has no token".to_owned()))?;
    let expires = body.get("expires_at").and_then(Value::as_str).and_then(parse_date);
    // By the server's own clock, if it tells: then ours may be wrong.
    let life = match expires {
        Some(at) => at.saturating_sub(answer.date().unwrap_or(now)),
        None => 3600,
    };
    if life == 0 {
        return Err(Failure::Provider("the API gave a token that has expired already: check the clock".to_owned()));
    }
    Ok(Obtained {
        secret: Secret::new(token),
        refresh_at: now + life.saturating_sub(MARGIN).max(life / 2),
        expires_at: now + life,
        minted: Some(now),
    })
}
