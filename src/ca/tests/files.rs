//! The files: made once, read ever after, never replaced silently (R71); a house CA (R67).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use time::{Duration, OffsetDateTime};

use super::super::{Ca, CaError};
use super::*;

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn load(dir: &Path) -> Result<Ca, String> {
    Ca::load_or_make(dir).map_err(|error: CaError| error.to_string())
}

pub(super) fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "The House");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = OffsetDateTime::now_utc() - Duration::days(2);
    params.not_after = OffsetDateTime::now_utc() + Duration::days(60);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    params
}

/// A root and an intermediate below it; PEM of the root, of the intermediate, and of the latter's key.
pub(super) fn house() -> (String, String, String) {
    let root_key = KeyPair::generate().unwrap();
    let root_params = ca_params("House Root");
    let root = root_params.self_signed(&root_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(root_params, root_key);
    let intermediate = ca_params("House Intermediate").signed_by(&key, &issuer).unwrap();
    (root.pem(), intermediate.pem(), key.serialize_pem())
}

#[test]
fn r71_the_same_ca_after_a_restart_and_private_files() {
    let dir = tempfile::tempdir().unwrap();
    let first = load(dir.path()).unwrap();
    assert_eq!(load(dir.path()).unwrap().ca_pem(), first.ca_pem());
    for name in ["ca.pem", "ca.key"] {
        assert_eq!(fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn r71_a_missing_half_is_an_error_with_the_mend_and_nothing_is_made() {
    for (gone, left) in [("ca.pem", "ca.key"), ("ca.key", "ca.pem")] {
        let dir = tempfile::tempdir().unwrap();
        load(dir.path()).unwrap();
        fs::remove_file(dir.path().join(gone)).unwrap();
        let error = load(dir.path()).err().unwrap();
        assert!(error.contains(gone) && error.contains(left) && error.contains("restore"), "{error}");
        assert!(!dir.path().join(gone).exists());
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn r71_material_that_cannot_serve_is_refused_with_one_clear_line() {
    let (root, intermediate, key) = house();
    let other_key = KeyPair::generate().unwrap();
    let mut expired = ca_params("Old");
    expired.not_after = OffsetDateTime::now_utc() - Duration::hours(1);
    let expired = expired.self_signed(&other_key).unwrap().pem();
    let mut leaf = ca_params("Leaf");
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages.clear();
    let leaf = leaf.self_signed(&other_key).unwrap().pem();
    let other = other_key.serialize_pem();
    for (certs, key, says) in [
        (&expired, &other, "is valid from"),
        (&intermediate, &other, "belongs to the private key"),
        (&root, &key, "belongs to the private key"),
        (&leaf, &other, "is not a CA"),
        (&"junk".to_owned(), &key, "no readable certificate"),
        (&intermediate, &"junk".to_owned(), "no readable private key"),
        (&"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(), &key, "no readable certificate"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "ca.pem", certs);
        write(dir.path(), "ca.key", key);
        let error = load(dir.path()).err().unwrap();
        assert!(error.contains(says), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn r67_the_issuing_certificate_is_found_by_its_key_in_any_order() {
    let (root, intermediate, key) = house();
    let both = [format!("{root}{intermediate}"), format!("{intermediate}{root}")];
    for certs in both {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "ca.pem", &certs);
        write(dir.path(), "ca.key", &key);
        let ca = load(dir.path()).unwrap();
        assert_eq!(ca.mint.chain_behind(), 1, "the intermediate is sent, the root is not");
        assert_eq!(ca.ca_pem(), format!("{intermediate}{root}"), "what clients may trust, the issuing one first");
    }
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "ca.pem", &format!("{key}{root}{intermediate}"));
    let ca = load(dir.path()).unwrap();
    assert!(!ca.ca_pem().contains("PRIVATE"), "a key in the same file is never handed out");
}

#[test]
fn r67_a_subject_that_would_not_come_out_the_same_is_still_named_exactly() {
    // Directory servers issue names with several attributes of one kind: DC=corp, DC=example.
    let Some(_) = run("openssl", &["version"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (key, cert) = (dir.path().join("ca.key"), dir.path().join("ca.pem"));
    let (ok, out) = run(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
            "-subj",
            "/DC=com/DC=example/DC=corp/OU=A/OU=B/CN=Corp Issuing",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout",
            key.to_str().unwrap(),
            "-out",
            cert.to_str().unwrap(),
        ],
    )
    .unwrap();
    assert!(ok, "{out}");
    for file in [&key, &cert] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let ca = load(dir.path()).unwrap();
    let leaf = dir.path().join("leaf.pem");
    write_pem(&leaf, &[leaf_der(&ca, "api.good.test", OffsetDateTime::now_utc())]);
    let (ok, out) =
        run("openssl", &["verify", "-x509_strict", "-CAfile", cert.to_str().unwrap(), leaf.to_str().unwrap()]).unwrap();
    assert!(ok, "{out}");
}
