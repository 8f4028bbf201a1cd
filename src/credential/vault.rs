//! All credentials of one kleisd, and the live secrets made from them.

use std::sync::Arc;

use super::exchange::Exchange;
use super::live::{CredentialError, Declared, Installed, Live, State};
use super::seal::Seal;
use crate::policy::Narrowing;
use crate::words::CredentialName;

/// Installed and declared credentials, and a cache of what their providers gave.
pub struct Vault {
    _seal: Seal,
    _exchange: Arc<dyn Exchange>,
}

impl Vault {
    /// An empty vault.
    pub fn new(seal: Seal, exchange: Arc<dyn Exchange>) -> Vault {
        Vault { _seal: seal, _exchange: exchange }
    }

    /// Replaces all installed credentials: at start and after each change of the store. What did not
    /// change keeps its live secrets.
    pub fn set_installed(&self, _all: Vec<Installed>) {
        todo!()
    }

    /// Replaces all declared credentials: with each configuration snapshot. A declared one hides an
    /// installed one of the same name.
    pub fn set_declared(&self, _all: Vec<Declared>) {
        todo!()
    }

    /// A secret to spend now. One attempt at a time for each credential, generation and narrowing; all
    /// who wait get its result.
    pub async fn obtain(&self, _name: &CredentialName, _narrowing: &Narrowing) -> Result<Live, CredentialError> {
        todo!()
    }

    /// Every credential with its state, by name.
    pub fn states(&self) -> Vec<(CredentialName, State)> {
        todo!()
    }
}
