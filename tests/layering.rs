//! Imports point downward: words ← pure rooms ← keeping ← serving ← top (DESIGN §4).
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
use std::path::{Path, PathBuf};

/// Which layer each room of `src/` belongs to.
fn layers() -> BTreeMap<&'static str, u8> {
    let mut layers = BTreeMap::new();
    for (layer, rooms) in [
        (0, &["words"][..]),
        (1, &["facts", "service", "wire", "token", "policy"]),
        (2, &["store", "audit", "credential", "ca", "upstream", "config", "operator"]),
        (3, &["proxy", "admin"]),
        (4, &["cli", "bin"]),
    ] {
        for room in rooms {
            layers.insert(*room, layer);
        }
    }
    layers
}

/// Crates that a layer must not know: what does I/O, speaks HTTP or reads a clock stays above.
fn banned(layer: u8) -> &'static [&'static str] {
    match layer {
        0 | 1 => &[
            "tokio::",
            "hyper::",
            "hyper_util::",
            "http::",
            "http_body",
            "rustls::",
            "tokio_rustls",
            "sqlx::",
            "std::fs",
            "std::net::Tcp",
            "std::net::Udp",
            "SystemTime",
            "Instant::now",
            "std::process",
            "std::env",
            "tracing::",
            "metrics::",
        ],
        2 => &["hyper::server", "hyper_util::server", "clap::"],
        3 => &["clap::"],
        _ => &[],
    }
}

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The code of a file without comments and without what stands behind `#[cfg(test)]` (tests may look
/// anywhere).
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The rooms named as `crate::ROOM` or within `crate::{…}` groups.
fn rooms_used(code: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let group = group.split(';').next().unwrap_or_default();
            rooms.extend(
                group.split([',', '{', '}']).filter_map(|part| part.trim().split("::").next()).map(str::to_owned),
            );
        } else {
            rooms.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    rooms
}

/// Whether the file is a module that its parent has only in tests.
fn only_in_tests(file: &Path) -> bool {
    let (name, dir) = (file.file_stem().unwrap().to_str().unwrap(), file.parent().unwrap());
    let parents = [dir.join("mod.rs"), dir.with_extension("rs")];
    let declaration = format!("#[cfg(test)]\nmod {name};");
    let in_tests = parents
        .iter()
        .filter_map(|parent| std::fs::read_to_string(parent).ok())
        .any(|text| text.contains(&declaration));
    in_tests || dir.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn every_room_has_a_layer_and_imports_only_from_its_own_or_a_lower_one() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layers = layers();
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&src).unwrap();
        let room =
            relative.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if room == "lib" || only_in_tests(&file) {
            continue;
        }
        let Some(&layer) = layers.get(room.as_str()) else {
            wrong.push(format!("{}: the room `{room}` has no layer", relative.display()));
            continue;
        };
        let code = code(&std::fs::read_to_string(&file).unwrap());
        for used in rooms_used(&code) {
            if layers.get(used.as_str()).is_some_and(|&l| l > layer) {
                wrong.push(format!("{}: layer {layer} imports `{used}`", relative.display()));
            }
        }
        for ban in banned(layer) {
            if code.contains(ban) {
                wrong.push(format!("{}: layer {layer} knows `{ban}`", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}
