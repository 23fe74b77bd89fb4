//! Takes down what is wrong with an object, and asks what many fields are asked.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use units::{Mac, Prefix, Rate};

use crate::fault::Fault;
use crate::objects::AddressRange;

/// The least rate of an uplink's share.
const LEAST_RATE: Rate = Rate::from_bits_per_sec(100_000).unwrap();

/// Takes down what is wrong with one object.
pub struct Report<'a> {
    pub index: usize,
    pub object: &'a str,
    pub faults: &'a mut Vec<Fault>,
}

impl Report<'_> {
    /// Something is wrong at a path, and what to write instead.
    pub fn say(&mut self, path: impl Display, message: impl Display) {
        self.faults.push(Fault {
            index: Some(self.index),
            object: self.object.to_string(),
            path: path.to_string(),
            message: message.to_string(),
            position: None,
        });
    }

    /// A list has at most so many items.
    pub fn most<T>(&mut self, path: &str, list: &[T], most: usize) {
        if list.len() > most {
            self.say(path, format!("{} are too many: write at most {most}", list.len()));
        }
    }

    /// A number is within bounds.
    pub fn within<T: PartialOrd + Display>(
        &mut self,
        path: &str,
        value: T,
        bounds: RangeInclusive<T>,
    ) {
        if !bounds.contains(&value) {
            let (least, most) = bounds.into_inner();
            self.say(path, format!("{value} is out of bounds: write {least} to {most}"));
        }
    }

    /// Names of a list are each there once.
    pub fn once<'n, T: Ord + Display + 'n>(
        &mut self,
        names: impl Iterator<Item = (String, &'n T)>,
    ) {
        let mut seen = BTreeSet::new();
        for (path, name) in names {
            if !seen.insert(name) {
                self.say(path, format!("`{name}` is there already: keep one"));
            }
        }
    }

    /// An address can be one machine's.
    pub fn host(&mut self, path: impl Display, address: IpAddr) {
        if !is_host(address) {
            let message = format!(
                "{address} cannot be a machine's address: write one that is neither a group's, a \
                 loopback, unspecified, nor IPv4 within IPv6"
            );
            self.say(path, message);
        }
    }

    /// An Ethernet address can be one interface's.
    pub fn mac(&mut self, path: &str, mac: Mac) {
        if mac.is_multicast() || mac == Mac([0; 6]) {
            self.say(path, format!("{mac} is nobody's own: write one as 02:00:00:00:00:01"));
        }
    }

    /// A prefix names a network, not an address within it.
    pub fn network(&mut self, path: impl Display, prefix: Prefix) {
        let first = AddressRange::from(prefix).first();
        if first != prefix.address {
            let length = prefix.length;
            self.say(path, format!("{prefix} is an address in a network: write {first}/{length}"));
        }
    }

    /// An MTU that every IPv6 host may count on, and that cards have.
    pub fn mtu(&mut self, path: &str, mtu: Option<u16>) {
        mtu.into_iter().for_each(|mtu| self.within(path, mtu, 1280..=9216));
    }

    /// A guarantee is no more than a limit, and both can be kept.
    pub fn rates(&mut self, guarantee: Option<Rate>, limit: Option<Rate>) {
        if let (Some(guarantee), Some(limit)) = (guarantee, limit)
            && guarantee > limit
        {
            let message =
                format!("{guarantee} is more than `limit`, {limit}: write less, or raise that");
            self.say("/spec/guarantee", message);
        }
        for (path, rate) in [("/spec/guarantee", guarantee), ("/spec/limit", limit)] {
            if let Some(rate) = rate.filter(|rate| *rate < LEAST_RATE) {
                self.say(path, format!("{rate} is below {LEAST_RATE}: write that, or more"));
            }
        }
    }
}

/// Whether an address can be one machine's on a link (RFC 1122 §3.2.1.3, RFC 4291 §2.5).
fn is_host(address: IpAddr) -> bool {
    let is_one = !address.is_unspecified() && !address.is_loopback() && !address.is_multicast();
    is_one
        && match address {
            IpAddr::V4(v4) => matches!(v4.octets()[0], 1..240),
            IpAddr::V6(v6) => v6.to_ipv4_mapped().is_none(),
        }
}
