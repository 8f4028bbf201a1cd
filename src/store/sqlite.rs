//! The engine on SQLite: one writer that commits in groups, a few readers.
//!
//! WAL with `synchronous = FULL`: a commit returns when the log is synced. Whatever arrives while one
//! commit is being synced goes into the next one together, so that a thousand callers pay for a handful
//! of syncs.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Either, Executor, Row as _, Sqlite, SqlitePool, TypeInfo, ValueRef};
use tokio::sync::{mpsc, oneshot};

use super::engine::{Engine, EngineError, Row, Running, Statement, Value, Written};

/// Jobs that wait for the writer before callers wait for room.
const QUEUE: usize = 1024;
/// Jobs in one commit.
const GROUP: usize = 256;
/// Reading connections.
const READERS: u32 = 4;

type Answer = Result<Vec<Written>, EngineError>;

enum Job {
    Write(Vec<Statement>, oneshot::Sender<Answer>),
    Close(oneshot::Sender<()>),
}

/// A database file.
#[derive(Debug)]
pub(super) struct SqliteEngine {
    readers: SqlitePool,
    writer: mpsc::Sender<Job>,
}

impl SqliteEngine {
    /// Opens the file, makes it (0600) if there is none, and looks whether it is whole.
    pub(super) async fn open(path: &Path) -> Result<SqliteEngine, EngineError> {
        // SQLite would make it with whatever the umask leaves; its log files copy the mode.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(EngineError::Other(error.to_string())),
        }
        let options = options(path).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        let mut connection = SqliteConnection::connect_with(&options).await.map_err(engine_error)?;
        check(&mut connection).await?;
        let (writer, jobs) = mpsc::channel(QUEUE);
        tokio::spawn(run_writer(connection, jobs));
        Ok(SqliteEngine { readers: readers(path), writer })
    }

    /// Reads beside the process that owns the file. Every write fails.
    pub(super) fn beside(path: &Path) -> SqliteEngine {
        let (writer, _) = mpsc::channel(1);
        SqliteEngine { readers: readers(path), writer }
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::from_secs(5))
        .row_buffer_size(4096)
        .disable_statement_logging()
}

fn readers(path: &Path) -> SqlitePool {
    SqlitePoolOptions::new().max_connections(READERS).connect_lazy_with(options(path).read_only(true))
}

async fn check(connection: &mut SqliteConnection) -> Result<(), EngineError> {
    let rows = run(connection, &Statement::new("PRAGMA quick_check(1)")).await?.rows;
    match rows.into_iter().flatten().next() {
        Some(Value::Text(verdict)) if verdict == "ok" => Ok(()),
        Some(Value::Text(verdict)) => Err(EngineError::Damaged(verdict)),
        _ => Err(EngineError::Damaged("it can't be checked".into())),
    }
}

impl Engine for SqliteEngine {
    fn read(&self, statement: Statement) -> Running<'_, Vec<Row>> {
        Box::pin(async move {
            let mut connection = self.readers.acquire().await.map_err(engine_error)?;
            Ok(run(&mut connection, &statement).await?.rows)
        })
    }

    fn write(&self, statements: Vec<Statement>) -> Running<'_, Vec<Written>> {
        Box::pin(async move {
            let (answer, done) = oneshot::channel();
            self.writer.send(Job::Write(statements, answer)).await.map_err(|_| EngineError::Closed)?;
            done.await.map_err(|_| EngineError::Closed)?
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // The writer is the last to go: only a connection that may write moves the log into the file.
            self.readers.close().await;
            let (answer, done) = oneshot::channel();
            if self.writer.send(Job::Close(answer)).await.is_ok() {
                let _ = done.await;
            }
        })
    }
}

async fn run_writer(mut connection: SqliteConnection, mut jobs: mpsc::Receiver<Job>) {
    let mut batch = Vec::with_capacity(GROUP);
    while jobs.recv_many(&mut batch, GROUP).await > 0 {
        let mut group = Vec::with_capacity(batch.len());
        let mut closing = None;
        for job in batch.drain(..) {
            match job {
                Job::Write(statements, answer) => group.push((statements, answer)),
                Job::Close(answer) => closing = Some(answer),
            }
        }
        commit_group(&mut connection, group).await;
        if let Some(answer) = closing {
            jobs.close();
            let _ = connection.close().await;
            let _ = answer.send(());
            return;
        }
    }
    let _ = connection.close().await;
}

/// All jobs in one commit; if any fails, each in its own, so that only the guilty one is told so.
async fn commit_group(connection: &mut SqliteConnection, group: Vec<(Vec<Statement>, oneshot::Sender<Answer>)>) {
    let jobs: Vec<&[Statement]> = group.iter().map(|(statements, _)| statements.as_slice()).collect();
    if let Ok(results) = commit(connection, &jobs).await {
        for ((_, answer), result) in group.into_iter().zip(results) {
            let _ = answer.send(Ok(result));
        }
        return;
    }
    for (statements, answer) in group {
        let result = commit(connection, &[&statements]).await;
        let _ = answer.send(result.map(|results| results.into_iter().next().unwrap_or_default()));
    }
}

async fn commit(connection: &mut SqliteConnection, jobs: &[&[Statement]]) -> Result<Vec<Vec<Written>>, EngineError> {
    run(connection, &Statement::new("BEGIN IMMEDIATE")).await?;
    let outcome = run_all(connection, jobs).await;
    let outcome = match outcome {
        Ok(results) => run(connection, &Statement::new("COMMIT")).await.map(|_| results),
        Err(error) => Err(error),
    };
    if outcome.is_err() {
        // A failed COMMIT may have rolled back by itself; then there is nothing to roll back.
        let _ = run(connection, &Statement::new("ROLLBACK")).await;
    }
    outcome
}

async fn run_all(connection: &mut SqliteConnection, jobs: &[&[Statement]]) -> Result<Vec<Vec<Written>>, EngineError> {
    let mut results = Vec::with_capacity(jobs.len());
    for statements in jobs {
        let mut written = Vec::with_capacity(statements.len());
        for statement in *statements {
            written.push(run(connection, statement).await?);
        }
        results.push(written);
    }
    Ok(results)
}

async fn run(connection: &mut SqliteConnection, statement: &Statement) -> Result<Written, EngineError> {
    let mut query = sqlx::query::<Sqlite>(statement.sql);
    for value in &statement.values {
        query = match value {
            Value::Null => query.bind(None::<i64>),
            Value::Int(number) => query.bind(*number),
            Value::Text(text) => query.bind(text.clone()),
            Value::Bytes(bytes) => query.bind(bytes.clone()),
        };
    }
    let mut written = Written::default();
    let mut results = connection.fetch_many(query);
    while let Some(result) = results.try_next().await.map_err(engine_error)? {
        match result {
            Either::Left(done) => written.affected += done.rows_affected(),
            Either::Right(row) => written.rows.push(row_values(&row)?),
        }
    }
    Ok(written)
}

fn row_values(row: &SqliteRow) -> Result<Row, EngineError> {
    let value = |index: usize| -> Result<Value, sqlx::Error> {
        let raw = row.try_get_raw(index)?;
        if raw.is_null() {
            return Ok(Value::Null);
        }
        let kind = raw.type_info();
        Ok(match kind.name() {
            "INTEGER" => Value::Int(row.try_get_unchecked(index)?),
            "TEXT" => Value::Text(row.try_get_unchecked(index)?),
            _ => Value::Bytes(row.try_get_unchecked(index)?),
        })
    };
    (0..row.len()).map(value).collect::<Result<_, _>>().map_err(engine_error)
}

/// SQLite's own result codes (sqlite.org, "Result and Error Codes"), extended ones above the low byte.
const CORRUPT: u32 = 11;
const NOT_A_DATABASE: u32 = 26;

fn engine_error(error: sqlx::Error) -> EngineError {
    let Some(database) = error.as_database_error() else {
        return match error {
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => EngineError::Closed,
            other => EngineError::Other(other.to_string()),
        };
    };
    if database.is_unique_violation() {
        return EngineError::Unique;
    }
    match code(database) {
        Some(CORRUPT | NOT_A_DATABASE) => EngineError::Damaged(database.message().to_owned()),
        _ => EngineError::Other(database.message().to_owned()),
    }
}

fn code(error: &dyn DatabaseError) -> Option<u32> {
    let extended: u32 = error.code()?.parse().ok()?;
    Some(extended & 0xff)
}
