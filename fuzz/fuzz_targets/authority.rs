//! An authority that parses is in its one spelling.
#![no_main]

use kleis::words::{Authority, Host, Scheme};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|raw: &str| {
    for authority in [Authority::parse(Scheme::Https, raw), Authority::parse_connect(raw)].into_iter().flatten() {
        assert_ne!(authority.port(), 0);
        let again = Authority::parse(Scheme::Https, &authority.host_header()).expect("its own spelling parses");
        assert_eq!(again, authority);
        assert_eq!(Host::parse(&authority.host().to_string()).as_ref(), Ok(authority.host()));
    }
});
