//! Reloading when files change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::Live;
use super::home::FOLDERS;

/// Changes come in bursts (a directory of files is copied): a reload waits for this much quiet.
const QUIET: Duration = Duration::from_millis(100);
/// And no longer than this, however many changes come.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches `config/` and what its files name, and reloads. Stops when dropped.
#[derive(Debug)]
pub struct Watcher {
    stop: Sender<Notice>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
enum Notice {
    Changed,
    Stop,
}

impl Watcher {
    /// Begins to watch, in a thread of its own. Changes since `live` was loaded are seen, too.
    pub fn start(live: Arc<Live>) -> Result<Watcher, notify::Error> {
        let (send, notices) = mpsc::channel();
        let interest = Arc::new(ArcSwap::from_pointee(Interest::of(&live)));
        let (tell, heeded) = (send.clone(), interest.clone());
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // What can't be told (a queue that ran over) may have been anything.
            if event.map_or(true, |event| changes(&event.kind) && heeded.load().heeds(&event.paths)) {
                let _ = tell.send(Notice::Changed);
            }
        })?;
        let mut watched = Watched { watcher, interest, folders: BTreeSet::new() };
        watched.follow(&live);
        // Something may have changed between the first load and now.
        let _ = send.send(Notice::Changed);
        let run = move || run(&live, &mut watched, &notices);
        let thread =
            std::thread::Builder::new().name("config-watch".to_owned()).spawn(run).map_err(notify::Error::io)?;
        Ok(Watcher { stop: send, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.stop.send(Notice::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Our own reading is an access, too: heeding those would never end.
fn changes(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(access) => matches!(access, AccessKind::Close(AccessMode::Write)),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}

fn run(live: &Live, watched: &mut Watched, notices: &Receiver<Notice>) {
    while let Ok(Notice::Changed) = notices.recv() {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match notices.recv_timeout(QUIET) {
                Ok(Notice::Changed) => {}
                Ok(Notice::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        // Followed before reading: a change between the two is noticed again.
        watched.follow(live);
        live.reload();
        // And after: the new configuration may name files elsewhere.
        watched.follow(live);
    }
}

struct Watched {
    watcher: RecommendedWatcher,
    interest: Arc<ArcSwap<Interest>>,
    folders: BTreeSet<PathBuf>,
}

impl Watched {
    /// Watches all folders where a change matters, and no others.
    fn follow(&mut self, live: &Live) {
        let interest = Interest::of(live);
        let wanted = interest.watched();
        self.interest.store(Arc::new(interest));
        for gone in self.folders.difference(&wanted) {
            let _ = self.watcher.unwatch(gone);
        }
        self.folders = wanted;
        for folder in &self.folders {
            // A folder that was replaced under the same name needs watching anew; for one that is watched
            // already this changes nothing.
            let _ = self.watcher.watch(folder, RecursiveMode::NonRecursive);
        }
    }
}

/// Where a change may matter.
#[derive(Debug, Default)]
struct Interest {
    /// Folders in which any file matters.
    folders: BTreeSet<PathBuf>,
    /// Files and links that are read, and where each link on the way leads: Kubernetes swaps a link beside
    /// the file's own, people link whole folders.
    names: BTreeSet<PathBuf>,
}

impl Interest {
    fn of(live: &Live) -> Interest {
        let mut interest = Interest::default();
        let home = live.home();
        interest.folder(home.config_dir());
        for kind in FOLDERS {
            interest.folder(&home.folder(kind));
        }
        interest.name(&home.config_file());
        live.snapshot().other_files().iter().for_each(|file| interest.name(file));
        interest
    }

    /// Takes in a folder, under every name that it has, and its files.
    fn folder(&mut self, folder: &Path) {
        self.name(folder);
        self.folders.insert(folder.to_owned());
        self.folders.extend(folder.canonicalize());
        let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        files.for_each(|file| self.name(&file));
    }

    /// Takes in a path, what it leads to step by step, and where it is in the end.
    fn name(&mut self, path: &Path) {
        let mut path = path.to_owned();
        for _ in 0..8 {
            self.names.insert(path.clone());
            match (std::fs::read_link(&path), path.parent()) {
                (Ok(target), Some(parent)) => path = parent.join(target),
                _ => break,
            }
        }
        self.names.extend(path.canonicalize());
    }

    /// The folders to watch: those of every name.
    fn watched(&self) -> BTreeSet<PathBuf> {
        let parents = self.names.iter().filter_map(|name| name.parent()).map(Path::to_owned);
        parents.chain(self.folders.iter().cloned()).filter(|folder| folder.is_dir()).collect()
    }

    /// Whether a change of one of these paths matters. A folder that is watched for one file's sake (it
    /// may be `/tmp`) has others that don't.
    fn heeds(&self, paths: &[PathBuf]) -> bool {
        paths.is_empty()
            || paths.iter().any(|path| {
                path.parent().is_some_and(|parent| self.folders.contains(parent))
                    || self.names.iter().any(|name| name.starts_with(path))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_beside_a_file_matters_only_if_it_is_on_the_way_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("..v1")).unwrap();
        std::fs::write(root.join("..v1/key"), "x").unwrap();
        std::os::unix::fs::symlink("..v1", root.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/key", root.join("key")).unwrap();
        let mut interest = Interest::default();
        interest.name(&root.join("key"));
        assert!(interest.heeds(&[root.join("..data")]) && interest.heeds(&[root.join("key")]));
        assert!(interest.heeds(&[root.join("..v1/key")]) && !interest.heeds(&[root.join("other")]));
        assert!(interest.watched().contains(&root.join("..v1")) && interest.watched().contains(&root));
        interest.folder(&root);
        assert!(interest.heeds(&[root.join("other")]));
    }
}
