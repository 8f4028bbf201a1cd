//! The texts below `config/`.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Home;
use crate::words::FileErrors;

/// A larger file is not one that somebody wrote.
const MAX_FILE: u64 = 4 << 20;

/// One file as it was read.
#[derive(Debug, Clone)]
pub(super) struct TextFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// How errors name it: the path.
    pub(super) name: String,
    /// What it says.
    pub(super) text: String,
}

/// Every file of a configuration, each kind sorted by name.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) config: Option<TextFile>,
    pub(super) services: Vec<TextFile>,
    pub(super) grants: Vec<TextFile>,
    pub(super) specs: Vec<TextFile>,
    pub(super) credentials: Vec<TextFile>,
}

impl Files {
    /// Reads them all; what can't be read is an error, what is there and not read is a warning.
    pub(super) fn read(home: &Home, errors: &mut FileErrors, warnings: &mut Vec<String>) -> Files {
        let mut reader = Reader { errors, warnings };
        let config = home.config_file();
        Files {
            config: if config.exists() { reader.file(&config) } else { None },
            services: reader.folder(&home.folder("services"), "toml"),
            grants: reader.folder(&home.folder("grants"), "toml"),
            specs: reader.folder(&home.folder("specs"), "spec"),
            credentials: reader.folder(&home.folder("credentials"), "toml"),
        }
    }

    /// SHA-256 of all names and texts, and of one more file that the configuration names.
    pub(super) fn digest(&self, ca_file: Option<&Path>) -> [u8; 32] {
        let mut hash = Sha256::new();
        let folders = [&self.services, &self.grants, &self.specs, &self.credentials];
        for file in self.config.iter().chain(folders.into_iter().flatten()) {
            for part in [&file.name, &file.text] {
                hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
                hash.update(part);
            }
        }
        hash.update(ca_file.and_then(|path| fs::read(path).ok()).unwrap_or_default());
        hash.finalize().into()
    }
}

struct Reader<'r> {
    errors: &'r mut FileErrors,
    warnings: &'r mut Vec<String>,
}

impl Reader<'_> {
    /// The files of a folder with this ending. A folder that isn't there is empty.
    fn folder(&mut self, folder: &Path, ending: &str) -> Vec<TextFile> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.errors.extend(FileErrors::one(&folder.display().to_string(), format!("cannot be read: {error}")));
                return Vec::new();
            }
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        paths.retain(|path| self.belongs(path, ending));
        paths.iter().filter_map(|path| self.file(path)).collect()
    }

    /// Hidden files (Kubernetes keeps a mount's data in some) and what editors leave behind are passed
    /// over in silence, any other stranger with a warning: somebody may count on it.
    fn belongs(&mut self, path: &Path, ending: &str) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let ours = path.extension().is_some_and(|extension| extension == ending);
        let left_behind = name.starts_with('.') || name.starts_with('#') || name.ends_with(['~', '#']);
        if left_behind || name.ends_with(".kleis-new") || (ours && path.is_file()) {
            return ours && !left_behind;
        }
        self.warnings.push(format!("{} is not read: files here end in `.{ending}`", path.display()));
        false
    }

    fn file(&mut self, path: &Path) -> Option<TextFile> {
        let name = path.display().to_string();
        if let Err(error) = Home::check_mode(path) {
            self.errors.extend(FileErrors::one(&name, error.to_string()));
            return None;
        }
        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
        let problem = match read {
            Err(error) => format!("cannot be read: {error}"),
            Ok(length) if length as u64 > MAX_FILE => format!("is larger than {MAX_FILE} bytes"),
            Ok(_) => match String::from_utf8(bytes) {
                Ok(text) => return Some(TextFile { path: path.to_owned(), name, text }),
                Err(error) => format!("is not UTF-8 (at byte {})", error.utf8_error().valid_up_to()),
            },
        };
        self.errors.extend(FileErrors::one(&name, problem));
        None
    }
}
