//! What is wrong in a file that an operator wrote: which file, where, and what would be accepted.

use std::fmt;

/// One thing wrong in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file, as the operator knows it.
    pub file: String,
    /// 1-based, where it is known.
    pub line: Option<u32>,
    /// 1-based, in characters, where it is known.
    pub column: Option<u32>,
    /// Lower case, no full stop, what was given in backticks, what would be accepted.
    pub message: String,
}

impl fmt::Display for FileError {
    /// `file:line:column: message`, as editors jump to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        write!(f, ": {}", self.message)
    }
}

/// All that is wrong, never empty when it is an `Err`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileErrors(pub Vec<FileError>);

impl FileErrors {
    /// One error without a place.
    pub fn one(file: &str, message: impl Into<String>) -> FileErrors {
        FileErrors(vec![FileError { file: file.to_owned(), line: None, column: None, message: message.into() }])
    }

    /// One error at a byte offset of the text.
    pub fn at(file: &str, text: &str, offset: usize, message: impl Into<String>) -> FileErrors {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        FileErrors(vec![FileError {
            file: file.to_owned(),
            line: u32::try_from(line).ok(),
            column: u32::try_from(column).ok(),
            message: message.into(),
        }])
    }

    /// Adds the others.
    pub fn extend(&mut self, others: FileErrors) {
        self.0.extend(others.0);
    }

    /// `Ok` if there are none.
    pub fn into_result(self) -> Result<(), FileErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}
