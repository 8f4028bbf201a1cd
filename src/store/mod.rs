//! The store: what must survive (DESIGN §15).
//!
//! Typed methods over portable SQL; below them an engine (SQLite now) that runs statements. What a
//! method has returned `Ok` for is on disk: a process killed at any instant loses nothing that was
//! acknowledged.

mod credentials;
mod data_dir;
mod engine;
mod error;
mod records;
mod revocations;
mod schema;
mod sqlite;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use data_dir::{DataDir, DataDirError};
pub use error::StoreError;
pub use records::{
    AuditHead, CredentialRecord, CredentialState, Replacement, Swap, TokenFilter, TokenKind, TokenRecord,
};
pub use revocations::Revocations;
pub use tokens::Revoked;

use engine::{Columns, Engine, EngineError, Row, Statement, Written};

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    path: Arc<PathBuf>,
}

impl Store {
    /// Opens the database, makes it (0600) if there is none, and brings its tables up to date.
    pub async fn open(path: &Path) -> Result<Store, StoreError> {
        let engine = sqlite::SqliteEngine::open(path).await.map_err(|error| store_error(path, error))?;
        let store = Store { engine: Arc::new(engine), path: Arc::new(path.to_owned()) };
        match schema::found(store.engine.as_ref()).await.map_err(|error| store.error(error))? {
            Some(found) if found > schema::KNOWN => {
                store.close().await;
                return Err(StoreError::Newer { path: path.to_owned(), found, known: schema::KNOWN });
            }
            found => schema::migrate(store.engine.as_ref(), found.unwrap_or(0)).await.map_err(|e| store.error(e))?,
        }
        Ok(store)
    }

    /// Reads the database beside the process that owns it, as `kleis audit verify` does. Every write
    /// fails.
    pub fn read_beside(path: &Path) -> Store {
        Store { engine: Arc::new(sqlite::SqliteEngine::beside(path)), path: Arc::new(path.to_owned()) }
    }

    /// Waits for what is being written, and closes the database.
    pub async fn close(&self) {
        self.engine.close().await;
    }

    /// Where a node's audit chain stands.
    pub async fn audit_head(&self, node: &str) -> Result<Option<AuditHead>, StoreError> {
        const SQL: &str = "SELECT seq, hash FROM audit_heads WHERE node_id = $1";
        let Some(row) = self.read(Statement::new(SQL).bind(node)).await?.into_iter().next() else { return Ok(None) };
        let mut columns = Columns::of(row);
        let (Some(seq), Some(hash)) = (columns.number(), columns.text()) else { return Err(StoreError::Row("head")) };
        Ok(Some(AuditHead { seq, hash }))
    }

    /// Keeps where a node's audit chain stands.
    pub async fn set_audit_head(&self, node: &str, head: &AuditHead) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO audit_heads (node_id, seq, hash) VALUES ($1, $2, $3)
             ON CONFLICT (node_id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash";
        let statement = Statement::new(SQL).bind(node).bind(head.seq).bind(head.hash.as_str());
        self.write(vec![statement]).await.map(drop)
    }

    async fn read(&self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        self.engine.read(statement).await.map_err(|error| self.error(error))
    }

    async fn write(&self, statements: Vec<Statement>) -> Result<Vec<Written>, StoreError> {
        self.engine.write(statements).await.map_err(|error| self.error(error))
    }

    async fn write_unique(
        &self,
        what: &'static str,
        name: &str,
        statements: Vec<Statement>,
    ) -> Result<Vec<Written>, StoreError> {
        self.engine.write(statements).await.map_err(|error| match error {
            EngineError::Unique => StoreError::Exists { what, name: name.to_owned() },
            other => self.error(other),
        })
    }

    fn error(&self, error: EngineError) -> StoreError {
        store_error(&self.path, error)
    }
}

fn store_error(path: &Path, error: EngineError) -> StoreError {
    match error {
        EngineError::Unique => StoreError::Engine("a key is taken".into()),
        EngineError::Damaged(what) => StoreError::Damaged { path: path.to_owned(), what },
        EngineError::Other(what) => StoreError::Engine(what),
        EngineError::Closed => StoreError::Closed,
    }
}

#[cfg(test)]
mod tests;
