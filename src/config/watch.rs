//! Reloading when files change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::Live;

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
    /// Begins to watch, in a thread of its own. Changes after it returns are seen.
    pub fn start(live: Arc<Live>) -> Result<Watcher, notify::Error> {
        let (send, notices) = mpsc::channel();
        let tell = send.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading is an access, too: heeding those would never end.
            if event.is_err() || event.is_ok_and(|event| changes(&event.kind)) {
                let _ = tell.send(Notice::Changed);
            }
        })?;
        let mut watched = Watched { watcher, folders: BTreeSet::new() };
        watched.follow(&live);
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
    folders: BTreeSet<PathBuf>,
}

impl Watched {
    /// Watches all folders where a change matters, and no others.
    fn follow(&mut self, live: &Live) {
        let wanted = folders(live);
        for gone in self.folders.difference(&wanted) {
            let _ = self.watcher.unwatch(gone);
        }
        // A folder that was replaced (renamed over) needs watching anew under the same name: watching
        // what is watched already changes nothing.
        self.folders = wanted;
        for folder in &self.folders {
            let _ = self.watcher.watch(folder, RecursiveMode::NonRecursive);
        }
    }
}

/// The folders of every file that is read, and of every symbolic link on the way there: Kubernetes swaps
/// a link next to the file's own, people link whole folders.
fn folders(live: &Live) -> BTreeSet<PathBuf> {
    let home = live.home();
    let config = home.config_dir();
    let mut paths: Vec<PathBuf> = vec![config.to_owned(), home.config_file()];
    for kind in ["services", "grants", "specs", "credentials"] {
        let folder = home.folder(kind);
        let files = std::fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        paths.extend(files);
        paths.push(folder);
    }
    paths.extend(live.snapshot().other_files());
    let mut folders = BTreeSet::new();
    for path in &paths {
        chain(path, &mut folders);
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Adds the folder of the path and of each link that it leads through; the path itself if it is a folder.
fn chain(path: &Path, folders: &mut BTreeSet<PathBuf>) {
    let mut path = path.to_owned();
    for _ in 0..8 {
        let Some(parent) = path.parent() else { return };
        folders.insert(parent.to_owned());
        if path.is_dir() {
            folders.insert(path.clone());
        }
        match std::fs::read_link(&path) {
            Ok(target) => path = parent.join(target),
            Err(_) => break,
        }
    }
    // Links among the parents: where it is in the end.
    if let Ok(real) = path.canonicalize()
        && let Some(parent) = real.parent()
    {
        folders.insert(parent.to_owned());
    }
}
