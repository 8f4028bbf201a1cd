//! A secret is exposed in few places, and each of them is known.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests may panic"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// File, number of calls, why. Whoever adds a line has looked at what becomes of the bytes.
const ALLOWED: &[(&str, usize, &str)] = &[
    ("credential/exec.rs", 1, "written to the command's standard input"),
    ("credential/github_app/api.rs", 2, "the App's statement, into a header and out of quoted words"),
    ("credential/github_app/mod.rs", 1, "the App's key, to sign with"),
    ("credential/inject.rs", 2, "into the request, as the last thing that happens to it"),
    ("credential/material.rs", 1, "looked at for what can't be sent"),
    ("credential/seal.rs", 1, "encrypted"),
    ("upstream/parent.rs", 4, "the login of the parent proxy, to that proxy"),
    ("words/secret.rs", 2, "the definition"),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code before a file's tests, without comments.
fn product(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_secret_is_exposed_only_where_it_is_spent() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        if name.ends_with("tests.rs") || name.contains("tests/") {
            continue;
        }
        let code = product(&fs::read_to_string(&file).unwrap());
        let calls = code.matches("expose(").count() + code.matches("expose_str(").count();
        if calls > 0 {
            found.insert(name, calls);
        }
    }
    let allowed: BTreeMap<_, _> = ALLOWED.iter().map(|(file, calls, _)| ((*file).to_owned(), *calls)).collect();
    assert_eq!(found, allowed, "a call of `Secret::expose` that nobody has looked at, or one that is gone");
}
