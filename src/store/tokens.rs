//! Issued tokens and revocations.

use super::engine::{Columns, Row, Statement, Written};
use super::{Store, StoreError, TokenFilter, TokenKind, TokenRecord};
use crate::token::RevocationId;
use crate::words::{GrantName, IssuerName, SpecName, Timestamp};

const INSERT: &str =
    "INSERT INTO tokens (id, kind, label, issuer, bearer, spec, grants, parent, created, expires, lease_until)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// One text for each filter: portable, and nothing is ever glued together.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT t.id, t.kind, t.label, t.issuer, t.bearer, t.spec, t.grants, t.parent, t.created, t.expires,
                    t.lease_until, r.at
             FROM tokens t LEFT JOIN revocations r ON r.id = t.id ",
            $condition,
            " ORDER BY t.created DESC, t.id"
        )
    };
}

/// Revokes what matches and is not over yet; `$1` is now, `$2` the filter's value.
macro_rules! revoke {
    ($condition:literal) => {
        concat!(
            "INSERT INTO revocations (id, at, expires)
             SELECT id, $1, expires FROM tokens WHERE (expires IS NULL OR expires > $1) ",
            $condition,
            " ON CONFLICT (id) DO NOTHING RETURNING id"
        )
    };
}

macro_rules! count {
    ($condition:literal) => {
        concat!("SELECT COUNT(*) FROM tokens WHERE (expires IS NULL OR expires > $1) ", $condition)
    };
}

/// What a revocation changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revoked {
    /// Ids that are revoked now and weren't before.
    pub new: Vec<RevocationId>,
    /// How many of those asked for were revoked already.
    pub already: u64,
}

impl Store {
    /// Records a token that was issued.
    pub async fn insert_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        let grants: Vec<&str> = token.grants.iter().map(GrantName::as_str).collect();
        let statement = Statement::new(INSERT)
            .bind(token.id.as_bytes())
            .bind(kind_text(token.kind))
            .bind(token.label.as_deref())
            .bind(token.issuer.as_ref().map(IssuerName::as_str))
            .bind(token.bearer.as_str())
            .bind(token.spec.as_ref().map(SpecName::as_str))
            .bind(serde_json::to_string(&grants).map_err(|error| StoreError::Engine(error.to_string()))?)
            .bind(token.parent.as_ref().map(RevocationId::as_bytes))
            .bind(token.created)
            .bind(token.expires)
            .bind(token.lease_until);
        self.write_unique("token", &token.id.to_string(), vec![statement]).await.map(drop)
    }

    /// One token.
    pub async fn token(&self, id: &RevocationId) -> Result<Option<TokenRecord>, StoreError> {
        let rows = self.read(Statement::new(select!("WHERE t.id = $1")).bind(id.as_bytes())).await?;
        rows.into_iter().next().map(token_record).transpose()
    }

    /// Tokens, the newest first.
    pub async fn tokens(&self, filter: &TokenFilter) -> Result<Vec<TokenRecord>, StoreError> {
        let statement = match filter {
            TokenFilter::All => Statement::new(select!("")),
            TokenFilter::Bearer(bearer) => Statement::new(select!("WHERE t.bearer = $1")).bind(bearer.as_str()),
            TokenFilter::Issuer(issuer) => Statement::new(select!("WHERE t.issuer = $1")).bind(issuer.as_str()),
            TokenFilter::Spec(spec) => Statement::new(select!("WHERE t.spec = $1")).bind(spec.as_str()),
        };
        self.read(statement).await?.into_iter().map(token_record).collect()
    }

    /// Revokes ids, known or not. On disk when it returns. Callers go through
    /// [`crate::operator::Operator`], which also tells [`super::Revocations`].
    pub async fn revoke(&self, ids: &[RevocationId], at: Timestamp) -> Result<Revoked, StoreError> {
        const SQL: &str =
            "INSERT INTO revocations (id, at, expires) VALUES ($1, $2, (SELECT expires FROM tokens WHERE id = $1))
             ON CONFLICT (id) DO NOTHING RETURNING id";
        let statements = ids.iter().map(|id| Statement::new(SQL).bind(id.as_bytes()).bind(at)).collect();
        let written = self.write(statements).await?;
        let new = returned_ids(written)?;
        let already = ids.len().saturating_sub(new.len()) as u64;
        Ok(Revoked { new, already })
    }

    /// Revokes every token that matches now and has not expired. On disk when it returns.
    pub async fn revoke_matching(&self, filter: &TokenFilter, at: Timestamp) -> Result<Revoked, StoreError> {
        let (count, revoke, value) = match filter {
            TokenFilter::All => (count!(""), revoke!(""), None),
            TokenFilter::Bearer(bearer) => {
                (count!("AND bearer = $2"), revoke!("AND bearer = $2"), Some(bearer.as_str()))
            }
            TokenFilter::Issuer(issuer) => {
                (count!("AND issuer = $2"), revoke!("AND issuer = $2"), Some(issuer.as_str()))
            }
            TokenFilter::Spec(spec) => (count!("AND spec = $2"), revoke!("AND spec = $2"), Some(spec.as_str())),
        };
        let with_value = |sql| {
            let statement = Statement::new(sql).bind(at);
            value.into_iter().fold(statement, |statement, value| statement.bind(value))
        };
        let mut written = self.write(vec![with_value(count), with_value(revoke)]).await?.into_iter();
        let matching = written.next().unwrap_or_default().rows.into_iter().next();
        let matching = matching.and_then(|row| Columns::of(row).number()).ok_or(StoreError::Row("count"))?;
        let new = returned_ids(written.collect())?;
        let already = matching.saturating_sub(new.len() as u64);
        Ok(Revoked { new, already })
    }

    /// Every revoked id.
    pub async fn revoked(&self) -> Result<Vec<RevocationId>, StoreError> {
        let rows = self.read(Statement::new("SELECT id FROM revocations")).await?;
        rows.into_iter().map(revocation_id).collect()
    }
}

fn returned_ids(written: Vec<Written>) -> Result<Vec<RevocationId>, StoreError> {
    written.into_iter().flat_map(|w| w.rows).map(revocation_id).collect()
}

fn revocation_id(row: Row) -> Result<RevocationId, StoreError> {
    let bytes = Columns::of(row).bytes().ok_or(StoreError::Row("revocation"))?;
    Ok(RevocationId::new(&bytes))
}

fn kind_text(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Bearer => "bearer",
        TokenKind::Issuer => "issuer",
    }
}

fn token_record(row: Row) -> Result<TokenRecord, StoreError> {
    read_token(&mut Columns::of(row)).ok_or(StoreError::Row("token"))
}

fn read_token(columns: &mut Columns) -> Option<TokenRecord> {
    Some(TokenRecord {
        id: RevocationId::new(&columns.bytes()?),
        kind: match columns.text()?.as_str() {
            "bearer" => TokenKind::Bearer,
            "issuer" => TokenKind::Issuer,
            _ => return None,
        },
        label: columns.optional_text()?,
        issuer: parsed(columns.optional_text()?, IssuerName::parse)?,
        bearer: columns.text()?,
        spec: parsed(columns.optional_text()?, SpecName::parse)?,
        grants: serde_json::from_str(&columns.text()?).ok()?,
        parent: columns.optional_bytes()?.map(|bytes| RevocationId::new(&bytes)),
        created: columns.number()?,
        expires: columns.optional_number()?,
        lease_until: columns.optional_number()?,
        revoked: columns.optional_number()?,
    })
}

fn parsed<T, E>(text: Option<String>, parse: impl Fn(&str) -> Result<T, E>) -> Option<Option<T>> {
    text.map(|text| parse(&text)).transpose().ok()
}
