//! Upstreams: resolve, check the address, dial, verify, pool.
