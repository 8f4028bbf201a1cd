//! Secrets and tokens on the command line: never as arguments, which every user of the machine can
//! read in `/proc`, but from standard input, a file or a variable.

use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::operator::Confidential;

/// More than any key or token is long; a mistaken `@/dev/zero` ends here.
const MAX: u64 = 1 << 20;

/// Where a secret is read from: `-`, `@file` or `env:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `-`
    Stdin,
    /// `@path`
    File(PathBuf),
    /// `env:NAME`
    Env(String),
    /// Something else, which may well be the secret itself. It is dropped here and refused when it is
    /// to be read: an error of the argument parser would print it.
    Argument,
}

/// Why nothing could be read. Texts never hold what was read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Something else than a source, which may well be the secret itself: it is not repeated.
    #[error("a secret is never an argument: use `-` (standard input), `@file` or `env:NAME`")]
    NotASource,
    /// The file or standard input can't be read.
    #[error("can't read {what}: {error}")]
    Unreadable {
        /// Which.
        what: String,
        /// Why.
        error: std::io::Error,
    },
    /// The variable is not set or not UTF-8.
    #[error("the environment variable `{0}` is not set: export it, or use `-` or `@file`")]
    Unset(String),
    /// Nothing in it.
    #[error("{0} is empty")]
    Empty(String),
    /// Not UTF-8.
    #[error("{0} is not text: a secret is UTF-8 text")]
    NotText(String),
    /// More than 1 MiB.
    #[error("{0} is larger than 1 MiB: no secret is")]
    TooLarge(String),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Source, Self::Err> {
        if text == "-" {
            Ok(Source::Stdin)
        } else if let Some(path) = text.strip_prefix('@').filter(|path| !path.is_empty()) {
            Ok(Source::File(path.into()))
        } else if let Some(name) = text.strip_prefix("env:").filter(|name| !name.is_empty()) {
            Ok(Source::Env(name.to_owned()))
        } else {
            Ok(Source::Argument)
        }
    }
}

impl Source {
    /// Reads it. One newline at the end (LF or CRLF), which editors and `echo` add, is taken off.
    pub fn read(&self) -> Result<Confidential, InputError> {
        let what = self.to_string();
        let unreadable = |error| InputError::Unreadable { what: what.clone(), error };
        let mut bytes = Zeroizing::new(Vec::new());
        match self {
            Source::Argument => return Err(InputError::NotASource),
            Source::Stdin => std::io::stdin().lock().take(MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?,
            Source::File(path) => {
                let file = std::fs::File::open(path).map_err(unreadable)?;
                file.take(MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?
            }
            Source::Env(name) => {
                let value = std::env::var(name).map_err(|_| InputError::Unset(name.clone()))?;
                bytes.extend_from_slice(value.as_bytes());
                bytes.len()
            }
        };
        if bytes.len() as u64 > MAX {
            return Err(InputError::TooLarge(what));
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        if bytes.is_empty() {
            return Err(InputError::Empty(what));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| InputError::NotText(what))?;
        Ok(Confidential::from(text.to_owned()))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Stdin => f.write_str("standard input"),
            Source::File(path) => write!(f, "`{}`", path.display()),
            Source::Env(name) => write!(f, "the variable `{name}`"),
            Source::Argument => f.write_str("an argument"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_given_as_an_argument_is_refused_and_not_repeated() {
        let error = Source::from_str("ghp_0123456789").unwrap().read().unwrap_err().to_string();
        assert!(!error.contains("ghp_"), "{error}");
    }

    #[test]
    fn r59_one_newline_at_the_end_is_taken_off() {
        let dir = tempfile::tempdir().unwrap();
        for (content, secret) in [("tok\n", "tok"), ("tok\r\n", "tok"), ("tok", "tok"), ("tok\n\n", "tok\n")] {
            let path = dir.path().join("secret");
            std::fs::write(&path, content).unwrap();
            assert_eq!(Source::File(path).read().unwrap().as_str(), secret);
        }
    }

    #[test]
    fn an_empty_file_and_an_unset_variable_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty");
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(Source::File(path).read(), Err(InputError::Empty(_))));
        assert!(matches!(Source::from_str("env:KLEIS_NO_SUCH_VARIABLE").unwrap().read(), Err(InputError::Unset(_))));
    }
}
