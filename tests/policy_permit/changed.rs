//! A permit is for what was judged.

use kleis::policy::Permit;
use kleis::words::Authority;

fn elsewhere(permit: &mut Permit, authority: Authority) {
    permit.authority = authority;
}

fn main() {
    let _ = elsewhere;
}
