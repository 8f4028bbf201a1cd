//! The forms of checks that kleis knows: an expiry and a narrowing.

use super::ast;
use crate::words::Timestamp;

/// The line of `check if "LINE".extern::allows()`, if the check is exactly that.
pub fn narrowing(check: &ast::Check) -> Option<&str> {
    todo!("{check:?}")
}

/// The first second at which `check if time($t), $t < DATE` (or `<=`) fails, if the check is exactly that.
pub fn expiry(check: &ast::Check) -> Option<Timestamp> {
    todo!("{check:?}")
}
