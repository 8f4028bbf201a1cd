//! What each command does.
//!
//! Whatever gives something away is recorded before it is done, so that nothing happens unrecorded.
//! Revoking is the other way round: a record that can't be written must not keep a token alive.

use super::door::now;
use super::{
    Command, Confidential, CredentialAdd, CredentialView, Operator, OperatorError, Reply, Revoke, Status, TokenMade,
    TokenMint, TokenView,
};
use crate::audit::{OperatorEntry, Raw};
use crate::credential::{Label, check};
use crate::store::{CredentialRecord, CredentialState, Revoked, TokenFilter, TokenKind, TokenRecord};
use crate::token::{Candidates, Claims, Minted, RevocationId, mint, mint_issuer, parse_check, parse_facts, verify};
use crate::words::{CredentialName, IssuerName, Secret, Timestamp, nearest};

/// A hundred years: what is longer is a slip of the finger.
const MAX_TTL: u64 = 100 * 366 * 86_400;
/// No provider's material is larger.
const MAX_SECRET: usize = 256 * 1024;

type Details = Vec<(&'static str, String)>;

impl Operator {
    pub(super) async fn run(&self, by: &str, command: Command) -> Result<Reply, OperatorError> {
        match command {
            Command::CredentialAdd(add) => self.credential_add(by, add).await,
            Command::CredentialList => self.credential_list().await,
            Command::CredentialShow { name } => self.credential_show(&name).await,
            Command::CredentialRemove { name } => self.credential_remove(by, &name).await,
            Command::TokenMint(token) => self.token_mint(by, token).await,
            Command::IssuerToken { issuer, ttl, label } => self.issuer_token(by, &issuer, ttl, label).await,
            Command::TokenList { filter, all } => self.token_list(&filter, all).await,
            Command::Revoke { what } => self.revoke(by, what).await,
            Command::Status => self.status().await,
        }
    }

    async fn credential_add(&self, by: &str, add: CredentialAdd) -> Result<Reply, OperatorError> {
        check_credential(&add)?;
        let _turn = self.0.credentials.lock().await;
        let before = self.0.store.credential(&add.name).await?;
        if before.is_some() && !add.replace {
            let taken = crate::store::StoreError::Exists { what: "credential", name: add.name.to_string() };
            return Err(taken.into());
        }
        let record = self.sealed_record(&add)?;
        let details = vec![
            ("credential", add.name.to_string()),
            ("service", add.service.to_string()),
            ("provider", add.provider.clone()),
            ("credential_kind", add.kind.clone()),
            ("hosts", join(&add.hosts)),
            ("replaces", before.is_some().to_string()),
        ];
        let record = self
            .recorded(by, "credential.add", details, async {
                match before {
                    Some(old) => {
                        let generation = self.0.store.overwrite_credential(&record).await?;
                        Ok(CredentialRecord { generation, created: old.created, ..record })
                    }
                    None => self.0.store.insert_credential(&record).await.map(|()| record).map_err(Into::into),
                }
            })
            .await?;
        self.tell_credentials().await?;
        Ok(Reply::CredentialAdded { replaced: record.generation > 1, credential: view(record) })
    }

    fn sealed_record(&self, add: &CredentialAdd) -> Result<CredentialRecord, OperatorError> {
        let label = Label {
            name: &add.name,
            service: &add.service,
            provider: &add.provider,
            kind: &add.kind,
            hosts: &add.hosts,
            settings: &add.settings,
        };
        let sealed = self.0.seal.seal(&label, &Secret::new(add.secret.as_str()))?;
        let now = now();
        Ok(CredentialRecord {
            name: add.name.clone(),
            service: add.service.clone(),
            provider: add.provider.clone(),
            kind: add.kind.clone(),
            hosts: add.hosts.clone(),
            settings: add.settings.clone(),
            generation: 1,
            seal_key_id: sealed.key_id.as_str().to_owned(),
            sealed: sealed.blob,
            source: None,
            state: CredentialState::Ready,
            created: now,
            updated: now,
        })
    }

    async fn credential_list(&self) -> Result<Reply, OperatorError> {
        let credentials = self.0.store.credentials().await?.into_iter().map(view).collect();
        Ok(Reply::Credentials { credentials })
    }

    async fn credential_show(&self, name: &CredentialName) -> Result<Reply, OperatorError> {
        match self.0.store.credential(name).await? {
            Some(record) => Ok(Reply::Credentials { credentials: vec![view(record)] }),
            None => Err(self.no_credential(name).await),
        }
    }

    async fn credential_remove(&self, by: &str, name: &CredentialName) -> Result<Reply, OperatorError> {
        let _turn = self.0.credentials.lock().await;
        if self.0.store.credential(name).await?.is_none() {
            return Err(self.no_credential(name).await);
        }
        let details = vec![("credential", name.to_string())];
        self.recorded(by, "credential.remove", details, async { Ok(self.0.store.remove_credential(name).await?) })
            .await?;
        self.tell_credentials().await?;
        Ok(Reply::Done)
    }

    async fn no_credential(&self, name: &CredentialName) -> OperatorError {
        let all = self.0.store.credentials().await.unwrap_or_default();
        let hint = match nearest(name.as_str(), all.iter().map(|c| c.name.as_str())) {
            Some(near) => format!(": did you mean `{near}`?"),
            None => ": `kleis credential list` shows those that are".to_owned(),
        };
        OperatorError::Missing(format!("credential `{name}` is not installed{hint}"))
    }

    async fn token_mint(&self, by: &str, asked: TokenMint) -> Result<Reply, OperatorError> {
        let claims = claims(&asked)?;
        let minted = mint(&self.0.keys, &claims, &mut rand::rngs::OsRng)?;
        let record = TokenRecord {
            kind: TokenKind::Bearer,
            label: asked.label,
            bearer: asked.bearer,
            spec: asked.spec,
            grants: asked.grants,
            ..blank_record(&minted, claims.expires)?
        };
        let mut details = token_details(&record);
        details.push(("facts", asked.facts.join("; ")));
        details.push(("narrow", asked.narrow.join("; ")));
        details.push(("checks", asked.checks.join("; ")));
        self.issue(by, "token.mint", details, &minted, &record).await
    }

    async fn issuer_token(
        &self,
        by: &str,
        issuer: &IssuerName,
        ttl: u64,
        label: Option<String>,
    ) -> Result<Reply, OperatorError> {
        let expires = expiry(ttl)?;
        let minted = mint_issuer(&self.0.keys, issuer, expires, &mut rand::rngs::OsRng)?;
        let record = TokenRecord {
            kind: TokenKind::Issuer,
            label,
            issuer: Some(issuer.clone()),
            ..blank_record(&minted, expires)?
        };
        self.issue(by, "issuer.token", token_details(&record), &minted, &record).await
    }

    async fn issue(
        &self,
        by: &str,
        operation: &str,
        mut details: Details,
        minted: &Minted,
        record: &TokenRecord,
    ) -> Result<Reply, OperatorError> {
        details.retain(|(_, text)| !text.is_empty());
        self.recorded(by, operation, details, async { Ok(self.0.store.insert_token(record).await?) }).await?;
        Ok(Reply::Token(TokenMade {
            token: Confidential::from(minted.token.as_str().to_owned()),
            revocation_ids: minted.revocation_ids.iter().map(RevocationId::to_string).collect(),
            expires: record.expires.unwrap_or_default(),
        }))
    }

    async fn token_list(&self, filter: &TokenFilter, all: bool) -> Result<Reply, OperatorError> {
        let now = now();
        let is_live = |token: &TokenRecord| {
            let over = token.expires.is_some_and(|at| at <= now) || token.lease_until.is_some_and(|at| at <= now);
            let ids = [Some(&token.id), token.parent.as_ref()];
            !over && !ids.into_iter().flatten().any(|id| self.0.revocations.any_revoked(std::slice::from_ref(id)))
        };
        let tokens = self.0.store.tokens(filter).await?.into_iter().filter(|token| all || is_live(token));
        Ok(Reply::Tokens { tokens: tokens.map(token_view).collect() })
    }

    async fn revoke(&self, by: &str, revoke: Revoke) -> Result<Reply, OperatorError> {
        let at = now();
        let (details, revoked) = match revoke {
            Revoke::Id(text) => {
                let id = RevocationId::parse(text.trim()).ok_or_else(|| {
                    OperatorError::Invalid(
                        "the revocation id must be hex, as `kleis token list` and `inspect` show it".into(),
                    )
                })?;
                (vec![("revocation_id", id.to_string())], self.0.store.revoke(&[id], at).await)
            }
            Revoke::Token(token) => {
                let verified = verify(token.as_str().trim(), &self.0.keys)
                    .map_err(|error| OperatorError::Invalid(error.to_string()))?;
                let own = verified.revocation_ids().last().cloned();
                let id = own.ok_or_else(|| OperatorError::Invalid("the token has no revocation id".into()))?;
                (vec![("revocation_id", id.to_string())], self.0.store.revoke(&[id], at).await)
            }
            Revoke::Matching(filter) => {
                let details = match &filter {
                    TokenFilter::All => ("all", "true".to_owned()),
                    TokenFilter::Bearer(bearer) => ("bearer", bearer.clone()),
                    TokenFilter::Issuer(issuer) => ("issuer", issuer.to_string()),
                    TokenFilter::Spec(spec) => ("spec", spec.to_string()),
                };
                (vec![details], self.0.store.revoke_matching(&filter, at).await)
            }
        };
        if let Ok(revoked) = &revoked {
            // At once: open streams are cut before anybody is told that they are.
            self.0.revocations.add(&revoked.new);
        }
        self.record_revocation(by, details, revoked).await
    }

    async fn record_revocation(
        &self,
        by: &str,
        mut details: Details,
        revoked: Result<Revoked, crate::store::StoreError>,
    ) -> Result<Reply, OperatorError> {
        let failed = revoked.as_ref().err().map(ToString::to_string);
        if let Ok(revoked) = &revoked {
            details.push(("revoked", revoked.new.len().to_string()));
            details.push(("already", revoked.already.to_string()));
        }
        let recorded = self.record(by, "token.revoke", &details, failed.as_deref()).await;
        let revoked = revoked?;
        recorded.map_err(OperatorError::Unrecorded)?;
        let ids = revoked.new.iter().map(RevocationId::to_string).collect();
        Ok(Reply::Revoked { ids, already: revoked.already })
    }

    async fn status(&self) -> Result<Reply, OperatorError> {
        Ok(Reply::Status(Status {
            revocations: self.0.revocations.len() as u64,
            credentials: self.0.store.credentials().await?.into_iter().map(view).collect(),
            audit_head: self.0.audit.head(),
            root_key_ids: self.0.keys.public().into_iter().map(|(id, _)| id).collect(),
            seal_key_id: self.0.seal.key_id().to_string(),
        }))
    }

    /// Records, then does; records the failure too, if it fails.
    async fn recorded<T>(
        &self,
        by: &str,
        operation: &str,
        details: Details,
        work: impl Future<Output = Result<T, OperatorError>>,
    ) -> Result<T, OperatorError> {
        self.record(by, operation, &details, None).await?;
        let outcome = work.await;
        if let Err(error) = &outcome {
            self.record(by, operation, &details, Some(&error.to_string())).await?;
        }
        outcome
    }

    async fn record(
        &self,
        by: &str,
        operation: &str,
        details: &Details,
        error: Option<&str>,
    ) -> Result<(), crate::audit::AuditError> {
        let detail: Vec<_> = details.iter().map(|(key, text)| (*key, Raw::from(text.as_str()))).collect();
        self.0.audit.operator(&OperatorEntry { operation, by, detail: &detail, error: error.map(Raw::from) }).await
    }
}

fn check_credential(add: &CredentialAdd) -> Result<(), OperatorError> {
    let invalid = |text: &str| Err(OperatorError::Invalid(text.to_owned()));
    if add.hosts.is_empty() {
        return invalid("a credential needs the hosts that it may go to: name at least one");
    }
    if add.secret.as_str().len() > MAX_SECRET {
        return invalid("the secret is too large: at most 256 KiB are accepted");
    }
    if add.provider.is_empty() || add.kind.is_empty() {
        return invalid("a credential needs a provider and a kind, as `static` and `api_key`");
    }
    match serde_json::from_str::<serde_json::Value>(&add.settings) {
        // now, and not when somebody first needs it: a key that is none, a command that is not named
        Ok(settings @ serde_json::Value::Object(_)) => {
            check(&add.provider, &settings, Some(&Secret::new(add.secret.as_str()))).map_err(OperatorError::Invalid)
        }
        _ => invalid("the provider's settings must be a JSON object, as `{}`"),
    }
}

fn expiry(ttl: u64) -> Result<Timestamp, OperatorError> {
    if (1..=MAX_TTL).contains(&ttl) {
        Ok(now() + ttl)
    } else {
        Err(OperatorError::Invalid(format!("ttl `{ttl}` seconds is not a life time: use 1 second to 100 years")))
    }
}

fn claims(asked: &TokenMint) -> Result<Claims, OperatorError> {
    let candidates = match (&asked.spec, asked.grants.as_slice()) {
        (Some(spec), []) => Candidates::Spec(spec.clone()),
        (None, grants) => Candidates::Grants(grants.to_vec()),
        (Some(_), [_, ..]) => {
            return Err(OperatorError::Invalid("a token has a spec or grants, not both".into()));
        }
    };
    let mut facts = Vec::new();
    for text in &asked.facts {
        facts.extend(parse_facts(text)?);
    }
    Ok(Claims {
        candidates,
        bearer: asked.bearer.clone(),
        issued_by: None,
        facts,
        expires: expiry(asked.ttl)?,
        narrowings: asked.narrow.clone(),
        checks: asked.checks.iter().map(|text| parse_check(text)).collect::<Result<_, _>>()?,
    })
}

fn blank_record(minted: &Minted, expires: Timestamp) -> Result<TokenRecord, OperatorError> {
    let id = minted.revocation_ids.last().cloned();
    Ok(TokenRecord {
        id: id.ok_or_else(|| OperatorError::Invalid("the token has no revocation id".into()))?,
        kind: TokenKind::Bearer,
        label: None,
        issuer: None,
        bearer: String::new(),
        spec: None,
        grants: vec![],
        parent: None,
        created: now(),
        expires: Some(expires),
        lease_until: None,
        revoked: None,
    })
}

fn token_details(record: &TokenRecord) -> Details {
    vec![
        ("revocation_id", record.id.to_string()),
        ("bearer", record.bearer.clone()),
        ("issuer", record.issuer.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("spec", record.spec.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("grants", join(&record.grants)),
        ("expires", record.expires.map(|at| at.to_string()).unwrap_or_default()),
        ("label", record.label.clone().unwrap_or_default()),
    ]
}

fn join(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn view(record: CredentialRecord) -> CredentialView {
    CredentialView {
        name: record.name,
        service: record.service,
        provider: record.provider,
        kind: record.kind,
        hosts: record.hosts,
        settings: record.settings,
        generation: record.generation,
        seal_key_id: record.seal_key_id,
        state: record.state,
        created: record.created,
        updated: record.updated,
    }
}

fn token_view(record: TokenRecord) -> TokenView {
    TokenView {
        revocation_id: record.id.to_string(),
        kind: record.kind,
        label: record.label,
        issuer: record.issuer,
        bearer: record.bearer,
        spec: record.spec,
        grants: record.grants,
        parent: record.parent.map(|id| id.to_string()),
        created: record.created,
        expires: record.expires,
        lease_until: record.lease_until,
        revoked: record.revoked,
    }
}
