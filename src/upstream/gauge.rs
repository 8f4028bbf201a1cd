//! Counts of what is open, for the metrics.

/// One open connection.
#[derive(Debug)]
pub(super) struct Open(&'static str);

impl Open {
    pub(super) fn new(protocol: &'static str) -> Open {
        metrics::gauge!("kleis_upstream_connections", "protocol" => protocol).increment(1.0);
        Open(protocol)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        metrics::gauge!("kleis_upstream_connections", "protocol" => self.0).decrement(1.0);
    }
}
