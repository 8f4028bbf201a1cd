//! Every way in which a manifest can be wrong.

use super::super::Service;

const HEAD: &str = "name = 's'\nhosts = ['api.good.test', 'git.good.test:8443', '*.wild.test']\n";

/// What is said of a manifest that begins with [`HEAD`].
pub(super) fn wrong(rest: &str) -> String {
    match Service::parse(&format!("{HEAD}{rest}"), "s.toml") {
        Ok(_) => "nothing".to_owned(),
        Err(errors) => errors.to_string(),
    }
}
