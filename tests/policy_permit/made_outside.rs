//! A permit can't be written down.

use kleis::policy::{Candidate, CredentialChoice, Narrowing, Permit, Watch};
use kleis::words::{Authority, Scheme};

fn main() {
    let _ = Permit {
        authority: Authority::parse(Scheme::Https, "victim.test").unwrap(),
        service: None,
        candidate: Candidate::Passthrough,
        items: Vec::new(),
        credential: CredentialChoice::Anonymous,
        narrowing: Narrowing::default(),
        watch: Watch::default(),
        fuel: 0,
    };
}
