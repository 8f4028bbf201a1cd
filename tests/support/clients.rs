//! Real clients. One that is not installed skips its test, unless `KLEIS_TEST_CLIENTS=required` (as
//! `.ci/run` says, behind `tests/clients/install`): then it fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::World;

/// The program's path, or `None` if the test is to be skipped.
pub fn find(program: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(here.join("venv/bin")).chain(std::env::split_paths(&path));
    let found = places.map(|place| place.join(program)).find(|file| file.is_file());
    if found.is_none() {
        let required = std::env::var("KLEIS_TEST_CLIENTS").is_ok_and(|v| v == "required");
        assert!(!required, "`{program}` is not installed: run tests/clients/install");
        eprintln!("skipped: `{program}` is not installed (tests/clients/install brings it)");
    }
    found
}

/// A command of `program` with what a sandbox would have: proxy and CA variables and nothing else.
pub fn sandboxed(world: &World, program: &Path, token: &str, home: &Path) -> Command {
    let proxy = world.proxy_url(token);
    let ca = world.ca_file();
    let mut command = Command::new(program);
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home).current_dir(home);
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
        command.env(name, &proxy);
    }
    for name in [
        "SSL_CERT_FILE",
        "CURL_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NODE_EXTRA_CA_CERTS",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        "CARGO_HTTP_CAINFO",
    ] {
        command.env(name, &ca);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "1").env("NO_PROXY", "localhost,127.0.0.1,::1");
    command
}
