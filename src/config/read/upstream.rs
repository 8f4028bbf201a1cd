//! Reading `[upstream]`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ipnet::IpNet;

use super::{filled, path};
use crate::config::UpstreamSettings;
use crate::words::strict_toml::{Table, Value};
use crate::words::{Authority, Host, Scheme, Secret};

pub(super) fn read(root: &Table<'_>, base: &Path) -> UpstreamSettings {
    let Some(table) = root.table("upstream", &["ca_file", "proxy", "allow_private", "resolve"]) else {
        return UpstreamSettings::default();
    };
    UpstreamSettings {
        ca_file: path(table.get("ca_file"), base),
        proxy: filled(table.get("proxy")).and_then(|value| proxy(&value)),
        allow_private: table.get("allow_private").and_then(|value| value.parse_list(network)).unwrap_or_default(),
        resolve: table.get("resolve").map(|value| resolve(&value)).unwrap_or_default(),
    }
}

/// `http://[user:password@]host:port`. It may hold a password, so that no error repeats it.
fn proxy(value: &Value<'_>) -> Option<Secret> {
    let text = value.string()?;
    let host = text.strip_prefix("http://").map(|rest| rest.rsplit_once('@').map_or(rest, |(_, host)| host));
    let host = host.map(|host| host.strip_suffix('/').unwrap_or(host));
    if host.is_none_or(|host| Authority::parse(Scheme::Http, host).is_err()) {
        value.complain("`upstream.proxy` is no proxy: use `http://host:port` or `http://user:password@host:port`");
        return None;
    }
    Some(Secret::new(text))
}

/// `10.0.0.0/8`, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    let one = |ip: IpAddr| IpNet::from(ip);
    let network = text.parse().or_else(|_| text.parse().map(one));
    network.map_err(|_| format!("`{text}` is not a network: use `10.0.0.0/8`, `fd00::/8` or an address"))
}

fn resolve(value: &Value<'_>) -> BTreeMap<(Host, u16), SocketAddr> {
    let Some(table) = value.open_table() else {
        return BTreeMap::new();
    };
    let mut resolve = BTreeMap::new();
    for (name, address) in table.entries() {
        let to = address.parse(|text| {
            text.parse::<SocketAddr>()
                .map_err(|_| format!("`{text}` is not an address with a port, as in `127.0.0.1:8443`"))
        });
        let key = Authority::parse_connect(name);
        if let Err(error) = &key {
            let message = format!("`{name}` is not `host:port`: {error} (and quote it: `\"api.github.com:443\"`)");
            table.complain_about_key(name, message);
        }
        if let (Ok(key), Some(to)) = (key, to)
            && resolve.insert((key.host().clone(), key.port()), to).is_some()
        {
            table.complain_about_key(name, format!("`{name}` is resolved already"));
        }
    }
    resolve
}
