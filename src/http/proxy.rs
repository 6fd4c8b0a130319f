//! Which proxy a request takes: from the environment or as told, and what is asked directly.

use std::{env, net::IpAddr};

use ureq::{Proxy, http::Uri};

use crate::{
    error::{Error, ErrorKind, Result},
    http::{options::ProxyChoice, url},
    secret::Secret,
};

/// The proxies of a client, decided when it is made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxies {
    http: Option<Found>,
    https: Option<Found>,
    except: Vec<Exception>,
    /// The machine itself is asked directly. So it is with proxies from the environment, which is seldom written with a
    /// local model server in mind.
    spares_loopback: bool,
}

/// A proxy and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) url: Secret,
    place: String,
}

/// One entry of `NO_PROXY`.
#[derive(Debug, PartialEq, Eq)]
enum Exception {
    Everything,
    /// The name itself, unless `below_only`, and every name below it.
    Domain {
        name: String,
        port: Option<u16>,
        below_only: bool,
    },
    Network {
        address: IpAddr,
        bits: u8,
        port: Option<u16>,
    },
}

impl Proxies {
    pub(crate) fn new(choice: &ProxyChoice) -> Proxies {
        match choice {
            ProxyChoice::Environment => {
                Proxies::from_environment(|name| env::var(name).ok().filter(|it| !it.is_empty()))
            }
            ProxyChoice::Direct => Proxies::default(),
            ProxyChoice::Url { url, except } => {
                let found = Some(Found { url: url.clone(), place: "the options".to_owned() });
                let except = except.iter().filter_map(|it| Exception::read(it)).collect();
                Proxies { http: found.clone(), https: found, except, spares_loopback: false }
            }
        }
    }

    pub(crate) fn from_environment(get: impl Fn(&str) -> Option<String>) -> Proxies {
        let find = |names: &[&str]| {
            names.iter().find_map(|name| {
                let url = Secret::new(get(name)?);
                Some(Found { url, place: (*name).to_owned() })
            })
        };
        let except = get("no_proxy").or_else(|| get("NO_PROXY")).unwrap_or_default();
        Proxies {
            http: find(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
            https: find(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            except: except
                .split([',', ' '])
                .filter(|it| !it.is_empty())
                .filter_map(Exception::read)
                .collect(),
            spares_loopback: true,
        }
    }

    /// Returns the proxy for a request to `uri`.
    pub(crate) fn select(&self, uri: &Uri) -> Option<&Found> {
        let found = if uri.scheme_str() == Some("https") {
            self.https.as_ref()
        } else {
            self.http.as_ref()
        };
        found.filter(|_| !self.spares(uri))
    }

    /// Returns each proxy once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Found> {
        let second = self.https.as_ref().filter(|it| Some(*it) != self.http.as_ref());
        self.http.iter().chain(second)
    }

    fn spares(&self, uri: &Uri) -> bool {
        let host = bare(uri.host().unwrap_or_default()).to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        let loopback = host == "localhost" || address.is_some_and(|it| it.is_loopback());
        (self.spares_loopback && loopback)
            || self.except.iter().any(|it| it.covers(&host, address, url::port(uri)))
    }
}

impl Found {
    /// The proxy's host and port, without its name and password.
    pub(crate) fn address(&self) -> Option<String> {
        let proxy = Proxy::new(self.url.expose()).ok()?;
        Some(format!("{}:{}", proxy.host(), proxy.port()))
    }

    pub(crate) fn open(&self) -> Result<Proxy> {
        Proxy::new(self.url.expose()).map_err(|_| {
            let text = format!(
                "the proxy in {} is no URL of a known kind: write it as http://host:port, or with https, socks4, \
                 socks4a, socks5 or socks5h",
                self.place
            );
            Error::new(ErrorKind::Configuration, text)
        })
    }
}

impl Exception {
    fn read(entry: &str) -> Option<Exception> {
        let entry = entry.trim().to_ascii_lowercase();
        if entry == "*" {
            return Some(Exception::Everything);
        }
        let (host, port) = split_port(&entry);
        let host = bare(host);
        if let Some((address, bits)) = host.split_once('/') {
            let address = address.parse().ok()?;
            return Some(Exception::Network { address, bits: bits.parse().ok()?, port });
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            return Some(Exception::Network { address, bits, port });
        }
        let name = host.trim_start_matches('*').trim_start_matches('.').trim_end_matches('.');
        let below_only = host.starts_with("*.");
        (!name.is_empty()).then(|| Exception::Domain { name: name.to_owned(), port, below_only })
    }

    fn covers(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        match self {
            Exception::Everything => true,
            Exception::Domain { name, port: only, below_only } => {
                let host = host.trim_end_matches('.');
                let below =
                    host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'));
                (below || (host == name && !below_only)) && only.is_none_or(|it| it == port)
            }
            Exception::Network { address: network, bits, port: only } => {
                address.is_some_and(|it| within(it, *network, *bits))
                    && only.is_none_or(|it| it == port)
            }
        }
    }
}

/// Splits a port from the end; an IPv6 address has one only behind brackets.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host)
}

fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let shift = u32::from(width - bits.min(width));
    address.checked_shr(shift) == network.checked_shr(shift)
}
