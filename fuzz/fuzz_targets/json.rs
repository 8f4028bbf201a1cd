//! What is read is JSON to others too, and paths only leave things out.
#![no_main]

use kleis::facts::count_nodes;
use kleis::wire::{BodyPaths, Bounds, Decoded, Decoder, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(&Decoder::Json, "application/json", "", bytes, true, &Bounds::default());
    let body_paths = BodyPaths::parse(&["a", "b.*.c", "*.d"]).expect("paths");
    let some = decode(&Decoder::Json, "", "", bytes, true, &Bounds { body_paths, ..Bounds::default() });
    if let Decoded::Ready(tree) = &whole {
        // a number beyond a double's range is all that serde_json refuses and this reader doesn't
        if let Err(error) = serde_json::from_slice::<serde_json::Value>(bytes) {
            assert!(error.to_string().contains("out of range"), "{error}");
        }
        let Decoded::Ready(part) = &some else { panic!("read as a whole, not in part: {some:?}") };
        assert!(count_nodes(part) <= count_nodes(tree).max(1));
    }
});
