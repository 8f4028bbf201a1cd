//! Reading the record back.

use std::path::Path;

use super::AuditError;

/// The last `count` entries, the oldest first, as they stand.
pub fn tail(dir: &Path, count: usize) -> Result<Vec<String>, AuditError> {
    todo!("{} {count}", dir.display())
}

/// Every entry of a request, in order.
pub fn show(dir: &Path, request_id: &str) -> Result<Vec<String>, AuditError> {
    todo!("{} {request_id}", dir.display())
}
