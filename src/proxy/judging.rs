//! Memory for bodies that are read before they are judged: each has its limit (`max_body`), and so have all of
//! them together. Otherwise a token's thousand connections could ask for thirty gigabytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refuse::Refusal;
use crate::words::Reason;

/// Bytes that are counted as one. What is smaller is not counted at all.
const UNIT: usize = 64 * 1024;
/// Units of all bodies together: 512 MiB.
const UNITS: usize = 8192;

/// The memory that there is.
#[derive(Debug, Clone)]
pub struct Judging(Arc<Semaphore>);

impl Default for Judging {
    fn default() -> Judging {
        Judging(Arc::new(Semaphore::new(UNITS)))
    }
}

impl Judging {
    /// For one request; it takes nothing yet.
    pub fn hold(&self) -> Held {
        Held { of: self.clone(), units: 0, permit: None }
    }
}

/// What one request takes of it, until it is dropped.
#[derive(Debug)]
pub struct Held {
    of: Judging,
    units: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// Takes as much as a body of that size needs. Never waits: who waits holds what others wait for.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let units = bytes / UNIT;
        let Some(more) = units.checked_sub(self.units).filter(|more| *more > 0) else { return Ok(()) };
        let count = u32::try_from(more).map_err(|_| Reason::BodyTooLargeToJudge)?;
        let permit = self.of.0.clone().try_acquire_many_owned(count).map_err(|_| {
            let mut refusal = Refusal::new(Reason::Overloaded).because("bodies that are being judged take all memory");
            refusal.retry_after = Some(1);
            refusal
        })?;
        self.units = units;
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_together_have_a_limit_and_give_it_back() {
        let judging = Judging::default();
        let mut one = judging.hold();
        one.grow(400 << 20).unwrap();
        let mut two = judging.hold();
        two.grow(100).unwrap();
        two.grow(UNIT * 10).unwrap();
        assert_eq!(two.grow(200 << 20).unwrap_err().reason, Reason::Overloaded);
        drop(one);
        two.grow(200 << 20).unwrap();
        drop(two);
        assert_eq!(judging.0.available_permits(), UNITS);
    }
}
