//! What time it is: passed in, so that tests can turn it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::words::Timestamp;

/// Reads the time in seconds. The wall clock, not a monotonic one: that stands still while a laptop or
/// a sandbox is suspended, and a token would be thought fresh when it has long expired.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's.
    pub fn system() -> Clock {
        Clock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// Another.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}
