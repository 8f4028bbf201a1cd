//! The environment of a sandbox: which variables make common clients use the proxy and trust its CA.
//!
//! Measured, client by client: some read only lower case, some only upper, some take one CA variable
//! and some another, and most of these *replace* a client's roots, so they point at a bundle of the
//! system's roots and ours.

use std::path::Path;

use crate::service::Service;

/// What a client's environment names.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    /// `http://kleis:TOKEN@host:port`. Both halves of the userinfo are filled: several clients drop
    /// the credential otherwise.
    pub proxy: &'a str,
    /// Public roots and our CA, one PEM.
    pub bundle: &'a Path,
    /// Our CA alone, PEM.
    pub ca: &'a Path,
}

/// Both cases: wget, apt and gRPC read only lower case, Ruby reads `http_proxy` for https too.
/// `ALL_PROXY` stays unset: alone it makes one client send its key to the proxy in clear text.
const PROXY: &[&str] = &["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// Loopback only: anything cleverer means something else to each client.
const NO_PROXY: &[&str] = &["NO_PROXY", "no_proxy"];

/// These replace a client's roots.
const BUNDLE: &[&str] = &[
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "HTTPLIB2_CA_CERTS",
    "WEBSOCKET_CLIENT_CA_BUNDLE",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "BUNDLE_SSL_CA_CERT",
    "npm_config_cafile",
];

/// These add to them.
const CA: &[&str] = &["NODE_EXTRA_CA_CERTS", "DENO_CERT", "CODEX_CA_CERTIFICATE"];

/// What else makes clients work well through a proxy.
const REST: &[(&str, &str)] = &[
    ("NODE_USE_ENV_PROXY", "1"),
    ("GIT_HTTP_PROXY_AUTHMETHOD", "basic"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];

/// Inherited ones that would weaken a client or lead it around the proxy.
pub const UNSET: &[&str] = &[
    "ALL_PROXY",
    "all_proxy",
    "SSL_CERT_DIR",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "GIT_SSL_NO_VERIFY",
    "PYTHONHTTPSVERIFY",
    "GIT_SSL_CAPATH",
    "REQUEST_METHOD",
    "no_grpc_proxy",
    "SSLKEYLOGFILE",
];

/// All variables to set, in the order in which they are printed.
pub fn variables(reach: Reach<'_>) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    all.extend(PROXY.iter().map(|name| (*name, reach.proxy.to_owned())));
    all.extend(NO_PROXY.iter().map(|name| (*name, "localhost,127.0.0.1,::1".to_owned())));
    all.extend(BUNDLE.iter().map(|name| (*name, reach.bundle.display().to_string())));
    all.extend(CA.iter().map(|name| (*name, reach.ca.display().to_string())));
    all.extend(REST.iter().map(|(name, value)| (*name, (*value).to_owned())));
    all
}

/// The placeholders that a service's clients want before they send anything (`GH_TOKEN`).
pub fn placeholders(service: &Service) -> Vec<(String, String)> {
    let values = serde_json::json!({"service": service.name(), "account": "", "config": {}});
    let rendered = service.setup().env.iter().map(|(name, value)| (name.to_string(), value.render(&values)));
    rendered.filter_map(|(name, value)| Some((name, value.ok()?))).collect()
}

/// Text as one word of a POSIX shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cases_of_the_proxy_are_set_and_all_proxy_is_not() {
        let reach = Reach { proxy: "http://kleis:t@127.0.0.1:8080", bundle: Path::new("/b"), ca: Path::new("/c") };
        let names: Vec<_> = variables(reach).into_iter().map(|(name, _)| name).collect();
        for name in ["HTTPS_PROXY", "https_proxy", "http_proxy", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"] {
            assert!(names.contains(&name), "{name}");
        }
        assert!(!names.contains(&"ALL_PROXY") && UNSET.contains(&"ALL_PROXY"));
    }

    #[test]
    fn a_value_stays_one_word_in_a_shell() {
        assert_eq!(quoted("plain/path-1.pem"), "plain/path-1.pem");
        assert_eq!(quoted("it's; rm -rf $HOME"), r"'it'\''s; rm -rf $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
