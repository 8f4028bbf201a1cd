//! The configuration in force, and how the last reload went.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::{Home, Snapshot, load};
use crate::words::{FileErrors, Timestamp};

/// The snapshot in force. Reading it takes no lock.
#[derive(Debug)]
pub struct Live {
    home: Home,
    current: ArcSwap<Snapshot>,
    outcome: watch::Sender<Arc<Reload>>,
    /// One reload at a time: the later one must not be overtaken by what was read before it.
    reloading: Mutex<()>,
}

/// How a reload went, for `kleis status`, metrics and the log.
#[derive(Debug, Clone)]
pub struct Reload {
    /// When it was tried.
    pub at: Timestamp,
    /// The generation in force afterwards.
    pub generation: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a reload.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// What the files say is in force.
    InForce {
        /// Keys that differ from what the daemon was started with and take effect at its next start.
        needs_restart: Vec<&'static str>,
    },
    /// Nothing has changed: what was in force still is.
    Failed(FileErrors),
}

impl Reload {
    /// What went wrong, if anything did.
    pub fn error(&self) -> Option<&FileErrors> {
        match &self.outcome {
            Outcome::InForce { .. } => None,
            Outcome::Failed(errors) => Some(errors),
        }
    }
}

impl Live {
    /// Loads for the first time: an error is the end of the start.
    pub fn open(home: Home) -> Result<Arc<Live>, FileErrors> {
        let snapshot = load(&home)?;
        let first = Reload {
            at: now(),
            generation: snapshot.generation,
            outcome: Outcome::InForce { needs_restart: Vec::new() },
        };
        Ok(Arc::new(Live {
            home,
            current: ArcSwap::from_pointee(snapshot),
            outcome: watch::Sender::new(Arc::new(first)),
            reloading: Mutex::new(()),
        }))
    }

    /// Where it is loaded from.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The snapshot in force. A request takes it once and keeps it to its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Loads again. The new snapshot is swapped in as a whole; a failure changes nothing (invariant 10)
    /// and stays visible in [`Live::last_reload`] until a reload succeeds. Files that say what is in
    /// force already make no new generation.
    pub fn reload(&self) -> Arc<Reload> {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.snapshot();
        let loaded = load(&self.home).and_then(|loaded| self.still_there(&before, loaded));
        let outcome = match loaded {
            Ok(loaded) => {
                // Compared with what is in force, whose listeners are those of the start.
                let needs_restart = loaded.config.needs_restart(&before.config);
                if loaded.digest != before.digest {
                    self.swap(&before, loaded);
                }
                Outcome::InForce { needs_restart }
            }
            Err(errors) => Outcome::Failed(errors),
        };
        let reload = Arc::new(Reload { at: now(), generation: self.snapshot().generation, outcome });
        self.outcome.send_replace(reload.clone());
        reload
    }

    /// How the last load went.
    pub fn last_reload(&self) -> Arc<Reload> {
        self.outcome.borrow().clone()
    }

    /// Sees each reload after it came to its end, also those that failed.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Reload>> {
        self.outcome.subscribe()
    }

    /// Once there was a `config.toml`, its absence is a mishap (an unmounted volume) and not a wish for
    /// defaults.
    fn still_there(&self, before: &Snapshot, loaded: Snapshot) -> Result<Snapshot, FileErrors> {
        if before.has_config_file && !loaded.has_config_file {
            let file = self.home.config_file().display().to_string();
            return Err(FileErrors::one(&file, "the file is gone: put it back, or start again to run on defaults"));
        }
        Ok(loaded)
    }

    fn swap(&self, before: &Snapshot, loaded: Snapshot) {
        // What can't change while running stays as it was started with, so that the next comparison
        // still sees the difference.
        let mut config = (*loaded.config).clone();
        config.listen.clone_from(&before.config.listen);
        config.audit_on_failure = before.config.audit_on_failure;
        let generation = before.generation + 1;
        self.current.store(Arc::new(Snapshot { generation, config: Arc::new(config), ..loaded }));
    }
}

fn now() -> Timestamp {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
