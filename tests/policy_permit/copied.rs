//! A permit is spent once.

use kleis::policy::Permit;

fn twice(permit: Permit) -> (Permit, Permit) {
    (permit.clone(), permit)
}

fn main() {
    let _ = twice;
}
