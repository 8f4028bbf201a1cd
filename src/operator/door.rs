//! Opening the door: the lock, the keys, the store, the record.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Command, OperatorError, Reply};
use crate::audit::{Audit, AuditOptions, Verification, verify};
use crate::credential::{Seal, make_key, read_key};
use crate::store::{CredentialRecord, DataDir, Revocations, Store};
use crate::token::RootKeys;
use crate::words::Timestamp;

/// The one door. Cheap to clone.
#[derive(Clone)]
pub struct Operator(pub(super) Arc<Inner>);

type Listener = Arc<dyn Fn(Vec<CredentialRecord>) + Send + Sync>;

pub(super) struct Inner {
    /// Held for as long as anything here is in use.
    data: DataDir,
    pub(super) keys: Arc<RootKeys>,
    pub(super) seal: Seal,
    pub(super) store: Store,
    pub(super) audit: Audit,
    pub(super) revocations: Revocations,
    listener: Mutex<Option<Listener>>,
    /// Changes of credentials one after the other, so that the listener hears of them in order: one that
    /// was removed must not come back.
    pub(super) credentials: tokio::sync::Mutex<()>,
}

impl Operator {
    /// Takes the data directory's lock, makes what is missing (keys, database), opens the rest.
    pub async fn open(data: &Path, audit: AuditOptions) -> Result<Operator, OperatorError> {
        let data = DataDir::lock(data)?;
        let keys = Arc::new(root_keys(&data.root_key())?);
        let seal = Seal::load_or_make(&data.seal_key())?;
        let store = Store::open(&data.database()).await?;
        let audit = Audit::open(&data.audit(), &store, audit).await?;
        let revocations = Revocations::load(&store).await?;
        let (listener, credentials) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Operator(Arc::new(Inner { data, keys, seal, store, audit, revocations, listener, credentials })))
    }

    /// Does it, and records it. `by` is who asked: `uid:1000`, `kleisd`. Once begun it is done to the
    /// end, also when the caller goes away: a revocation on disk must not miss the memory.
    pub async fn execute(&self, by: &str, command: Command) -> Result<Reply, OperatorError> {
        let (door, by) = (self.clone(), by.to_owned());
        let done = tokio::spawn(async move { door.run(&by, command).await });
        done.await.map_err(|_| OperatorError::Closing)?
    }

    /// Tells all installed credentials, now and after each change, before the change is answered: what
    /// was added can be spent by the next request, what was removed can't.
    pub async fn on_credentials(
        &self,
        listener: impl Fn(Vec<CredentialRecord>) + Send + Sync + 'static,
    ) -> Result<(), OperatorError> {
        let _turn = self.0.credentials.lock().await;
        *self.0.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(listener));
        self.tell_credentials().await
    }

    pub(super) async fn tell_credentials(&self) -> Result<(), OperatorError> {
        let listener = self.0.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(self.0.store.credentials().await?);
        }
        Ok(())
    }

    /// The data directory, locked.
    pub fn data(&self) -> &DataDir {
        &self.0.data
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The record.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// The root keys.
    pub fn root_keys(&self) -> &Arc<RootKeys> {
        &self.0.keys
    }

    /// The seal, for a vault.
    pub fn seal(&self) -> &Seal {
        &self.0.seal
    }

    /// The revoked ids.
    pub fn revocations(&self) -> &Revocations {
        &self.0.revocations
    }

    /// Writes out what is pending and closes.
    pub async fn close(&self) -> Result<(), OperatorError> {
        let outcome = self.0.audit.close().await;
        self.0.store.close().await;
        Ok(outcome?)
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator({})", self.0.data.path().display())
    }
}

/// Verifies the record of a data directory, also beside a kleisd that writes to it.
pub async fn verify_record(data: &Path, node: &str) -> Result<Verification, OperatorError> {
    let database = data.join("kleis.db");
    let head = if database.exists() {
        let store = Store::read_beside(&database);
        let head = store.audit_head(node).await;
        store.close().await;
        head?
    } else {
        None
    };
    let dir = data.join("audit");
    let verified = tokio::task::spawn_blocking(move || verify(&dir, head.as_ref()));
    Ok(verified.await.map_err(|_| OperatorError::Closing)??)
}

/// Seconds since the epoch.
pub(super) fn now() -> Timestamp {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn root_keys(path: &Path) -> Result<RootKeys, OperatorError> {
    if let Some(keys) = read_root_keys(path)? {
        return Ok(keys);
    }
    make_key(path, &RootKeys::generate(&mut rand::rngs::OsRng).to_bytes())?;
    // Read back: whoever was first made the key that counts.
    read_root_keys(path)?.ok_or_else(|| OperatorError::Missing(format!("`{}` is gone again", path.display())))
}

fn read_root_keys(path: &Path) -> Result<Option<RootKeys>, OperatorError> {
    let Some(bytes) = read_key(path)? else { return Ok(None) };
    let keys = RootKeys::from_bytes(&bytes);
    keys.map(Some).map_err(|error| OperatorError::RootKeys { path: path.to_owned(), error })
}
