//! The functions that kleis adds to biscuit's expression language (`.extern::name(…)`).

use std::net::IpAddr;

use globset::{GlobBuilder, GlobMatcher};

use super::fault::EvalError;
use super::interner::Terms;
use super::word::{Kind, Word};

/// A function over values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extern {
    /// `$ref.extern::glob("refs/heads/agent/**")`: as in allow lines, `*` stops at `/`, `**` doesn't.
    Glob,
    /// `"10.0.0.0/8".extern::cidr_contains($ip)`; the other way round means the same.
    CidrContains,
    /// `$path.extern::path_normalize()`: without `.`, `..` and repeated slashes; climbing above the
    /// root is an error.
    PathNormalize,
    /// `$version.extern::semver_satisfies("^1.2")`.
    SemverSatisfies,
    /// `$body.extern::json_pointer("/a/0")` (RFC 6901): the value there, or null.
    JsonPointer,
}

impl Extern {
    /// Every name, `allows` apart.
    pub const NAMES: &[&str] = &["glob", "cidr_contains", "path_normalize", "semver_satisfies", "json_pointer"];

    /// The function of that name with or without an argument.
    pub fn find(name: &str, argument: bool) -> Option<Extern> {
        Some(match (name, argument) {
            ("glob", true) => Extern::Glob,
            ("cidr_contains", true) => Extern::CidrContains,
            ("path_normalize", false) => Extern::PathNormalize,
            ("semver_satisfies", true) => Extern::SemverSatisfies,
            ("json_pointer", true) => Extern::JsonPointer,
            _ => return None,
        })
    }
}

/// Compiles a glob in the one dialect of grants and allow lines.
pub fn glob(pattern: &str) -> Option<GlobMatcher> {
    GlobBuilder::new(pattern).literal_separator(true).build().ok().map(|glob| glob.compile_matcher())
}

/// `cidr_contains`: one operand has a slash and is the network.
pub fn cidr_contains(a: &str, b: &str) -> Result<bool, EvalError> {
    let (network, address) = if a.contains('/') { (a, b) } else { (b, a) };
    let network: ipnet::IpNet = network.parse().map_err(|_| EvalError::Cidr)?;
    let address: IpAddr = address.parse().map_err(|_| EvalError::Cidr)?;
    // `::ffff:10.0.0.1` is 10.0.0.1 to every kernel: it must be inside 10.0.0.0/8 here too.
    Ok(network.contains(&address) || network.contains(&address.to_canonical()))
}

/// `semver_satisfies`.
pub fn semver_satisfies(version: &str, requirement: &str) -> Result<bool, EvalError> {
    let version = semver::Version::parse(version).map_err(|_| EvalError::Semver)?;
    let requirement = semver::VersionReq::parse(requirement).map_err(|_| EvalError::Semver)?;
    Ok(requirement.matches(&version))
}

/// `path_normalize`.
pub fn path_normalize(path: &str) -> Result<String, EvalError> {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop().ok_or(EvalError::Path)?;
            }
            other => kept.push(other),
        }
    }
    let joined = kept.join("/");
    Ok(if path.starts_with('/') { format!("/{joined}") } else { joined })
}

/// `json_pointer`.
pub fn json_pointer(terms: &Terms<'_>, value: Word, pointer: &str) -> Result<Word, EvalError> {
    if pointer.is_empty() {
        return Ok(value);
    }
    let rest = pointer.strip_prefix('/').ok_or(EvalError::Pointer)?;
    let mut here = value;
    for token in rest.split('/') {
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match here.kind() {
            Kind::Array => index(&token).and_then(|index| terms.get_list(here).get(index).copied()),
            Kind::Map => terms.known_str(&token).and_then(|key| map_get(terms, here, key)),
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None => return Ok(Word::NULL),
        }
    }
    Ok(here)
}

/// RFC 6901: digits without a leading zero.
fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|b| b.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    if plain { token.parse().ok() } else { None }
}

/// The value under a key of a map.
pub fn map_get(terms: &Terms<'_>, map: Word, key: Word) -> Option<Word> {
    terms.get_list(map).chunks_exact(2).find(|pair| pair.first() == Some(&key)).and_then(|pair| pair.get(1).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_an_address_whatever_the_order_and_the_spelling() {
        for (a, b, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.1.2.3", "10.0.0.0/8", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "10.0.0.1", false),
        ] {
            assert_eq!(cidr_contains(a, b), Ok(expected), "{a} {b}");
        }
        for (a, b) in [("10.0.0.0", "10.0.0.1"), ("x/8", "10.0.0.1"), ("10.0.0.0/8", "host"), ("10.0.0.0/33", "::1")] {
            assert_eq!(cidr_contains(a, b), Err(EvalError::Cidr), "{a} {b}");
        }
    }

    #[test]
    fn versions_and_requirements_are_semver() {
        assert_eq!(semver_satisfies("1.2.3", "^1.2"), Ok(true));
        assert_eq!(semver_satisfies("2.0.0", "^1.2"), Ok(false));
        assert_eq!(semver_satisfies("1.2", "^1.2"), Err(EvalError::Semver));
        assert_eq!(semver_satisfies("1.2.3", "x.y"), Err(EvalError::Semver));
    }

    #[test]
    fn a_path_is_normalised_and_never_climbs_out() {
        for (path, expected) in [("/a/./b//c/", "/a/b/c"), ("/a/../b", "/b"), ("a/b/..", "a"), ("/", "/"), ("", "")] {
            assert_eq!(path_normalize(path).as_deref(), Ok(expected), "{path}");
        }
        for path in ["/..", "../x", "/a/../../b"] {
            assert_eq!(path_normalize(path), Err(EvalError::Path), "{path}");
        }
    }

    #[test]
    fn a_star_stops_at_a_slash() {
        let matches = |pattern: &str, text: &str| glob(pattern).is_some_and(|glob| glob.is_match(text));
        assert!(matches("refs/heads/agent/**", "refs/heads/agent/a/b"));
        assert!(matches("refs/heads/wip/*", "refs/heads/wip/a"));
        assert!(!matches("refs/heads/wip/*", "refs/heads/wip/a/b"));
        assert!(!matches("refs/heads/agent/**", "refs/heads/agentx/a"));
        assert!(glob("[").is_none());
    }
}
