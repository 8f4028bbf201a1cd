//! Certificates whose issuer has a name that the minting library can't write.

use rcgen::SigningKey;

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// The same certificate under another issuer's name, given as DER, signed again.
///
/// Directory servers name their CAs with several attributes of one kind (`DC=corp, DC=example`), in string
/// types of their own choosing; verifiers compare the issuer with that byte for byte, and rcgen keeps one
/// attribute of each kind. `None` if the input is no certificate or the key refuses.
pub(super) fn with_issuer(certificate: &[u8], issuer: &[u8], key: &impl SigningKey) -> Option<Vec<u8>> {
    let (_, outer, _) = split(certificate)?;
    let (_, tbs, behind) = split(outer)?;
    let (algorithm, _, _) = split(behind)?;
    // RFC 5280 §4.1: version, serialNumber, signature, issuer, …
    let (version, _, rest) = split(tbs)?;
    let (serial, _, rest) = split(rest)?;
    let (signature, _, rest) = split(rest)?;
    let (_, _, rest) = split(rest)?;
    let tbs = element(SEQUENCE, &[version, serial, signature, issuer, rest]);
    let signed = key.sign(&tbs).ok()?;
    let signed = element(BIT_STRING, &[&[0], &signed]);
    Some(element(SEQUENCE, &[&tbs, algorithm, &signed]))
}

/// The first element with its header, its content, and what is behind it.
fn split(input: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (first, behind) = (*input.get(1)?, input.get(2..)?);
    let (length, content) = if first < 0x80 {
        (usize::from(first), behind)
    } else {
        let (digits, content) = behind.split_at_checked(usize::from(first & 0x7f))?;
        let length = digits.iter().try_fold(0usize, |n, b| n.checked_mul(256)?.checked_add(usize::from(*b)))?;
        (length, content)
    };
    let (content, rest) = content.split_at_checked(length)?;
    let whole = input.get(..input.len() - rest.len())?;
    Some((whole, content, rest))
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    let digits = length.to_be_bytes();
    let digits = digits.get(digits.iter().take_while(|b| **b == 0).count()..).unwrap_or_default();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            out.push(0x80 | digits.len() as u8);
            out.extend_from_slice(digits);
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}
