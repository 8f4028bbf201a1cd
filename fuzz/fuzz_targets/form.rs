//! A form that is read has a value for each of its pairs.
#![no_main]

use kleis::facts::{Term, body_nodes};
use kleis::wire::{Bounds, Decoded, Decoder, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let decoded = decode(&Decoder::Form, "application/x-www-form-urlencoded", "", bytes, true, &Bounds::default());
    if let Decoded::Ready(tree) = decoded {
        let given = bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).count();
        assert_eq!(body_nodes(&tree).count(), given);
        assert!(body_nodes(&tree).all(|(_, value)| matches!(value, Term::Str(_))));
    }
});
