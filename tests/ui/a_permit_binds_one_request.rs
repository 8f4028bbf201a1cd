use kleis::credential::{Stripped, Vault, bind};
use kleis::policy::Permit;

async fn twice(permit: Permit, one: Stripped, another: Stripped, vault: &Vault) {
    let _ = bind(permit, one, None, vault).await;
    let _ = bind(permit, another, None, vault).await;
}

fn main() {}
