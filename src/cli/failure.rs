//! How a command ends when it does not end well.

use std::process::ExitCode;

/// A failure, by what the caller does about it. The text says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The answer is no: denied, not verified, a test failed. Everything has been printed already when
    /// the text is empty.
    #[error("{0}")]
    No(String),
    /// The command line, or a file that an operator wrote, is wrong.
    #[error("{0}")]
    Usage(String),
    /// Something outside: no daemon, no permission, a disk, another process.
    #[error("{0}")]
    Outside(String),
}

impl Failure {
    /// From an error about what was given.
    pub fn usage(error: impl std::fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }

    /// From an error about the surroundings.
    pub fn outside(error: impl std::fmt::Display) -> Failure {
        Failure::Outside(error.to_string())
    }

    /// 1 no, 2 usage, 3 outside: documented in `kleis --help`.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::No(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Outside(_) => 3,
        })
    }
}

impl From<crate::words::FileErrors> for Failure {
    fn from(errors: crate::words::FileErrors) -> Failure {
        Failure::usage(errors)
    }
}

impl From<super::input::InputError> for Failure {
    fn from(error: super::input::InputError) -> Failure {
        Failure::usage(error)
    }
}

impl From<crate::operator::OperatorError> for Failure {
    fn from(error: crate::operator::OperatorError) -> Failure {
        use crate::operator::OperatorError as E;
        match error {
            E::Mint(_) | E::Source(_) | E::Invalid(_) | E::Missing(_) => Failure::usage(error),
            _ => Failure::outside(error),
        }
    }
}
