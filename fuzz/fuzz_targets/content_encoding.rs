//! Undoing an encoding stays within its bound. The first byte of the input chooses the encoding.
#![no_main]

use kleis::wire::{Bounds, Decoded, Decoder, decode, inflate};
use libfuzzer_sys::fuzz_target;

const ENCODINGS: [&str; 7] = ["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate", "identity"];
const MOST: usize = 64 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let encoding = ENCODINGS[usize::from(*first) % ENCODINGS.len()];
    match inflate(encoding, bytes, MOST) {
        Ok(undone) => assert!(undone.len() <= MOST),
        Err(Decoded::TooLarge | Decoded::Failed(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
    let bounds = Bounds { max_prefix: 1024, max_decoded: MOST, ..Bounds::default() };
    let whole = decode(&Decoder::GitReceivePack, "", encoding, bytes, true, &bounds);
    assert_ne!(whole, Decoded::NeedMore);
    let _ = decode(&Decoder::GitReceivePack, "", encoding, &bytes[..bytes.len() / 2], false, &bounds);
});
