//! The tables. All of them from the first day on, also what only fleets will use: a migration of live
//! data is dearer than an empty table.

use super::engine::{Columns, Engine, EngineError, Statement};

/// The schema that this kleis knows.
pub(super) const KNOWN: i64 = 1;

/// Each step brings the schema from its index to the next. Column types are those that SQLite and
/// PostgreSQL both take.
const STEPS: &[&[&str]] = &[&[
    // What is kept of an issued token: never the token. `id` is the revocation id of its last block.
    "CREATE TABLE tokens (
        id BYTEA PRIMARY KEY, kind TEXT NOT NULL, label TEXT, issuer TEXT, bearer TEXT NOT NULL, spec TEXT,
        grants TEXT NOT NULL, parent BYTEA, created BIGINT NOT NULL, expires BIGINT, lease_until BIGINT)",
    "CREATE INDEX tokens_by_bearer ON tokens (bearer)",
    "CREATE INDEX tokens_by_issuer ON tokens (issuer)",
    "CREATE INDEX tokens_by_spec ON tokens (spec)",
    "CREATE INDEX tokens_by_parent ON tokens (parent)",
    "CREATE INDEX tokens_by_lease ON tokens (lease_until)",
    // `expires`: when it may be forgotten, where that is known.
    "CREATE TABLE revocations (id BYTEA PRIMARY KEY, at BIGINT NOT NULL, expires BIGINT)",
    // `source`: hash of the declared file that seeded it. `generation` is what compare-and-swap compares.
    "CREATE TABLE credentials (
        name TEXT PRIMARY KEY, service TEXT NOT NULL, provider TEXT NOT NULL, kind TEXT NOT NULL, hosts TEXT NOT NULL,
        settings TEXT NOT NULL, generation BIGINT NOT NULL, seal_key_id TEXT NOT NULL, sealed BYTEA NOT NULL,
        source TEXT, state TEXT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL)",
    // Who may do a thing alone; `fence` counts up so that a holder that lost it can tell.
    "CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL, expires BIGINT NOT NULL)",
    // Facts remembered for a token and what derives from it. `root`: its authority block's id.
    "CREATE TABLE memory (root BYTEA NOT NULL, fact TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (root, fact))",
    "CREATE TABLE audit_heads (node_id TEXT PRIMARY KEY, seq BIGINT NOT NULL, hash TEXT NOT NULL)",
]];

/// Which schema the database has: `None` if it is empty.
pub(super) async fn found(engine: &dyn Engine) -> Result<Option<i64>, EngineError> {
    let create = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)";
    engine.write(vec![Statement::new(create)]).await?;
    let rows = engine.read(Statement::new("SELECT value FROM meta WHERE name = 'schema'")).await?;
    let version = rows.into_iter().next().and_then(|row| Columns::of(row).number());
    Ok(version.and_then(|version| i64::try_from(version).ok()))
}

/// Brings the tables up to date, in one transaction.
pub(super) async fn migrate(engine: &dyn Engine, from: i64) -> Result<(), EngineError> {
    let done = usize::try_from(from).unwrap_or(usize::MAX);
    let mut statements: Vec<Statement> =
        STEPS.iter().skip(done).flat_map(|step| step.iter().map(|s| Statement::new(s))).collect();
    if statements.is_empty() {
        return Ok(());
    }
    let version =
        "INSERT INTO meta (name, value) VALUES ('schema', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    statements.push(Statement::new(version).bind(KNOWN));
    engine.write(statements).await.map(drop)
}
