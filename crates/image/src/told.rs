//! What hosts are told of a domain: its rows, where its ports are, and by which numbers hosts mean
//! them.
//!
//! Where a port is, is no row of its domain: a machine that moves changes nothing that is compiled.
//! Nor is its label, which the controller's store has given it. Hosts are told of all three in one
//! generation, so they are written alike.

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::objects::Identity;

use crate::domain::{Change, Unknown, json, read, table};

/// Where a port is, or a router that keeps flows: the tunnel addresses of its host.
pub type Site = Vec<IpAddr>;

/// The name of the table of sites.
const SITES: &str = "sites";

/// The name of the table of labels.
const LABELS: &str = "labels";

/// A change that hosts are told of.
#[expect(clippy::large_enum_variant, reason = "nearly all are rows")]
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Of a row.
    Row(Change),
    /// Of where a port or a router is.
    Site(Identity, Option<Site>),
    /// Of the number by which hosts mean what [`Domain::labelled`](crate::Domain::labelled) has: 1
    /// to 2^31 - 1.
    Label(Identity, Option<u32>),
}

impl Told {
    /// Its key, and what is there if it is not taken away, as JSON: equal changes are equal bytes.
    pub fn encode(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        match self {
            Self::Row(change) => change.encode(),
            Self::Site(of, site) => (json(&(SITES, of)), site.as_ref().map(json)),
            Self::Label(of, label) => (json(&(LABELS, of)), label.as_ref().map(json)),
        }
    }

    /// Reads a change that was written so.
    ///
    /// # Errors
    ///
    /// [`Unknown`]: this host would not execute what it says.
    pub fn decode(key: &[u8], row: Option<&[u8]>) -> Result<Self, Unknown> {
        match table(key)? {
            (SITES, of) => {
                let site = row.map(|row| read(SITES, row)).transpose()?;
                Ok(Self::Site(read(SITES, of)?, site))
            }
            (LABELS, of) => {
                let label = row.map(|row| read(LABELS, row)).transpose()?;
                if let Some(label) = label.filter(|it| !logical::LABELS.contains(it)) {
                    return Err(Unknown::Row { table: LABELS, why: format!("{label} is none") });
                }
                Ok(Self::Label(read(LABELS, of)?, label))
            }
            _ => Change::decode(key, row).map(Self::Row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_port_is_reads_as_it_was_written() {
        let port: Identity = "LogicalPort/shop/web".parse().unwrap();
        for site in [None, Some(alloc::vec![[192, 0, 2, 1].into()])] {
            let told = Told::Site(port.clone(), site);
            let (key, row) = told.encode();
            assert_eq!(Told::decode(&key, row.as_deref()), Ok(told));
        }
        assert!(Told::decode(b"[\"sites\",7]", None).is_err());
        assert!(Told::decode(b"[\"ways\",7]", None).is_err());
    }

    #[test]
    fn a_label_reads_as_it_was_written_and_has_31_bits() {
        let port: Identity = "LogicalPort/shop/web".parse().unwrap();
        for label in [None, Some(1), Some((1 << 31) - 1)] {
            let told = Told::Label(port.clone(), label);
            let (key, row) = told.encode();
            assert_eq!(Told::decode(&key, row.as_deref()), Ok(told));
        }
        for label in [0, 1 << 31] {
            let (key, row) = Told::Label(port.clone(), Some(label)).encode();
            assert!(Told::decode(&key, row.as_deref()).is_err(), "{label}");
        }
    }
}
