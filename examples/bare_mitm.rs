//! `bare_mitm LISTEN DATA_DIR ORIGIN_CA.pem AUTHORIZATION [guarded]`: a MITM of kleisd's stack that decides
//! nothing, to be put beside kleisd under any load generator. The load bench (`cargo bench --bench load`) has it
//! built in.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests may panic"
)]

#[path = "../benches/load/bare.rs"]
mod bare;

fn main() -> Result<(), bare::Fault> {
    bare::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
