//! The manifests that are shipped.

use super::super::{Catalog, Service};

#[test]
fn they_load_without_a_warning() {
    for (file, text) in Catalog::EMBEDDED.iter().chain(Catalog::EXAMPLES) {
        match Service::parse(text, file) {
            Ok(service) => assert_eq!(service.warnings(), [], "{file}"),
            Err(errors) => panic!("{errors}"),
        }
    }
}
