//! Proxies.
