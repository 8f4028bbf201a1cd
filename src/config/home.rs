//! The home: where configuration and state are.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `$KLEIS_HOME/{config,data}`, else `$XDG_CONFIG_HOME/kleis` and `$XDG_STATE_HOME/kleis`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    config: PathBuf,
    data: PathBuf,
}

/// Why the home can't be used. Says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// Nothing says where it is.
    #[error("no home: set `KLEIS_HOME` (or `HOME`) to an absolute path")]
    Unknown,
    /// A relative path would be another home in another directory.
    #[error("`{variable}` is `{given}`, which is not an absolute path", given = given.display())]
    Relative {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        given: PathBuf,
    },
    /// Others may change what decides.
    #[error("`{path}` can be written by everybody (mode {mode:04o}): run `chmod o-w {path}`", path = path.display())]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The system refused.
    #[error("cannot {action} `{path}`: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// The folders of `config/` that hold files of one kind.
pub(super) const FOLDERS: [&str; 4] = ["services", "grants", "specs", "credentials"];

impl Home {
    /// The home of this process's environment.
    pub fn find() -> Result<Home, HomeError> {
        Home::find_in(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
    }

    /// The home of an environment.
    pub fn find_in(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Home, HomeError> {
        let absolute = |name: &'static str| match variable(name) {
            Some(given) if given.is_relative() => Err(HomeError::Relative { variable: name, given }),
            value => Ok(value),
        };
        if let Some(home) = absolute("KLEIS_HOME")? {
            return Ok(Home::at(&home));
        }
        let fallback = |name, below: &str| match absolute(name)? {
            Some(dir) => Ok(dir.join("kleis")),
            None => Ok(absolute("HOME")?.ok_or(HomeError::Unknown)?.join(below).join("kleis")),
        };
        Ok(Home { config: fallback("XDG_CONFIG_HOME", ".config")?, data: fallback("XDG_STATE_HOME", ".local/state")? })
    }

    /// `DIR/config` and `DIR/data`.
    pub fn at(dir: &Path) -> Home {
        Home { config: dir.join("config"), data: dir.join("data") }
    }

    /// `config/`
    pub fn config_dir(&self) -> &Path {
        &self.config
    }

    /// `data/`: private, and of one process at a time ([`crate::store::DataDir`]).
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// `config/config.toml`
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// `config/services`, `grants`, `specs` or `credentials`.
    pub fn folder(&self, kind: &str) -> PathBuf {
        self.config.join(kind)
    }

    /// `data/control.sock`
    pub fn control_socket(&self) -> PathBuf {
        self.data.join("control.sock")
    }

    /// Makes the folders of the configuration that are not there, for their owner alone.
    pub fn create(&self) -> Result<(), HomeError> {
        let made = std::iter::once(self.config.clone()).chain(FOLDERS.iter().map(|folder| self.folder(folder)));
        for dir in made.chain([self.data.clone()]) {
            let built = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
            built.map_err(|source| HomeError::Io { action: "make", path: dir, source })?;
        }
        Ok(())
    }

    /// Writes a file of the configuration (`grants/acme.toml`) for its owner alone: beside its
    /// destination, then renamed over it, so that nobody ever reads half of it.
    pub fn write(&self, path: &str, text: &str) -> Result<PathBuf, HomeError> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.config.join(path);
        let beside = path.with_extension("kleis-new");
        let io = |action: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| HomeError::Io { action, path, source }
        };
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(io("make", parent))?;
        }
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&beside).map_err(io("write", &beside))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io("write", &beside))?;
        std::fs::rename(&beside, &path).map_err(io("write", &path))?;
        Ok(path)
    }

    /// Refuses a file that everybody may write: what decides about credentials is not for everybody.
    pub fn check_mode(path: &Path) -> Result<(), HomeError> {
        let metadata = std::fs::metadata(path);
        let metadata = metadata.map_err(|source| HomeError::Io { action: "read", path: path.to_owned(), source })?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o002 != 0 {
            return Err(HomeError::Writable { path: path.to_owned(), mode });
        }
        Ok(())
    }
}
