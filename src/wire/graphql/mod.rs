//! A GraphQL request over HTTP: which operation runs, and which fields it asks for (R98).
//!
//! A document may hold several operations of which one runs, fields may hide in fragments, and one
//! mutation may call the same field many times under aliases. What comes out is what a server would
//! execute. What servers read differently is unreadable: batches, stored documents named by a hash,
//! parameters twice, several operations and no name.

mod document;
mod fragments;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::body_paths::BodyPaths;
use super::json;
use super::media::Media;
use super::{Bounds, Decoded};
use crate::facts::{Key, Query, Term, count_nodes};

/// Where the operations stand in the tree.
const OPERATIONS: &str = "$operations";
/// What a request may have in a query string.
const PARAMETERS: [&str; 4] = ["query", "operationName", "variables", "extensions"];
/// Names under which servers look for a stored document. Beside a `query` some prefer them to it.
const STORED: [&str; 8] = ["documentId", "docId", "doc_id", "queryId", "query_id", "id", "hash", "sha256Hash"];
/// Nodes of a request whose tree is cut down to `body_paths` afterwards.
const NODES_BEFORE_PATHS: usize = 65_536;

/// Why a request is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Wrong(&'static str),
    TooMany,
}

use Unread::{TooMany, Wrong};

impl From<Unread> for Decoded {
    fn from(unread: Unread) -> Decoded {
        match unread {
            Wrong(what) => Decoded::Failed(format!("not readable as a GraphQL request: {what}")),
            TooMany => Decoded::Truncated,
        }
    }
}

/// Reads a body: JSON, or with `application/graphql` the document alone. The tree is the request's own
/// with `$operations` added: `[{"type", "name", "fields": [{"name", "args"}]}]`. `body_paths` cut down all
/// but `$operations`.
pub(super) fn parse(media_type: &str, bytes: &[u8], bounds: &Bounds) -> Decoded {
    let raw = match Media::parse(media_type).and_then(|media| media.require_utf8().map(|()| media)) {
        Ok(media) => media.essence == "application/graphql",
        Err(_) => return Wrong("a broken content type, or one that is not UTF-8").into(),
    };
    if raw {
        return match std::str::from_utf8(bytes) {
            Ok(text) => finish(BTreeMap::from([(Key::Str("query".into()), Term::from(text))]), None, bounds),
            Err(_) => Wrong("bytes that are no UTF-8").into(),
        };
    }
    let everything = bounds.body_paths.is_everything();
    let most = if everything { bounds.max_nodes } else { bounds.max_nodes.max(NODES_BEFORE_PATHS) };
    let request = match json::parse(bytes, &BodyPaths::default(), most) {
        Ok(Term::Map(entries)) => Arc::unwrap_or_clone(entries),
        Ok(Term::Array(_)) => return Wrong("a batch").into(),
        Ok(_) => return Wrong("JSON that is no object").into(),
        Err(error) => return error.into(),
    };
    let shown = match everything {
        true => None,
        false => match json::parse(bytes, &bounds.body_paths, bounds.max_nodes) {
            Ok(Term::Map(entries)) => Some(Arc::unwrap_or_clone(entries)),
            Ok(_) => Some(BTreeMap::new()),
            Err(error) => return error.into(),
        },
    };
    finish(request, shown, bounds)
}

/// Reads the parameters of a query string.
pub(super) fn parse_query(query: &Query, bounds: &Bounds) -> Decoded {
    let mut request = BTreeMap::new();
    for (name, value) in query.pairs() {
        if STORED.contains(&&**name) {
            return Wrong("a stored document").into();
        }
        if !PARAMETERS.contains(&&**name) {
            continue;
        }
        let term = match &**name {
            "variables" | "extensions" => {
                match json::parse(value.as_bytes(), &BodyPaths::default(), bounds.max_nodes) {
                    Ok(term) => term,
                    Err(error) => return error.into(),
                }
            }
            _ => Term::Str(Arc::clone(value)),
        };
        if request.insert(Key::Str(Arc::clone(name)), term).is_some() {
            return Wrong("a parameter that stands there twice").into();
        }
    }
    finish(request, None, bounds)
}

/// Whether a query string says anything about a GraphQL request.
pub(super) fn has_parameters(query: &Query) -> bool {
    query.pairs().iter().any(|(name, _)| PARAMETERS.contains(&&**name) || STORED.contains(&&**name))
}

/// Adds `$operations` to what is shown of a request.
fn finish(request: BTreeMap<Key, Term>, shown: Option<BTreeMap<Key, Term>>, bounds: &Bounds) -> Decoded {
    match operation(&request, bounds.max_nodes) {
        Ok(operation) => {
            let mut tree = shown.unwrap_or(request);
            tree.insert(Key::Str(OPERATIONS.into()), Term::Array([operation].into()));
            let tree = Term::Map(Arc::new(tree));
            if count_nodes(&tree) > bounds.max_nodes { TooMany.into() } else { Decoded::Ready(tree) }
        }
        Err(unread) => unread.into(),
    }
}

/// The operation that a server would run.
fn operation(request: &BTreeMap<Key, Term>, max_nodes: usize) -> Result<Term, Unread> {
    let get = |name: &str| request.get(&Key::Str(name.into())).filter(|term| **term != Term::Null);
    if get(OPERATIONS).is_some() {
        return Err(Wrong("a `$operations` of the client's"));
    }
    if STORED.iter().any(|name| get(name).is_some()) {
        return Err(Wrong("a stored document"));
    }
    let Some(Term::Str(text)) = get("query") else {
        return Err(Wrong("no document: neither batches nor stored documents are read"));
    };
    check_hash(get("extensions"), text)?;
    let name = match get("operationName") {
        None => None,
        Some(Term::Str(name)) => (!name.is_empty()).then_some(&**name),
        Some(_) => return Err(Wrong("an operation name that is no string")),
    };
    let none = BTreeMap::new();
    let variables = match get("variables") {
        None => &none,
        Some(Term::Map(variables)) => &**variables,
        Some(_) => return Err(Wrong("variables that are no object")),
    };
    document::operation(text, name, variables, max_nodes)
}

/// A hash beside a document must be the document's: a server that has another document under that hash
/// may run that one.
fn check_hash(extensions: Option<&Term>, text: &str) -> Result<(), Unread> {
    let persisted = match extensions {
        None => return Ok(()),
        Some(Term::Map(entries)) => entries.get(&Key::Str("persistedQuery".into())),
        Some(_) => return Err(Wrong("extensions that are no object")),
    };
    match persisted {
        None | Some(Term::Null) => Ok(()),
        Some(Term::Map(entries)) => match entries.get(&Key::Str("sha256Hash".into())) {
            Some(Term::Str(hash)) if **hash == *hex::encode(Sha256::digest(text)) => Ok(()),
            _ => Err(Wrong("a hash that is not the document's")),
        },
        Some(_) => Err(Wrong("a hash that is not the document's")),
    }
}
