use kleis::words::Secret;

fn main() {
    println!("{}", Secret::new("GOOD"));
}
