//! A git request is judged the same however it arrives: more bytes never change a verdict.
#![no_main]

use kleis::wire::{Bounds, Decoded, Decoder, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let read = |bytes: &[u8], all| decode(&Decoder::GitReceivePack, "", "", bytes, all, &Bounds::default());
    let last = read(bytes, true);
    assert_ne!(last, Decoded::NeedMore);
    for cut in [bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(1), bytes.len()] {
        let answer = read(&bytes[..cut], false);
        assert!(answer == Decoded::NeedMore || answer == last, "{answer:?}, then {last:?}");
    }
});
