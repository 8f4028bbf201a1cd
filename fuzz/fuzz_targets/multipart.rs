//! A multipart body that is read has as many parts as boundaries, and the boundary stands nowhere else.
//! The first line of the input is the content type.
#![no_main]

use kleis::facts::{Term, lookup};
use kleis::wire::{Bounds, Decoded, Decoder, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(media) = std::str::from_utf8(&bytes[..end]) else { return };
    let _ = decode(&Decoder::Multipart, media, "", &bytes[end + 1..], true, &Bounds::default());
    let body = &bytes[end + 1..];
    for media in ["multipart/form-data; boundary=b", "multipart/related; boundary=\"b\""] {
        if let Decoded::Ready(tree) = decode(&Decoder::Multipart, media, "", body, true, &Bounds::default()) {
            let boundaries = body.windows(3).filter(|window| window == b"--b").count();
            assert_eq!(lookup(&tree, &["part_count"]), Some(&Term::Integer(boundaries as i64 - 1)));
        }
    }
});
