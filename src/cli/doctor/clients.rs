//! The clients that the doctor knows, how each is asked for one page, and what mends it.

use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

const URL: &str = "https://doctor.kleis.test/";

/// A client.
pub struct Client {
    /// As people call it.
    pub name: &'static str,
    /// The program to look for.
    program: &'static str,
    arguments: &'static [&'static str],
    /// Says with its exit code whether the client is there, where the program alone doesn't.
    probe: Option<&'static [&'static str]>,
    /// It asks for something that the origin doesn't have; that it arrives is enough.
    pub may_fail: bool,
    /// What helps when it goes around the proxy.
    pub around: &'static str,
    /// What helps when it sends no credential to the proxy.
    pub credential: &'static str,
    /// What helps when it does not trust the CA.
    pub trust: &'static str,
}

/// A command line.
pub struct CommandLine {
    /// The program's path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Client {
    /// How to run it, if it is installed.
    pub fn command(&self) -> Option<CommandLine> {
        let program = find(self.program)?.display().to_string();
        if let Some(probe) = self.probe {
            let probed = Command::new(&program).args(probe).stdout(Stdio::null()).stderr(Stdio::null()).status();
            probed.ok().filter(ExitStatus::success)?;
        }
        let arguments = self.arguments.iter().map(|argument| argument.replace("URL", URL)).collect();
        Some(CommandLine { program, arguments })
    }
}

/// The program in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

const USERINFO: &str = "the proxy URL needs both a user and a token: http://kleis:TOKEN@host:port";
const PROXY: &str = "set HTTPS_PROXY and https_proxy (and the HTTP_ ones): some clients read only one case";
const BUNDLE: &str = "point SSL_CERT_FILE at the bundle that `kleis setup` writes";

/// In the order of the report.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "curl",
        program: "curl",
        arguments: &["-sS", "-f", "URL"],
        probe: None,
        may_fail: false,
        around: PROXY,
        credential: USERINFO,
        trust: "set CURL_CA_BUNDLE or SSL_CERT_FILE; a ~/.curlrc with its own cacert wins over both",
    },
    Client {
        name: "git",
        program: "git",
        arguments: &["ls-remote", "URLr.git"],
        probe: None,
        may_fail: true,
        around: "git config --global --unset http.proxy: a configured proxy wins over the environment",
        credential: "set GIT_HTTP_PROXY_AUTHMETHOD=basic, and a proxy URL with user and token",
        trust: "set GIT_SSL_CAINFO (git reads neither SSL_CERT_FILE nor CURL_CA_BUNDLE)",
    },
    Client {
        name: "wget",
        program: "wget",
        arguments: &["-q", "-O", "-", "--ca-certificate=bundle.pem", "URL"],
        probe: None,
        may_fail: false,
        around: "set https_proxy in lower case: wget reads no other",
        credential: USERINFO,
        trust: "wget reads no variable: put `ca_certificate = FILE` into ~/.wgetrc, or the CA into the system's store",
    },
    Client {
        name: "python urllib",
        program: "python3",
        arguments: &["-c", "import urllib.request; urllib.request.urlopen('URL').read()"],
        probe: None,
        may_fail: false,
        around: PROXY,
        credential: USERINFO,
        trust: BUNDLE,
    },
    Client {
        name: "python requests",
        program: "python3",
        arguments: &["-c", "import requests; requests.get('URL').raise_for_status()"],
        probe: Some(&["-c", "import requests"]),
        may_fail: false,
        around: PROXY,
        credential: USERINFO,
        trust: "set REQUESTS_CA_BUNDLE (requests reads no SSL_CERT_FILE)",
    },
    Client {
        name: "node fetch",
        program: "node",
        arguments: &[
            "-e",
            "fetch('URL').then(r => process.exit(r.ok ? 0 : 1), e => { console.error(e.cause ?? e); process.exit(1) })",
        ],
        probe: None,
        may_fail: false,
        around: "Node reads proxy variables from 22.21 and 24 on with NODE_USE_ENV_PROXY=1, set before it starts; \
                 older ones need undici's EnvHttpProxyAgent",
        credential: USERINFO,
        trust: "set NODE_EXTRA_CA_CERTS before Node starts",
    },
    Client {
        name: "ruby",
        program: "ruby",
        arguments: &["-rnet/http", "-e", "exit Net::HTTP.get_response(URI('URL')).is_a?(Net::HTTPSuccess)"],
        probe: None,
        may_fail: false,
        around: "set http_proxy too: Ruby reads it for https URLs",
        credential: USERINFO,
        trust: BUNDLE,
    },
    Client {
        name: "php streams",
        program: "php",
        arguments: &["-r", "exit(@file_get_contents('URL') === false ? 1 : 0);"],
        probe: None,
        may_fail: false,
        around: "PHP's streams read no proxy variable: use curl in PHP, or a stream context with `proxy`",
        credential: USERINFO,
        trust: "set openssl.cafile in php.ini to the bundle",
    },
];
