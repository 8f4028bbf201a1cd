//! Installed credentials, sealed.

use super::engine::{Columns, Row, Statement};
use super::{CredentialRecord, CredentialState, Replacement, Store, StoreError, Swap};
use crate::words::{CredentialName, ServiceName};

const COLUMNS_OF: &str = "SELECT name, service, provider, kind, hosts, settings, generation, seal_key_id, sealed, source, state, created, updated
     FROM credentials WHERE name = $1";
const COLUMNS_OF_ALL: &str = "SELECT name, service, provider, kind, hosts, settings, generation, seal_key_id, sealed, source, state, created, updated
     FROM credentials ORDER BY name";
const INSERT: &str = "INSERT INTO credentials
     (name, service, provider, kind, hosts, settings, generation, seal_key_id, sealed, source, state, created, updated)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const REPLACE: &str =
    "UPDATE credentials SET generation = generation + 1, seal_key_id = $1, sealed = $2, state = $3, updated = $4
     WHERE name = $5 AND generation = $6";
const RESTATE: &str = "UPDATE credentials SET state = $1, updated = $2 WHERE name = $3 AND generation = $4";

impl Store {
    /// Adds a credential; [`StoreError::Exists`] if the name is taken.
    pub async fn insert_credential(&self, credential: &CredentialRecord) -> Result<(), StoreError> {
        let statement = Statement::new(INSERT)
            .bind(credential.name.as_str())
            .bind(credential.service.as_str())
            .bind(credential.provider.as_str())
            .bind(credential.kind.as_str())
            .bind(json(&credential.hosts)?)
            .bind(credential.settings.as_str())
            .bind(credential.generation)
            .bind(credential.seal_key_id.as_str())
            .bind(credential.sealed.as_slice())
            .bind(credential.source.as_deref())
            .bind(json(&credential.state)?)
            .bind(credential.created)
            .bind(credential.updated);
        self.write_unique("credential", credential.name.as_str(), vec![statement]).await.map(drop)
    }

    /// One credential.
    pub async fn credential(&self, name: &CredentialName) -> Result<Option<CredentialRecord>, StoreError> {
        let rows = self.read(Statement::new(COLUMNS_OF).bind(name.as_str())).await?;
        rows.into_iter().next().map(credential_record).transpose()
    }

    /// All credentials, by name.
    pub async fn credentials(&self) -> Result<Vec<CredentialRecord>, StoreError> {
        self.read(Statement::new(COLUMNS_OF_ALL)).await?.into_iter().map(credential_record).collect()
    }

    /// Replaces a credential's material if its generation is still the expected one. Two processes that
    /// refresh at the same time can't overwrite each other: one of them loses, and reads again.
    pub async fn replace_credential(&self, name: &CredentialName, with: &Replacement) -> Result<Swap, StoreError> {
        let statement = Statement::new(REPLACE)
            .bind(with.seal_key_id.as_str())
            .bind(with.sealed.as_slice())
            .bind(json(&with.state)?)
            .bind(with.at)
            .bind(name.as_str())
            .bind(with.expected);
        Ok(if self.affected(statement).await? { Swap::Done(with.expected + 1) } else { Swap::Lost })
    }

    /// Says how a credential is doing, if its generation is still the expected one. Whether it was.
    pub async fn set_credential_state(
        &self,
        name: &CredentialName,
        expected: u64,
        state: &CredentialState,
        at: crate::words::Timestamp,
    ) -> Result<bool, StoreError> {
        let statement = Statement::new(RESTATE).bind(json(state)?).bind(at).bind(name.as_str()).bind(expected);
        self.affected(statement).await
    }

    /// Takes the place of a credential whatever its generation: hosts, provider and all. The new
    /// generation.
    pub async fn overwrite_credential(&self, credential: &CredentialRecord) -> Result<u64, StoreError> {
        const SQL: &str = "UPDATE credentials SET service = $1, provider = $2, kind = $3, hosts = $4, settings = $5,
             generation = generation + 1, seal_key_id = $6, sealed = $7, source = $8, state = $9, updated = $10
             WHERE name = $11 RETURNING generation";
        let statement = Statement::new(SQL)
            .bind(credential.service.as_str())
            .bind(credential.provider.as_str())
            .bind(credential.kind.as_str())
            .bind(json(&credential.hosts)?)
            .bind(credential.settings.as_str())
            .bind(credential.seal_key_id.as_str())
            .bind(credential.sealed.as_slice())
            .bind(credential.source.as_deref())
            .bind(json(&credential.state)?)
            .bind(credential.updated)
            .bind(credential.name.as_str());
        let written = self.write(vec![statement]).await?;
        let row = written.into_iter().flat_map(|w| w.rows).next().ok_or(StoreError::Row("credential"))?;
        Columns::of(row).number().ok_or(StoreError::Row("credential"))
    }

    /// Removes a credential. Whether there was one.
    pub async fn remove_credential(&self, name: &CredentialName) -> Result<bool, StoreError> {
        self.affected(Statement::new("DELETE FROM credentials WHERE name = $1").bind(name.as_str())).await
    }

    async fn affected(&self, statement: Statement) -> Result<bool, StoreError> {
        Ok(self.write(vec![statement]).await?.iter().any(|written| written.affected > 0))
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Engine(error.to_string()))
}

fn credential_record(row: Row) -> Result<CredentialRecord, StoreError> {
    read_credential(&mut Columns::of(row)).ok_or(StoreError::Row("credential"))
}

fn read_credential(columns: &mut Columns) -> Option<CredentialRecord> {
    Some(CredentialRecord {
        name: CredentialName::parse(&columns.text()?).ok()?,
        service: ServiceName::parse(&columns.text()?).ok()?,
        provider: columns.text()?,
        kind: columns.text()?,
        hosts: serde_json::from_str(&columns.text()?).ok()?,
        settings: columns.text()?,
        generation: columns.number()?,
        seal_key_id: columns.text()?,
        sealed: columns.bytes()?,
        source: columns.optional_text()?,
        state: serde_json::from_str(&columns.text()?).ok()?,
        created: columns.number()?,
        updated: columns.number()?,
    })
}
