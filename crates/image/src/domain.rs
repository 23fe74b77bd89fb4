//! Tables of rows, and how one generation becomes the next.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::objects::{AddressRange, Identity, Meter, QosProfile};
use logical::topology::{Profile, TenantTerms, Zone};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::condition::Group;
use crate::rows::{
    Balancer, Nat, Policy, Port, RouteKey, RoutePolicy, RoutePolicyKey, Router, RouterPort,
    RoutesAs, Station, Switch,
};
use crate::table::Table;

/// Says once which tables there are.
macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident $Table:ident $word:literal: $Key:ty => $Row:ty,)*) => {
        /// A domain: every table of its rows. A copy shares the tables that are not changed.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Domain {
            $($(#[$doc])* pub $table: Table<$Key, $Row>,)*
        }

        /// A row that is put in the place of one before, or taken away.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Change {
            $($(#[$doc])* $Table($Key, Option<$Row>),)*
        }

        impl Change {
            /// The table's name.
            pub const fn table(&self) -> &'static str {
                match self { $(Self::$Table(..) => $word,)* }
            }
        }

        impl Change {
            /// The row's key, and the row if it is not taken away, as JSON. Equal rows are equal
            /// bytes, whoever writes them.
            pub fn encode(&self) -> (Vec<u8>, Option<Vec<u8>>) {
                match self {
                    $(Self::$Table(key, row) => {
                        (json(&($word, key)), row.as_ref().map(|row| json(row)))
                    })*
                }
            }

            /// Reads a row that was written so.
            ///
            /// # Errors
            ///
            /// [`Unknown`]: this host would not execute what it says.
            pub fn decode(key: &[u8], row: Option<&[u8]>) -> Result<Self, Unknown> {
                let (table, rest) = table(key)?;
                match table {
                    $($word => {
                        let row = row.map(|row| read($word, row)).transpose()?;
                        Ok(Self::$Table(read($word, rest)?, row))
                    })*
                    _ => Err(Unknown::Table(table.into())),
                }
            }

            /// Whether a row is taken away.
            pub const fn is_removal(&self) -> bool {
                match self { $(Self::$Table(_, row) => row.is_none(),)* }
            }
        }

        impl Domain {
            /// How many rows there are in each table, by its name.
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
                [$(($word, self.$table.len()),)*].into_iter()
            }

            /// What makes the next generation of this one: as many changes as rows that differ.
            pub fn diff(&self, next: &Self) -> Vec<Change> {
                let mut all = Vec::new();
                $(all.extend(
                    self.$table
                        .changes(&next.$table)
                        .into_iter()
                        .map(|(key, row)| Change::$Table(key.clone(), row.cloned())),
                );)*
                all
            }

            /// Makes a change.
            pub fn apply(&mut self, change: Change) {
                match change {
                    $(
                        Change::$Table(key, Some(row)) => {
                            self.$table.insert(key, row);
                        }
                        Change::$Table(key, None) => {
                            self.$table.remove(&key);
                        }
                    )*
                }
            }
        }
    };
}

tables! {
    /// Switches.
    switches Switch "switches": Identity => Switch,
    /// What everybody in a switch has to know of its ports, by switch and port.
    stations Station "stations": (Identity, Identity) => Station,
    /// What only the hosts of ports have to know of them.
    ports Port "ports": Identity => Port,
    /// Policies.
    policies Policy "policies": Identity => Policy,
    /// Members of groups, by group and port, and the addresses by which they are known where their
    /// ports are not.
    members Member "members": (Group, Identity) => Vec<IpAddr>,
    /// Addresses of sets.
    addresses Address "addresses": (Identity, AddressRange) => (),
    /// Routers.
    routers Router "routers": Identity => Router,
    /// Routers' ports.
    router_ports RouterPort "router ports": Identity => RouterPort,
    /// Routes, those to ports' own networks among them.
    routes Route "routes": RouteKey => RoutesAs,
    /// What is decided before routes are looked at.
    route_policies RoutePolicy "route policies": RoutePolicyKey => RoutePolicy,
    /// What routers translate.
    nats Nat "translations": Identity => Nat,
    /// Load balancers.
    balancers Balancer "load balancers": Identity => Balancer,
    /// Names that switches answer for.
    zones Zone "zones": Identity => Zone,
    /// What machines are told by DHCP.
    profiles Profile "DHCP profiles": Identity => Profile,
    /// Rates and marks.
    qos Qos "QoS profiles": Identity => QosProfile,
    /// How many there may be in a second.
    meters Meter "meters": Identity => Meter,
    /// What tenants' ports have of each uplink together, of tenants that declare it.
    terms Terms "tenants": Identity => TenantTerms,
}

/// Why a row cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unknown {
    /// It is of a table that this version does not have.
    #[error("cannot execute rows of the table {0:?}: this version has none; update it")]
    Table(String),
    /// It says what this version does not know.
    #[error("cannot execute a row of {table}: {why}; update the older of host and controller")]
    Row {
        /// The table.
        table: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// A row, or a key, as JSON.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("rows have texts for keys")
}

/// The table of a key, and the key in it.
pub fn table(key: &[u8]) -> Result<(&str, &[u8]), Unknown> {
    let parts = key.strip_prefix(b"[\"").and_then(|rest| rest.strip_suffix(b"]"));
    let at = parts.and_then(|rest| rest.windows(2).position(|it| it == b"\","));
    let split = parts.zip(at).map(|(rest, at)| (str::from_utf8(&rest[..at]), &rest[at + 2..]));
    match split {
        Some((Ok(table), rest)) => Ok((table, rest)),
        _ => Err(Unknown::Table(String::from_utf8_lossy(key).into())),
    }
}

pub fn read<T: DeserializeOwned>(table: &'static str, bytes: &[u8]) -> Result<T, Unknown> {
    serde_json::from_slice(bytes).map_err(|why| Unknown::Row { table, why: why.to_string() })
}

impl Domain {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.counts().map(|(_, count)| count).sum()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whom hosts send frames for, so that each has a number by which they mean it: ports that
    /// somebody can have, routers' ports, and load balancers that are told which of their backends
    /// serve.
    pub fn labelled(&self) -> impl Iterator<Item = &Identity> {
        let stations = self.stations.iter().filter(|(_, it)| it.role.is_had());
        let balancers = self.balancers.iter().filter(|(_, it)| it.health_check.is_some());
        let ports = stations.map(|((_, port), _)| port).chain(self.router_ports.keys());
        ports.chain(balancers.map(|(id, _)| id))
    }
}
