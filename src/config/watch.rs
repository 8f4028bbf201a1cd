//! Reloading when files change.

use std::sync::Arc;

use super::Live;

/// Watches `config/` and what its files name, and reloads. Stops when dropped.
#[derive(Debug)]
pub struct Watcher {}

impl Watcher {
    /// Begins to watch.
    pub fn start(live: Arc<Live>) -> Result<Watcher, notify::Error> {
        let _ = live;
        todo!()
    }
}
