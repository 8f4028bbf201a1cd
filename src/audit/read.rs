//! Reading the record back.

use std::collections::VecDeque;
use std::path::Path;

use super::{AuditError, files};

/// The last `count` entries, the oldest first, as they stand.
pub fn tail(dir: &Path, count: usize) -> Result<Vec<String>, AuditError> {
    let mut entries: VecDeque<String> = VecDeque::new();
    for file in files::list(dir)?.iter().rev() {
        let wanted = count.saturating_sub(entries.len());
        if wanted == 0 {
            break;
        }
        let mut last: VecDeque<String> = VecDeque::with_capacity(wanted.min(1024));
        files::each_line(&file.path, |line, whole| {
            if whole {
                if last.len() == wanted {
                    last.pop_front();
                }
                last.push_back(String::from_utf8_lossy(line).into_owned());
            }
            Ok(())
        })?;
        last.into_iter().rev().for_each(|line| entries.push_front(line));
    }
    Ok(entries.into())
}

/// Entries with a number above `seq`, in order, as they stand: what `tail -f` asks for again and again.
pub fn after(dir: &Path, seq: u64) -> Result<Vec<(u64, String)>, AuditError> {
    let files = files::list(dir)?;
    let from = files.iter().rposition(|file| file.first <= seq.saturating_add(1)).unwrap_or(0);
    let mut entries = Vec::new();
    for file in files.get(from..).unwrap_or(&[]) {
        files::each_line(&file.path, |line, whole| {
            if let Some(parsed) = super::chain::parse(line).filter(|parsed| whole && parsed.link.seq > seq) {
                entries.push((parsed.link.seq, String::from_utf8_lossy(line).into_owned()));
            }
            Ok(())
        })?;
    }
    Ok(entries)
}

/// Every entry of a request, in order.
pub fn show(dir: &Path, request_id: &str) -> Result<Vec<String>, AuditError> {
    let mut escaped = Vec::new();
    super::json::put_escaped(&mut escaped, request_id.as_bytes());
    let needle = format!("\"request_id\":\"{}\"", String::from_utf8_lossy(&escaped));
    let mut entries = Vec::new();
    for file in files::list(dir)? {
        files::each_line(&file.path, |line, whole| {
            // A quote inside a value is escaped, so that no value can look like this key.
            if let Some(line) = std::str::from_utf8(line).ok().filter(|line| whole && line.contains(&needle)) {
                entries.push(line.to_owned());
            }
            Ok(())
        })?;
    }
    Ok(entries)
}
