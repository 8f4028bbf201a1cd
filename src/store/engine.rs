//! What runs statements. The methods of [`super::Store`] are written once, over this; SQLite is the
//! engine now, and another one has only this to implement.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future that an engine gives back.
pub(super) type Running<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// Runs portable SQL: `$1` parameters, no dialect.
pub(super) trait Engine: Send + Sync + fmt::Debug {
    /// Runs one statement that changes nothing.
    fn read(&self, statement: Statement) -> Running<'_, Vec<Row>>;

    /// Runs statements in one transaction, on disk when it returns. If one of them fails, none has
    /// happened.
    fn write(&self, statements: Vec<Statement>) -> Running<'_, Vec<Written>>;

    /// Waits for what is being written, and closes.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// One statement with its values.
#[derive(Clone)]
pub(super) struct Statement {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Value>,
}

impl Statement {
    /// A statement without values. The text is ours: nothing from outside ever becomes SQL.
    pub(super) fn new(sql: &'static str) -> Statement {
        Statement { sql, values: Vec::new() }
    }

    /// Adds the next `$n`.
    pub(super) fn bind(mut self, value: impl Into<Value>) -> Statement {
        self.values.push(value.into());
        self
    }
}

impl fmt::Debug for Statement {
    /// Without the values: they may be sealed secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sql)
    }
}

/// A value, to the engine or from it.
#[derive(Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row of a result.
pub(super) type Row = Vec<Value>;

/// What a writing statement did.
#[derive(Default)]
pub(super) struct Written {
    /// Rows that it changed.
    pub(super) affected: u64,
    /// What `RETURNING` gave.
    pub(super) rows: Vec<Row>,
}

/// Why an engine could not do it.
#[derive(Debug, Clone)]
pub(super) enum EngineError {
    /// A key is taken.
    Unique,
    /// The file is damaged.
    Damaged(String),
    /// Anything else: a full disk, a file that is gone.
    Other(String),
    /// It is closed.
    Closed,
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<u64> for Value {
    /// Timestamps and counters: far below 2⁶³.
    fn from(number: u64) -> Value {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// Takes a row apart, column by column. Anything unexpected is `None`: the row was not written by us.
pub(super) struct Columns(std::vec::IntoIter<Value>);

impl Columns {
    pub(super) fn of(row: Row) -> Columns {
        Columns(row.into_iter())
    }

    pub(super) fn text(&mut self) -> Option<String> {
        self.optional_text()?
    }

    pub(super) fn optional_text(&mut self) -> Option<Option<String>> {
        match self.0.next()? {
            Value::Text(text) => Some(Some(text)),
            Value::Null => Some(None),
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.optional_number()?
    }

    pub(super) fn optional_number(&mut self) -> Option<Option<u64>> {
        match self.0.next()? {
            Value::Int(number) => Some(Some(u64::try_from(number).ok()?)),
            Value::Null => Some(None),
            _ => None,
        }
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        self.optional_bytes()?
    }

    pub(super) fn optional_bytes(&mut self) -> Option<Option<Vec<u8>>> {
        match self.0.next()? {
            Value::Bytes(bytes) => Some(Some(bytes)),
            Value::Null => Some(None),
            _ => None,
        }
    }
}
