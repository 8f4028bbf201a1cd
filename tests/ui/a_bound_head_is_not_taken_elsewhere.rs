use kleis::credential::Bound;

fn take(mut bound: Bound) {
    let _ = bound.take_request();
}

fn main() {}
