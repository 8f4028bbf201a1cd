//! `credentials/*.toml`: credentials that files declare (DESIGN §13).
//!
//! The file says where the material is and never holds it.

use std::path::Path;
use std::sync::Arc;

use crate::credential::{Declared, PROVIDERS, Source, check};
use crate::words::strict_toml::{self, Table};
use crate::words::{CredentialName, FileErrors, HostPattern, ServiceName, nearest};

const KEYS: [&str; 8] = ["name", "service", "provider", "kind", "hosts", "secret_file", "secret_env", "config"];
/// Words that people write for the material itself.
const SECRETS: [&str; 6] = ["secret", "token", "password", "key", "value", "api_key"];

/// Reads a declaration. Relative paths are relative to `base`, the file's folder.
pub(super) fn parse(text: &str, file: &str, base: &Path) -> Result<Declared, FileErrors> {
    strict_toml::read(text, file, &KEYS, |root| {
        // Unknown keys anyway, and more to say about them: a secret in a file like this one is copied into
        // repositories and config maps.
        for key in SECRETS {
            if root.get(key).is_some() {
                let message = format!(
                    "a secret doesn't stand in this file: use `secret_file` or `secret_env` instead of `{key}`"
                );
                root.complain_about_key(key, message);
            }
        }
        let name = root.required("name").and_then(|value| value.parse(CredentialName::parse));
        let service = root.required("service").and_then(|value| value.parse(ServiceName::parse));
        let provider = provider(&root);
        let source = source(&root, base, &provider);
        let settings = settings(&root);
        if PROVIDERS.contains(&provider.as_str())
            && let Err(why) = check(&provider, &settings, None)
        {
            root.complain_about_key("config", why);
        }
        Some(Declared {
            name: name?,
            service: service?,
            kind: root.get("kind").and_then(|value| value.nonempty()).map_or_else(|| Arc::from("api_key"), Arc::from),
            hosts: hosts(&root),
            settings,
            provider,
            source: source?,
        })
    })
}

fn provider(root: &Table<'_>) -> String {
    let Some(value) = root.get("provider") else {
        return "static".to_owned();
    };
    let given = value.string().unwrap_or_default();
    if value.is_string() && !PROVIDERS.contains(&given) {
        let hint = match nearest(given, PROVIDERS.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "use one of {}",
                PROVIDERS.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            ),
        };
        value.complain(format!("unknown provider `{given}`: {hint}"));
    }
    given.to_owned()
}

fn source(root: &Table<'_>, base: &Path, provider: &str) -> Option<Source> {
    let file = root.get("secret_file").and_then(|value| value.nonempty());
    let variable = root.get("secret_env").and_then(|value| value.nonempty());
    match (file, variable) {
        (Some(_), Some(_)) => {
            root.complain_about_key("secret_env", "`secret_file` and `secret_env` exclude each other: keep one");
            None
        }
        (Some(file), None) => Some(Source::File(base.join(file))),
        (None, Some(variable)) => Some(Source::Env(variable.to_owned())),
        (None, None) if provider == "exec" => Some(Source::None),
        (None, None) => {
            if root.get("secret_file").is_none() && root.get("secret_env").is_none() {
                root.complain("nothing says where the secret is: use `secret_file` or `secret_env`");
            }
            None
        }
    }
}

fn hosts(root: &Table<'_>) -> Option<Vec<HostPattern>> {
    let value = root.get("hosts")?;
    let hosts = value.parse_list(HostPattern::parse)?;
    if hosts.is_empty() {
        value.complain("`hosts` is empty: name the hosts that the secret may go to, or leave it to the manifest");
    }
    Some(hosts)
}

fn settings(root: &Table<'_>) -> serde_json::Value {
    let settings = root.get("config").and_then(|value| value.open_table().and_then(|_| value.json()));
    settings.unwrap_or_else(|| serde_json::Value::Object(serde_json::Map::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Declared, String> {
        parse(text, "c.toml", Path::new("/etc/kleis")).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_declaration_says_where_the_secret_is() {
        let declared = read(
            "name = 'github/app'\nservice = 'github'\nprovider = 'github-app'\nsecret_file = 'app.pem'\n\
             hosts = ['api.github.com']\n[config]\napp_id = 17\nowner = 'acme'\n",
        )
        .unwrap();
        assert_eq!(declared.source, Source::File("/etc/kleis/app.pem".into()));
        assert_eq!(declared.settings, serde_json::json!({"app_id": 17, "owner": "acme"}));
        assert_eq!(declared.kind.as_ref(), "api_key");
        let from_env = read("name = 'a/b'\nservice = 'a'\nkind = 'oauth'\nsecret_env = 'TOKEN'\n").unwrap();
        assert_eq!((from_env.source, from_env.provider.as_str()), (Source::Env("TOKEN".into()), "static"));
    }

    #[test]
    fn a_secret_in_the_file_is_refused_and_not_repeated() {
        let wrong = read("name = 'a/b'\nservice = 'a'\ntoken = 'ghp_topsecret'\nsecret_env = 'X'\n").unwrap_err();
        assert!(wrong.starts_with("c.toml:3:1: ") && wrong.contains("secret_file"), "{wrong}");
        assert!(!wrong.contains("topsecret"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, part) in [
            ("name = 'a'\nservice = 'a'\nsecret_env = 'X'", "c.toml:1:8: `name`: `a` is not a name for a credential"),
            ("name = 'a/b'\nsecret_env = 'X'", "`service` is missing"),
            ("name = 'a/b'\nservice = 'a'", "nothing says where the secret is"),
            ("name = 'a/b'\nservice = 'a'\nsecret_env = 'X'\nsecret_file = 'y'", "exclude each other"),
            ("name = 'a/b'\nservice = 'a'\nsecret_file = ''", "`secret_file` is empty"),
            ("name = 'a/b'\nservice = 'a'\nsecret_file = 3", "`secret_file` is a whole number"),
            ("name = 'a/b'\nservice = 'a'\nsecret_env = 'X'\nprovider = 'githubapp'", "did you mean `github-app`?"),
            ("name = 'a/b'\nservice = 'a'\nsecret_env = 'X'\nhosts = []", "`hosts` is empty"),
            ("name = 'a/b'\nservice = 'a'\nsecret_env = 'X'\nconfig = 'x'", "`config` is a string: use a table"),
            ("name = 'a/b'\nservice = 'a'\nprovider = 'exec'\n[config]\nargs = []", "missing field `command`"),
            ("name = 'a/b'\nservice = 'a'\nsecret_env = 'X'\nconfig = {x = 1}", "`static` has no settings"),
            ("name = 'a/b'\nservice = 'a'\nsecret_flie = 'X'", "did you mean `secret_file`?"),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.contains(part), "{text}: {wrong}");
        }
    }
}
