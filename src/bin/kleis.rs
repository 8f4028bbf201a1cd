//! The command line.

fn main() -> std::process::ExitCode {
    kleis::cli::main()
}
