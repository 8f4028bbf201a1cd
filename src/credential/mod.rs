//! Credentials: sealed, obtained, and bound to a request (DESIGN §13).
//!
//! Layer 2. A [`Seal`] keeps secrets unreadable in the store and ties each to the hosts it may go to; the
//! [`Vault`] turns a credential's name into a live secret, asking its provider when it has to; [`Stripped`] is
//! a request without the client's own credentials, which is what is judged; and [`bind`] consumes a
//! [`Permit`](crate::policy::Permit) and attaches the secret to the judged request, as the last thing that
//! happens to it.

mod bind;
mod clock;
mod entry;
mod exchange;
mod exec;
mod flight;
mod github_app;
mod inject;
mod key_file;
mod live;
mod material;
mod provider;
mod seal;
mod strip;
mod vault;

pub use bind::{BindError, Bound, Spent, bind};
pub use clock::Clock;
pub use exchange::{Exchange, ExchangeBounds, ExchangeError};
pub use github_app::normalise_permissions;
pub use key_file::{KeyFileError, make_key, read_key};
pub use live::{CredentialError, Declared, Failure, Kind, Live, Source, State};
pub use provider::{PROVIDERS, check};
pub use seal::{Label, Seal, SealError, SealKeyId, Sealed};
pub use strip::{Head, Stripped, takes_off};
pub use vault::{Known, Vault};
