//! One attempt at a time: who else wants the same secret waits for it (R137, R161).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::live::Failure;
use super::material::next_serial;
use super::provider::{Obtained, ProviderError};
use crate::words::{Secret, Timestamp};

/// A provider is left alone for this long after its first failure, twice that after the second, and so on.
const FIRST_HOLD: Duration = Duration::from_secs(1);
const LONGEST_HOLD: Duration = Duration::from_secs(30);
/// A secret that an upstream has refused is replaced at most this often.
const FORCED_APART: u64 = 60;

/// A secret, with what the next request wants to know of it.
pub(super) struct Held {
    pub(super) secret: Secret,
    pub(super) serial: u64,
    pub(super) minted: Option<Timestamp>,
    refresh_at: Timestamp,
    expires_at: Timestamp,
}

/// A failure that everybody gets until `until`.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) failure: Failure,
    pub(super) until: Timestamp,
}

type Outcome = Result<Arc<Held>, Refusal>;
type Running = Shared<BoxFuture<'static, Outcome>>;

/// All that is known for one cache key.
#[derive(Default)]
pub(super) struct Flight {
    state: Mutex<Flying>,
}

#[derive(Default)]
struct Flying {
    running: Option<Running>,
    held: Option<Arc<Held>>,
    refused: Option<Refusal>,
    failures: u32,
    forced: Option<Timestamp>,
}

impl Flight {
    /// The secret that is there, or the outcome of an attempt: the one that is under way, or a new one. The
    /// attempt is a task of its own: it ends even if all who wait for it have gone.
    pub(super) async fn get<F>(self: &Arc<Self>, now: Timestamp, attempt: impl FnOnce() -> F) -> Outcome
    where
        F: Future<Output = Result<Obtained, ProviderError>> + Send + 'static,
    {
        let (running, usable) = {
            let mut state = self.lock();
            let usable = state.held.clone().filter(|held| now < held.expires_at);
            if let Some(held) = usable.clone().filter(|held| now < held.refresh_at) {
                return Ok(held);
            }
            if let Some(refused) = state.refused.clone().filter(|refused| now < refused.until) {
                return usable.ok_or(refused);
            }
            let running = match &state.running {
                Some(running) => running.clone(),
                None => state.running.insert(self.start(now, attempt())).clone(),
            };
            (running, usable)
        };
        match usable {
            // Good for a while: nobody waits, and a provider in trouble disturbs nobody yet (R142).
            Some(held) => Ok(held),
            None => running.await,
        }
    }

    fn start<F>(self: &Arc<Self>, now: Timestamp, attempt: F) -> Running
    where
        F: Future<Output = Result<Obtained, ProviderError>> + Send + 'static,
    {
        let flight = self.clone();
        let task = tokio::spawn(async move { flight.land(now, attempt.await) });
        let flight = self.clone();
        async move {
            match task.await {
                Ok(outcome) => outcome,
                Err(_) => flight.land(now, Err(Failure::Provider("the attempt broke off".to_owned()).into())),
            }
        }
        .boxed()
        .shared()
    }

    fn land(&self, now: Timestamp, outcome: Result<Obtained, ProviderError>) -> Outcome {
        let mut state = self.lock();
        state.running = None;
        match outcome {
            Ok(obtained) => {
                let held = Arc::new(Held {
                    secret: obtained.secret,
                    serial: next_serial(),
                    minted: obtained.minted,
                    refresh_at: obtained.refresh_at,
                    expires_at: obtained.expires_at,
                });
                (state.held, state.refused, state.failures) = (Some(held.clone()), None, 0);
                Ok(held)
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let hold = error.hold.unwrap_or_else(|| backoff(state.failures));
                let refused = Refusal { failure: error.failure, until: now + hold.as_secs() };
                state.refused = Some(refused.clone());
                Err(refused)
            }
        }
    }

    /// Gives up a secret that an upstream has refused, unless that was done a moment ago. Whether the
    /// next [`Flight::get`] will give another one.
    pub(super) fn discard(&self, serial: u64, now: Timestamp) -> bool {
        let mut state = self.lock();
        if state.held.as_ref().is_none_or(|held| held.serial != serial) {
            return true;
        }
        if state.forced.is_some_and(|at| now < at.saturating_add(FORCED_APART)) {
            return false;
        }
        state.forced = Some(now);
        state.held = None;
        true
    }

    fn lock(&self) -> MutexGuard<'_, Flying> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn backoff(failures: u32) -> Duration {
    let doubled = FIRST_HOLD.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    doubled.min(LONGEST_HOLD)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    fn obtained(secret: &str, refresh_at: u64, expires_at: u64) -> Result<Obtained, ProviderError> {
        Ok(Obtained { secret: Secret::new(secret), refresh_at, expires_at, minted: None })
    }

    fn trouble() -> Result<Obtained, ProviderError> {
        Err(Failure::Provider("trouble".to_owned()).into())
    }

    async fn never() -> Result<Obtained, ProviderError> {
        panic!("nobody should have asked the provider")
    }

    #[tokio::test]
    async fn r137_fifty_requests_make_one_attempt() {
        let (flight, calls) = (Arc::new(Flight::default()), Arc::new(AtomicUsize::new(0)));
        let (release, wait) = oneshot::channel::<()>();
        let wait = wait.shared();
        let waiting: Vec<_> = (0..50)
            .map(|_| {
                let (flight, calls, wait) = (flight.clone(), calls.clone(), wait.clone());
                tokio::spawn(async move {
                    let attempt = || async move {
                        calls.fetch_add(1, Ordering::Relaxed);
                        wait.await.unwrap();
                        obtained("tok", 100, 200)
                    };
                    flight.get(10, attempt).await.map(|held| held.serial)
                })
            })
            .collect();
        release.send(()).unwrap();
        let mut serials = Vec::new();
        for one in waiting {
            serials.push(one.await.unwrap().unwrap());
        }
        serials.dedup();
        assert_eq!((serials.len(), calls.load(Ordering::Relaxed)), (1, 1));
    }

    #[tokio::test]
    async fn an_attempt_ends_even_if_who_began_it_has_gone() {
        let flight = Arc::new(Flight::default());
        let (release, wait) = oneshot::channel::<()>();
        let first = {
            let flight = flight.clone();
            tokio::spawn(async move {
                let attempt = || async {
                    wait.await.unwrap();
                    obtained("tok", 100, 200)
                };
                flight.get(10, attempt).await.is_ok()
            })
        };
        tokio::task::yield_now().await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        release.send(()).unwrap();
        assert_eq!(flight.get(10, never).await.ok().unwrap().secret, Secret::new("tok"));
    }

    #[tokio::test]
    async fn r142_a_secret_that_is_still_good_is_given_while_the_provider_is_in_trouble() {
        let flight = Arc::new(Flight::default());
        flight.get(10, || async { obtained("tok", 100, 200) }).await.ok().unwrap();
        assert!(flight.get(99, never).await.is_ok());
        assert!(flight.get(150, || async { trouble() }).await.is_ok(), "nobody waits for the new one");
        let refused = loop {
            match flight.get(200, || async { trouble() }).await {
                Err(refused) => break refused,
                Ok(_) => tokio::task::yield_now().await,
            }
        };
        assert_eq!(refused.failure, Failure::Provider("trouble".to_owned()));
    }

    #[tokio::test]
    async fn r142_a_provider_in_trouble_is_left_alone_for_longer_and_longer() {
        let flight = Arc::new(Flight::default());
        let mut now = 1000;
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            let refused = flight.get(now, || async { trouble() }).await.err().unwrap();
            assert_eq!(refused.until, now + wait);
            assert!(flight.get(refused.until - 1, never).await.is_err());
            now = refused.until;
        }
        assert!(flight.get(now, || async { obtained("tok", 9000, 9000) }).await.is_ok());
    }

    #[tokio::test]
    async fn an_attempt_that_panics_is_a_failure_and_not_the_end() {
        let flight = Arc::new(Flight::default());
        assert!(flight.get(10, never).await.is_err());
        assert!(flight.get(20, || async { obtained("tok", 100, 200) }).await.is_ok());
    }

    #[tokio::test]
    async fn a_refused_secret_is_replaced_at_most_once_a_minute() {
        let flight = Arc::new(Flight::default());
        let first = flight.get(10, || async { obtained("a", 1000, 2000) }).await.ok().unwrap();
        assert!(flight.discard(first.serial, 20));
        let second = flight.get(20, || async { obtained("b", 1000, 2000) }).await.ok().unwrap();
        assert!(flight.discard(first.serial, 21), "somebody has replaced it already");
        assert!(!flight.discard(second.serial, 21));
        assert!(flight.discard(second.serial, 80));
    }
}
