//! Variables that no setup may set: with each of them a manifest could take traffic past the proxy, turn
//! verification off, run code, move an endpoint or let a secret out (DESIGN §12).
//!
//! The proxy and trust variables are set by whoever applies a setup, from the proxy's own answer.

/// Why a setup may not set this variable, if it may not. Case is ignored: several clients ignore it.
pub fn forbidden_variable(name: &str) -> Option<&'static str> {
    let right = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.len() <= 128
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !right {
        return Some("a variable's name has letters, digits and `_`");
    }
    let upper = name.to_ascii_uppercase();
    if ALLOWED.contains(&upper.as_str()) {
        return None;
    }
    TABLE.iter().find(|(_, rules)| rules.iter().any(|rule| rule.matches(&upper))).map(|(why, _)| *why)
}

/// Legitimate names that a rule below would catch.
const ALLOWED: [&str; 2] = ["GIT_HTTP_PROXY_AUTHMETHOD", "NODE_USE_ENV_PROXY"];

enum Rule {
    Is(&'static str),
    Begins(&'static str),
    Ends(&'static str),
    Has(&'static str),
}

impl Rule {
    fn matches(&self, upper: &str) -> bool {
        match self {
            Rule::Is(name) => upper == *name,
            Rule::Begins(start) => upper.starts_with(start),
            Rule::Ends(end) => upper.ends_with(end),
            Rule::Has(part) => upper.contains(part),
        }
    }
}

use Rule::{Begins, Ends, Has, Is};

const TABLE: &[(&str, &[Rule])] = &[
    ("the proxy is set by kleis", PROXY),
    ("trust is set by kleis", TRUST),
    ("it turns verification off", VERIFICATION),
    ("it lets secrets out", LEAKS),
    ("it runs code, or says which code runs", CODE),
    ("it moves an endpoint: kleis makes the base URLs", ENDPOINTS),
    ("a refresh token is never given to a sandbox", &[Ends("REFRESH_TOKEN")]),
];

const PROXY: &[Rule] =
    &[Has("PROXY"), Is("REQUEST_METHOD"), Begins("KLEIS_"), Ends("UNIX_SOCKET"), Is("SSH_AUTH_SOCK"), Ends("_SOCKS")];

const TRUST: &[Rule] = &[
    Begins("SSL_CERT_"),
    Is("GIT_SSL_CAINFO"),
    Is("GIT_SSL_CAPATH"),
    Begins("GIT_SSL_CERT"),
    Begins("GIT_SSL_KEY"),
    Has("CA_BUNDLE"),
    Has("CA_CERT"),
    Has("CACERT"),
    Ends("_CAINFO"),
    Ends("_CAPATH"),
    Ends("_CAFILE"),
    Is("PIP_CERT"),
    Is("DENO_CERT"),
    Is("DENO_TLS_CA_STORE"),
    Ends("SSL_ROOTS_FILE_PATH"),
    Begins("NODE_USE_SYSTEM_CA"),
    Is("CLAUDE_CODE_CERT_STORE"),
    Begins("CLAUDE_CODE_CLIENT_"),
    Is("UV_SYSTEM_CERTS"),
    Is("UV_NATIVE_TLS"),
    Is("NIX_SSL_CERT_FILE"),
    Ends("_CLIENT_CERT"),
    Ends("TRUSTSTORE"),
];

const VERIFICATION: &[Rule] = &[
    Is("NODE_TLS_REJECT_UNAUTHORIZED"),
    Has("NO_VERIFY"),
    Has("HTTPSVERIFY"),
    Has("SSL_VERIFY"),
    Has("SSLVERIFY"),
    Has("STRICT_SSL"),
    Has("INSECURE"),
    Ends("TRUSTED_HOST"),
    Begins("GONOSUM"),
    Is("GONOSUMDB"),
    Is("GOSUMDB"),
    Is("GOPRIVATE"),
    Has("DISABLE_SSL"),
    Has("SKIP_TLS"),
    Has("TLS_SKIP"),
    Has("UNSAFE"),
    Is("CURL_HOME"),
    Is("WGETRC"),
    Is("PGSSLMODE"),
    Is("NETRC"),
];

const LEAKS: &[Rule] = &[
    Is("SSLKEYLOGFILE"),
    Begins("GIT_TRACE"),
    Begins("GIT_CURL"),
    Is("NODE_DEBUG"),
    Is("RUST_LOG"),
    Is("GODEBUG"),
    Is("GH_DEBUG"),
    Is("ANTHROPIC_LOG"),
    Is("OPENAI_LOG"),
];

const CODE: &[Rule] = &[
    Begins("LD_"),
    Begins("DYLD_"),
    Is("GCONV_PATH"),
    Is("NODE_OPTIONS"),
    Is("NODE_PATH"),
    Is("NODE_REPL_EXTERNAL_MODULE"),
    Is("BUN_OPTIONS"),
    Begins("DENO_"),
    Begins("PYTHON"),
    Begins("RUBYOPT"),
    Begins("RUBYLIB"),
    Begins("BUNDLE_"),
    Begins("GEM_"),
    Begins("PERL"),
    Has("JAVA_OPTIONS"),
    Is("JAVA_TOOL_OPTIONS"),
    Is("CLASSPATH"),
    Is("JAVA_HOME"),
    Begins("MAVEN_"),
    Begins("GRADLE_"),
    Begins("DOTNET_"),
    Begins("CORECLR_"),
    Is("PHPRC"),
    Begins("PHP_INI"),
    Begins("LUA_"),
    Begins("ERL_"),
    Begins("R_PROFILE"),
    Begins("R_ENVIRON"),
    Begins("OPENSSL_"),
    Begins("RUSTC"),
    Begins("RUSTUP_"),
    Begins("CARGO_"),
    Is("CC"),
    Is("CXX"),
    Is("LD"),
    Is("AR"),
    Begins("GO111"),
    Is("GOFLAGS"),
    Is("GOENV"),
    Begins("MAKE"),
    Begins("CMAKE_"),
    Is("BASH_ENV"),
    Is("ENV"),
    Is("PROMPT_COMMAND"),
    Begins("PS"),
    Begins("BASH_FUNC"),
    Is("BASHOPTS"),
    Is("SHELLOPTS"),
    Is("IFS"),
    Is("CDPATH"),
    Is("ZDOTDIR"),
    Begins("FPATH"),
    Is("PATH"),
    Is("HOME"),
    Is("SHELL"),
    Is("USER"),
    Is("LOGNAME"),
    Is("PWD"),
    Begins("TMP"),
    Is("TEMP"),
    Begins("XDG_"),
    Is("EDITOR"),
    Is("VISUAL"),
    Has("PAGER"),
    Has("EDITOR"),
    Is("BROWSER"),
    Is("GH_BROWSER"),
    Begins("GIT_CONFIG"),
    Begins("GIT_SSH"),
    Ends("ASKPASS"),
    Is("GIT_EXEC_PATH"),
    Begins("GIT_EXTERNAL"),
    Is("GIT_TEMPLATE_DIR"),
    Is("GIT_DIR"),
    Is("GIT_WORK_TREE"),
    Is("GIT_INDEX_FILE"),
    Is("GIT_OBJECT_DIRECTORY"),
    Is("GIT_ALTERNATE_OBJECT_DIRECTORIES"),
    Is("GIT_ALLOW_PROTOCOL"),
    Is("GIT_ATTR_SOURCE"),
    Begins("NPM_CONFIG_"),
    Begins("YARN_"),
    Begins("PNPM_"),
    Begins("PIP_"),
    Begins("UV_"),
    Is("VIRTUAL_ENV"),
    Is("CONDA_EXE"),
    Is("KUBECONFIG"),
    Is("AWS_CONFIG_FILE"),
    Is("AWS_SHARED_CREDENTIALS_FILE"),
    Begins("DOCKER_"),
    Begins("LESS"),
    Is("MANPAGER"),
    Is("TERMINFO"),
    Begins("GLIBC_"),
    Begins("MALLOC_"),
    Is("HOSTALIASES"),
    Begins("LOCALDOMAIN"),
    Begins("RES_OPTIONS"),
    Is("NLSPATH"),
    Begins("GTK_"),
    Begins("QT_"),
    Is("VIMINIT"),
    Is("EXINIT"),
];

const ENDPOINTS: &[Rule] = &[
    Has("BASE_URL"),
    Has("ENDPOINT"),
    Is("GH_HOST"),
    Is("SENTRY_URL"),
    Has("URL_OVERRIDE"),
    Has("OAUTH_URL"),
    Has("INDEX_URL"),
    Has("REGISTRY"),
    Is("GITHUB_SERVER_URL"),
    Is("GITHUB_API_URL"),
    Is("GITHUB_GRAPHQL_URL"),
    Ends("_API_BASE"),
    Ends("_API_HOST"),
];
