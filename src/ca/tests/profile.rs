//! The certificates themselves.

use time::{Duration, OffsetDateTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};

use super::super::Ca;
use super::*;
use crate::ca::pem;
use rustls::pki_types::pem::PemObject;

fn parsed<'a>(der: &'a CertificateDer<'static>) -> X509Certificate<'a> {
    x509_parser::parse_x509_certificate(der).unwrap().1
}

fn ca_der(ca: &Ca) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(ca.ca_pem().as_bytes()).unwrap()
}

fn key_id(certificate: &X509Certificate<'_>) -> Vec<u8> {
    let found = certificate.iter_extensions().find_map(|e| match e.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn r64_the_ca_has_what_strict_verifiers_ask_for() {
    let (_dir, ca) = ca();
    let der = ca_der(&ca);
    let certificate = parsed(&der);
    let constraints = certificate.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert_eq!(constraints.value.path_len_constraint, Some(0));
    let usage = certificate.key_usage().unwrap().unwrap();
    assert!(usage.critical && usage.value.key_cert_sign() && usage.value.crl_sign());
    assert!(!key_id(&certificate).is_empty());
    assert!(certificate.validity().is_valid() && (364..=367).contains(&ca.days_left()));
}

#[test]
fn every_deployment_has_a_name_of_its_own() {
    let ((_a, first), (_b, second)) = (ca(), ca());
    let names = [ca_der(&first), ca_der(&second)];
    assert_ne!(parsed(&names[0]).subject().to_string(), parsed(&names[1]).subject().to_string());
}

#[test]
fn r64_a_leaf_names_its_issuers_key_and_its_own() {
    let (_dir, ca) = ca();
    let (der, issuer) = (leaf_der(&ca, "api.good.test", OffsetDateTime::now_utc()), ca_der(&ca));
    let (leaf, issuer) = (parsed(&der), parsed(&issuer));
    let authority = leaf.iter_extensions().find_map(|e| match e.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
        _ => None,
    });
    assert_eq!(authority.unwrap(), key_id(&issuer));
    assert_ne!(key_id(&leaf), key_id(&issuer), "a key of its own");
    assert!(!leaf.basic_constraints().unwrap().unwrap().value.ca);
    let usage = leaf.key_usage().unwrap().unwrap();
    assert!(usage.value.digital_signature() && !usage.value.key_cert_sign());
    let extended = leaf.extended_key_usage().unwrap().unwrap();
    assert!(extended.value.server_auth && !extended.value.client_auth);
    assert_eq!(leaf.raw_serial().len(), 16);
    leaf.subject_alternative_name().unwrap().unwrap();
}

#[test]
fn r65_a_leaf_begins_in_the_past_and_never_outlives_the_ca() {
    let (_dir, ca) = ca();
    let now = OffsetDateTime::now_utc();
    let der = leaf_der(&ca, "api.good.test", now);
    let validity = parsed(&der).validity().clone();
    let (from, until) = (validity.not_before.to_datetime(), validity.not_after.to_datetime());
    assert!(from <= now - Duration::minutes(60), "a clock that is behind accepts it");
    assert!((Duration::days(1)..=Duration::days(30)).contains(&(until - now)));

    let near_the_end = ca.not_after - Duration::hours(3);
    let (_, renew_at) = ca.mint.leaf(&host("api.good.test"), near_the_end).unwrap();
    assert!(renew_at < ca.not_after);
    assert!(ca.leaf_at(&host("a.test"), ca.not_after).is_err(), "an expired CA signs nothing");
}

#[test]
fn r65_a_cached_leaf_is_minted_again_before_it_expires() {
    let (_dir, ca) = ca();
    let (name, now) = (host("api.good.test"), OffsetDateTime::now_utc());
    assert!(!ca.is_cached(&name));
    let first = ca.leaf_at(&name, now).unwrap();
    assert!(ca.is_cached(&name));
    assert!(Arc::ptr_eq(&first, &ca.leaf_at(&name, now + Duration::days(1)).unwrap()));
    let later = ca.leaf_at(&name, now + Duration::days(6)).unwrap();
    assert!(!Arc::ptr_eq(&first, &later));
}

#[test]
fn r69_an_address_gets_an_address_and_no_name() {
    let (_dir, ca) = ca();
    for (target, octets) in [("127.0.0.2", vec![127, 0, 0, 2]), ("[::1]", [vec![0; 15], vec![1]].concat())] {
        let der = leaf_der(&ca, target, OffsetDateTime::now_utc());
        let leaf = parsed(&der);
        let names = &leaf.subject_alternative_name().unwrap().unwrap().value.general_names;
        assert!(matches!(names.as_slice(), [GeneralName::IPAddress(ip)] if *ip == octets), "{names:?}");
    }
}

#[test]
fn a_name_too_long_for_a_common_name_stands_in_a_critical_alternative_name() {
    let (_dir, ca) = ca();
    let long = format!("{}.{}.test", "a".repeat(60), "b".repeat(60));
    let der = leaf_der(&ca, &long, OffsetDateTime::now_utc());
    let leaf = parsed(&der);
    assert_eq!(leaf.subject().iter().count(), 0);
    assert!(leaf.subject_alternative_name().unwrap().unwrap().critical);
    let short = leaf_der(&ca, "a.test", OffsetDateTime::now_utc());
    assert!(!parsed(&short).subject_alternative_name().unwrap().unwrap().critical);
}

#[test]
fn pem_round_trips() {
    let (_dir, ca) = ca();
    let mut text = String::new();
    pem::push_certificate(&mut text, &ca_der(&ca));
    assert_eq!(text, ca.ca_pem());
    assert!(text.lines().all(|line| line.len() <= 64));
}

#[test]
fn the_bundle_ends_with_ours_and_is_readable() {
    let (_dir, ca) = ca();
    let bundle = ca.bundle();
    assert!(bundle.ends_with(ca.ca_pem()));
    assert!(CertificateDer::pem_slice_iter(bundle.as_bytes()).all(|der| der.is_ok()));
}
