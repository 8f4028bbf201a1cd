//! What `config.toml` may say, and what is told when it is wrong.

use std::path::Path;

use proptest::prelude::*;

use crate::config::{AuditFacts, Config, ListenAddress, Role};
use crate::words::{Authority, Scheme};

const FULL: &str = r#"
mode = "both"
passthrough = ["*.example.com", "10.0.0.1:8443"]
public_url = "http://kleis.internal:8080"
default_spec = "worker"
allow_exec = true
[[listen]]
address = "127.0.0.1:8080"
role = "proxy"
[[listen]]
address = "unix:/run/kleis/admin.sock"
role = "admin"
[[listen]]
address = "[::1]:9090"
role = "metrics"
[upstream]
ca_file = "ca.pem"
proxy = "http://user:hunter2@proxy.corp:3128"
allow_private = ["10.0.0.0/8", "127.0.0.1"]
resolve = { "api.github.com:443" = "127.0.0.1:8443" }
[limits]
head_timeout = "15s"
idle_timeout = "5m"
connect_timeout = "3s"
answer_timeout = "10m"
max_head = "64KiB"
max_body = "32MiB"
max_connections = 10000
max_connections_per_token = 1000
policy_fuel = 200000
token_fuel = 20000
max_facts = 4096
max_derived = 5000
max_token_derived = 100
max_regex = "1MiB"
max_token_regex = "64KiB"
[audit]
facts = "full"
on_failure = "continue"
[setup.env]
GIT_AUTHOR_NAME = "bot"
[[issuer]]
name = "orchestra"
specs = ["worker"]
grants = ["orchestra-*"]
facts = ["task_*"]
max_ttl = "24h"
token_file = "/run/kleis/orchestra.token"
token_ttl = "365d"
"#;

fn read(text: &str) -> Result<Config, String> {
    Config::parse(text, "config.toml", Path::new("/etc/kleis")).map_err(|errors| errors.to_string())
}

#[test]
fn every_documented_key_is_read() {
    let config = read(FULL).unwrap();
    let listen: Vec<(String, Role)> = config.listen.iter().map(|l| (l.address.to_string(), l.role)).collect();
    assert_eq!(
        listen,
        [
            ("127.0.0.1:8080".to_owned(), Role::Proxy),
            ("unix:/run/kleis/admin.sock".to_owned(), Role::Admin),
            ("[::1]:9090".to_owned(), Role::Metrics),
        ]
    );
    assert_eq!(config.upstream.ca_file.as_deref(), Some(Path::new("/etc/kleis/ca.pem")));
    assert_eq!(config.limits.policy.max_derived, 5000);
    assert_eq!(config.audit_facts, AuditFacts::Full);
    let issuer = config.issuer("orchestra").unwrap();
    assert!(issuer.may_use_grant("orchestra-github") && !issuer.may_use_grant("orchestr"));
    assert!(issuer.may_use_spec("worker") && !issuer.may_use_spec("workers"));
    assert!(issuer.may_state("task_fork") && !issuer.may_state("bearer"));
    let upstream = config.upstream_config();
    assert_eq!((upstream.own_addresses.len(), upstream.own_names.len(), upstream.resolve.len()), (2, 1, 1));
    assert_eq!(config.public_url.unwrap().to_string(), "http://kleis.internal:8080");
}

/// The example of the documentation, as it stands there: every key at its default.
const DOCUMENTED: &str = r#"
listen = "127.0.0.1:8080"
mode = "both"                         # connect | rewrite | both
passthrough = []                      # host patterns for blind tunnels
public_url = ""                       # what sandboxes reach the proxy at
default_spec = ""                     # for `kleis run`
allow_exec = false
[upstream]
ca_file = ""                          # instead of the system's roots
proxy = ""                            # chain through a corporate proxy
allow_private = []                    # CIDRs that may be dialled although private
resolve = {}                          # "api.github.com:443" = "127.0.0.1:8443", for tests and split DNS
[limits]                              # defaults; all may be set
head_timeout = "15s"                  # slow request heads, TLS hellos
idle_timeout = "5m"
max_head = "64KiB"
max_body = "32MiB"                    # what may be read for judging; streaming has no limit
max_connections = 10000
max_connections_per_token = 1000
policy_fuel = 200000                  # candidate rows for a decision; token_fuel = 20000
max_facts = 4096
[audit]
facts = "none"                        # none | full
on_failure = "refuse"                 # refuse | continue
[setup.env]
[[issuer]]
name = "orchestra"
specs = ["worker"]
grants = ["orchestra-*"]
facts = ["task_*"]
max_ttl = "24h"
token_file = ""
token_ttl = "365d"
"#;

#[test]
fn what_is_documented_as_the_default_is_the_default() {
    let mut documented = read(DOCUMENTED).unwrap();
    let issuer = documented.issuers.pop().unwrap();
    assert_eq!(format!("{documented:?}"), format!("{:?}", Config::default()));
    let bare = read("[[issuer]]\nname = 'orchestra'").unwrap().issuers.pop().unwrap();
    assert_eq!((issuer.max_ttl, issuer.token_ttl, issuer.token_file), (bare.max_ttl, bare.token_ttl, bare.token_file));
}

#[test]
fn r155_an_empty_file_is_all_defaults_on_loopback() {
    let config = read("").unwrap();
    assert_eq!(config.listen.len(), 1);
    assert!(matches!(config.listen[0].address, ListenAddress::Tcp(address) if address.ip().is_loopback()));
    assert!(config.passthrough.is_empty() && config.issuers.is_empty() && !config.allow_exec);
    assert!(!config.passes(&Authority::parse(Scheme::Https, "example.com").unwrap()));
}

#[test]
fn empty_strings_stand_for_nothing() {
    let config = read("public_url = ''\ndefault_spec = ''\n[upstream]\nca_file = ''\nproxy = ''\n").unwrap();
    assert!(config.public_url.is_none() && config.default_spec.is_none());
    assert!(config.upstream.ca_file.is_none() && config.upstream.proxy.is_none());
}

#[test]
fn the_shorthand_for_one_listener_is_kept() {
    assert_eq!(read("listen = '0.0.0.0:8080'").unwrap().listen[0].address.to_string(), "0.0.0.0:8080");
    assert_eq!(read("listen = 'unix:/run/k.sock'").unwrap().listen[0].role, Role::Proxy);
}

#[test]
fn r164_what_is_wrong_is_told_with_its_place_and_what_is_accepted() {
    for (text, expected) in [
        ("allow_exec = 'true'", "config.toml:1:14: `allow_exec` is a string: use true or false, without quotes"),
        ("alow_exec = true", "config.toml:1:1: unknown key `alow_exec`: did you mean `allow_exec`?"),
        ("mode = 'tunnel'", "config.toml:1:8: `mode` is `tunnel`: use one of `connect`, `rewrite`, `both`"),
        ("listen = 8080", "`listen` is a whole number: use a list in brackets"),
        ("listen = 'localhost:8080'", "`localhost:8080` is not an address: use `127.0.0.1:8080`"),
        ("listen = 'unix:run/k.sock'", "use `unix:` and an absolute path"),
        ("[[listen]]\nrole = 'proxy'", "`address` is missing in `listen[0]`"),
        ("[[listen]]\naddress = '127.0.0.1:1'\nrole = 'amdin'", "use one of `proxy`, `admin`, `metrics`"),
        ("[[listen]]\naddress = '127.0.0.1:1'\nrole = 'admin'", "no listener has the role `proxy`"),
        (
            "[[listen]]\naddress = '127.0.0.1:1'\n[[listen]]\naddress = '127.0.0.1:1'\nrole = 'admin'",
            "is listened on already",
        ),
        ("passthrough = '*'", "`passthrough` is a string: use a list in brackets"),
        ("passthrough = ['http://x']", "`passthrough[0]`: `http://x` is not a host"),
        ("public_url = 'kleis:8080'", "use `http://host:port` or `https://host`"),
        ("public_url = 'http://u@kleis'", "an authority has no user in it"),
        ("public_url = 'http://kleis/x'", "it has no path and no query"),
        ("[upstream]\nallow_private = ['10.0.0.0/33']", "`10.0.0.0/33` is not a network"),
        ("[upstream.resolve]\n'a.test' = '127.0.0.1:1'", "`a.test` is not `host:port`"),
        ("[upstream.resolve]\n'a.test:443' = '127.0.0.1'", "is not an address with a port"),
        ("[upstream.resolve]\n'a.test:443' = '127.0.0.1:1'\n'A.test.:443' = '127.0.0.1:2'", "is resolved already"),
        ("[limits]\nmax_body = '32MB'", "`32MB` is not a size"),
        ("[limits]\nmax_head = 12", "use 1024 to 1048576 bytes"),
        ("[limits]\nhead_timeout = '0s'", "`limits.head_timeout` is out of range"),
        ("[limits]\nmax_connections = 0", "use a number from 1 to"),
        ("[limits]\nmax_connections = 1.5", "is a number with a fraction"),
        ("[limits]\npolicy_fuel = 10\ntoken_fuel = 11", "it can't be more"),
        ("[audit]\nfacts = 'all'", "use one of `none`, `full`"),
        ("[audit]\non_failure = 'ignore'", "use one of `refuse`, `continue`"),
        ("[setup.env]\nHTTPS_PROXY = 'x'", "config.toml:2:1: a setup may not set `HTTPS_PROXY`"),
        ("[setup.env]\nLD_PRELOAD = 'x'", "a setup may not set `LD_PRELOAD`"),
        ("[setup.env]\nPATH = 'x'", "a setup may not set `PATH`"),
        ("[setup.env]\n'A-B' = 'x'", "`A-B` is not a variable"),
        ("[setup.env]\nA = 1", "`setup.env.A` is a whole number"),
        ("[[issuer]]\nspecs = ['x']", "`name` is missing in `issuer[0]`"),
        ("[[issuer]]\nname = 'a'\n[[issuer]]\nname = 'a'", "there is an issuer `a` already"),
        ("[[issuer]]\nname = 'a'\nfacts = ['*']", "`*` would let an issuer state anything"),
        ("[[issuer]]\nname = 'a'\ngrants = ['a*b']", "`a*b` is not a name"),
        ("[[issuer]]\nname = 'a'\nmax_ttl = 3600", "use a duration in quotes"),
        ("[[issuer]]\nname = 'a'\ntoken_file = 'x'", "is not an absolute path without `..`"),
        ("[[issuer]]\nname = 'a'\ntoken_file = '/run/../etc/x'", "is not an absolute path without `..`"),
        ("[issuer]\nname = 'a'", "`issuer` is a table: use a list in brackets"),
        ("a = [", "config.toml:1:"),
    ] {
        let told = read(text).unwrap_err();
        assert!(told.contains(expected), "{text}:\n{told}");
    }
}

#[test]
fn a_password_in_the_proxy_url_is_never_shown() {
    let config = read(FULL).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    for wrong in ["https://user:hunter2@proxy:1", "http://user:hunter2@pro xy", "user:hunter2@proxy"] {
        let told = read(&format!("[upstream]\nproxy = '{wrong}'")).unwrap_err();
        assert!(told.contains("`upstream.proxy` is no proxy") && !told.contains("hunter2"), "{told}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(cut in 0..FULL.len(), insert in "[ -~\n]{0,6}") {
        if let (Some(before), Some(after)) = (FULL.get(..cut), FULL.get(cut..)) {
            let _ = read(&format!("{before}{insert}{after}"));
        }
    }
}
