//! What every command needs: the home, how to print, and the door.

use std::sync::Arc;

use super::door::{Control, Door};
use super::failure::Failure;
use super::terminal::Terminal;
use crate::audit::AuditOptions;
use crate::config::{self, Home, ListenAddress, Role, Snapshot};
use crate::store::{AuditHead, Store};
use crate::token::RootKeys;
use crate::words::Timestamp;

/// One run of the command line.
pub struct Context {
    home: Option<std::path::PathBuf>,
    json: bool,
}

impl Context {
    /// From the global flags.
    pub fn new(home: Option<std::path::PathBuf>, json: bool) -> Context {
        Context { home, json }
    }

    /// Where files are.
    pub fn home(&self) -> Result<Home, Failure> {
        match &self.home {
            Some(dir) => std::path::absolute(dir).map(|dir| Home::at(&dir)).map_err(Failure::outside),
            None => Home::find().map_err(Failure::outside),
        }
    }

    /// The configuration as it stands in the files.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        Ok(Arc::new(config::load_beside(&self.home()?)?))
    }

    /// The daemon, or this process.
    pub async fn door(&self) -> Result<Door, Failure> {
        Door::open(&self.home()?).await
    }

    /// The daemon's control socket, if a daemon runs.
    pub async fn control(&self) -> Result<Option<Control>, Failure> {
        Control::connect(&self.home()?).await
    }

    /// Where the audit chain ends, as the store knows it; `None` if there is no store yet.
    pub async fn audit_head(&self) -> Result<Option<AuditHead>, Failure> {
        let database = self.home()?.data_dir().join("kleis.db");
        if !database.exists() {
            return Ok(None);
        }
        let store = Store::read_beside(&database);
        let head = store.audit_head(&AuditOptions::default().node).await.map_err(Failure::outside);
        store.close().await;
        head
    }

    /// This home's root keys, if it has any and this user may read them.
    pub fn root_keys(&self) -> Option<RootKeys> {
        let file = self.home().ok()?.data_dir().join("root.key");
        let bytes = std::fs::read(file).ok()?;
        RootKeys::from_bytes(&bytes).ok()
    }

    /// The first proxy listener of the configuration, where a client on this machine reaches it.
    pub fn first_proxy_listener(&self) -> Result<String, Failure> {
        let snapshot = self.snapshot()?;
        let mut proxies = snapshot.config.listen.iter().filter(|listen| listen.role == Role::Proxy);
        let address = proxies.find_map(|listen| match &listen.address {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        });
        let address = address.ok_or_else(|| {
            Failure::Usage("no proxy listener on TCP is configured: say where it is with --url".to_owned())
        })?;
        let local = match address.ip() {
            ip if !ip.is_unspecified() => address.to_string(),
            ip if ip.is_ipv4() => format!("127.0.0.1:{}", address.port()),
            _ => format!("[::1]:{}", address.port()),
        };
        Ok(local)
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |duration| duration.as_secs())
    }

    /// A time as people read it: `2026-12-01 09:30 UTC, in 8h`.
    pub fn when(&self, at: Timestamp) -> String {
        let now = self.now();
        let distance = |seconds: u64| match seconds {
            0..=119 => format!("{seconds}s"),
            120..=7199 => format!("{}m", seconds / 60),
            7200..=172_799 => format!("{}h", seconds / 3600),
            _ => format!("{}d", seconds / 86_400),
        };
        let relative = match at.checked_sub(now) {
            Some(ahead) => format!("in {}", distance(ahead)),
            None => format!("{} ago", distance(now - at)),
        };
        let date = i64::try_from(at).ok().and_then(|at| time::OffsetDateTime::from_unix_timestamp(at).ok());
        let Some(date) = date else { return relative };
        let (day, clock) = (date.date(), date.time());
        format!("{day} {:02}:{:02} UTC, {relative}", clock.hour(), clock.minute())
    }

    /// Where text goes.
    pub fn terminal(&self) -> Terminal {
        if self.json { Terminal::plain() } else { Terminal::stdout() }
    }

    /// Whether machines read this.
    pub fn wants_json(&self) -> bool {
        self.json
    }

    /// Prints for people or for machines.
    pub fn print(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> serde_json::Value) {
        if self.json {
            say!("{}", json());
        } else {
            say!("{}", text());
        }
    }
}
