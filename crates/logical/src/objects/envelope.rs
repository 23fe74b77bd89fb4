//! What every object has around its own fields.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{
    AddressSet, Binding, DhcpProfile, DnsZone, ExternalPool, Gateway, LoadBalancer, LogicalPort,
    LogicalRouter, LogicalSwitch, Meter, Name, Nat, Policy, PortGroup, ProviderNetwork, QosProfile,
    Quota, RouterPort, Service, Tenant, TransportNode, Unread,
};

/// Who an object is, and what is kept about it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "who it is, as { name: web, tenant: shop }")]
pub struct Metadata {
    /// Its name, one of its own among the tenant's objects of its kind. It never changes.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String, pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"))]
    pub name: Name,
    /// Whose it is. Absent: the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub tenant: Option<Name>,
    /// What people call it, at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(max_length = 255))]
    pub display_name: Option<String>,
    /// Its number in the controller's store (UUIDv7), never used again. The controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The store's revision when it was last written. The controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// How often its fields have changed. The controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// What selectors choose by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What others note about it, at most 256 KiB; nothing here reads it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// When it came to be (RFC 3339). The controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The program that made it, if it is not people's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// An object: who it is, and what is declared of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "an object, as { kind: …, metadata: …, spec: … }")]
pub struct Declared<T> {
    /// Who it is.
    pub metadata: Metadata,
    /// What is declared of it.
    pub spec: T,
    /// What the controller says of it. The controller writes it, when somebody reads the object.
    #[serde(default, skip_serializing_if = "Unread::is_left_out")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<super::Status>, read_only))]
    status: Unread,
}

impl<T> Declared<T> {
    /// An object of which this is declared.
    pub fn new(metadata: Metadata, spec: T) -> Self {
        Self { metadata, spec, status: Unread }
    }
}

/// Who writes objects of a kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// A tenant.
    Tenant,
    /// The operator: such objects have no tenant.
    Operator,
    /// Either.
    Either,
}

/// An object by kind, tenant and name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Identity {
    /// Its kind.
    pub kind: Kind,
    /// Whose it is; `None`: the operator's.
    pub tenant: Option<Name>,
    /// Its name.
    pub name: Name,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tenant {
            Some(tenant) => write!(f, "{}/{tenant}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// Why a text is no identity.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "cannot read {0:?} as an object: write its kind, its tenant and its name, as LogicalPort/shop/web"
)]
pub struct NoIdentity(String);

impl FromStr for Identity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let none = || NoIdentity(text.into());
        let (kind, rest) = text.split_once('/').ok_or_else(none)?;
        let (tenant, name) = match rest.split_once('/') {
            Some((tenant, name)) => (Some(tenant), name),
            None => (None, rest),
        };
        let kind = Kind::ALL.iter().find(|it| it.name() == kind).ok_or_else(none)?;
        let tenant = tenant.map(str::parse).transpose().map_err(|_| none())?;
        Ok(Self { kind: *kind, tenant, name: name.parse().map_err(|_| none())? })
    }
}

impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Identity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Says once which kinds there are: who writes them, their word in paths of the API, and the short
/// one for people.
macro_rules! kinds {
    ($($kind:ident $path:literal $short:literal $owner:ident $doc:literal,)*) => {
        /// What an object is.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The kind's name, as objects have it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)* }
            }

            /// Its word in paths of the API.
            pub const fn path(self) -> &'static str {
                match self { $(Self::$kind => $path,)* }
            }

            /// A short word for it, as people type it.
            pub const fn short(self) -> &'static str {
                match self { $(Self::$kind => $short,)* }
            }

            /// Who writes such objects.
            pub const fn owner(self) -> Owner {
                match self { $(Self::$kind => Owner::$owner,)* }
            }
        }

        /// An object of any kind.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
        #[serde(tag = "kind")]
        pub enum Object {
            $(#[doc = $doc] $kind(Declared<$kind>),)*
        }

        impl Object {
            /// What it is.
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            /// Who it is.
            pub const fn metadata(&self) -> &Metadata {
                match self { $(Self::$kind(it) => &it.metadata,)* }
            }

            /// Who it is, to be written.
            pub const fn metadata_mut(&mut self) -> &mut Metadata {
                match self { $(Self::$kind(it) => &mut it.metadata,)* }
            }

            /// Whether the same is declared of both, whoever they are.
            pub fn declares_as(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Self::$kind(one), Self::$kind(other)) => one.spec == other.spec,)*
                    _ => false,
                }
            }

            /// Reads what is an object of a kind, but for the word `kind`.
            pub fn read<'de, D>(kind: Kind, deserializer: D) -> Result<Self, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                match kind {
                    $(Kind::$kind => Deserialize::deserialize(deserializer).map(Self::$kind),)*
                }
            }
        }
    };
}

kinds! {
    Tenant "tenants" "tn" Operator "Who networks belong to, and what they may have.",
    LogicalSwitch "logical-switches" "ls" Tenant "A broadcast domain.",
    LogicalPort "logical-ports" "lp" Tenant "Where a machine, a router or the outside meets a switch.",
    LogicalRouter "logical-routers" "lr" Tenant "What joins switches by IP.",
    RouterPort "router-ports" "rp" Tenant "A router's interface.",
    Nat "nats" "nat" Tenant "An address that a router translates.",
    ExternalPool "external-pools" "pool" Operator "Addresses of the outside, and who may use them.",
    Policy "policies" "pol" Either "Rules about packets, and the ports they hold for.",
    PortGroup "port-groups" "pg" Tenant "Ports by name or by label.",
    AddressSet "address-sets" "as" Either "Addresses that rules speak of.",
    Service "services" "svc" Tenant "A protocol and its ports.",
    DhcpProfile "dhcp-profiles" "dhcp" Tenant "What machines are told by DHCP.",
    DnsZone "dns-zones" "dns" Tenant "Names that the switch itself answers for.",
    LoadBalancer "load-balancers" "lb" Tenant "An address behind which several serve.",
    QosProfile "qos-profiles" "qos" Either "Rates and marks.",
    Meter "meters" "meter" Operator "How many there may be in a second.",
    TransportNode "transport-nodes" "node" Operator "A host, a gateway or a service node.",
    ProviderNetwork "provider-networks" "pn" Operator "A physical network that switches may join.",
    Gateway "gateways" "gw" Operator "Nodes that lead outside.",
    Binding "bindings" "bind" Operator "Where a port is.",
}

impl Object {
    /// Its kind, tenant and name.
    pub fn identity(&self) -> Identity {
        let Metadata { name, tenant, .. } = self.metadata();
        Identity { kind: self.kind(), tenant: tenant.clone(), name: name.clone() }
    }
}

impl Quota {
    /// Of an object that the quota counts: how many it is, how many there may be, and by which
    /// field.
    pub fn counts(&self, object: &Object) -> Option<(usize, Option<u32>, &'static str)> {
        Some(match object {
            Object::LogicalPort(_) => (1, self.ports, "ports"),
            Object::LogicalSwitch(_) => (1, self.switches, "switches"),
            Object::LogicalRouter(_) => (1, self.routers, "routers"),
            Object::Policy(it) => (it.spec.rules.len(), self.rules, "rules"),
            Object::AddressSet(it) => (it.spec.addresses.len(), self.set_members, "setMembers"),
            Object::Nat(_) => (1, self.nat_entries, "natEntries"),
            _ => return None,
        })
    }
}

impl core::str::FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|kind| kind.name() == word).copied();
        known.ok_or_else(|| {
            let names: alloc::vec::Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("no kind of object: {}", model::mistake::unknown(word, &names))
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        for text in ["LogicalPort/shop/web-1", "ExternalPool/outside", "Tenant/shop"] {
            assert_eq!(text.parse::<Identity>().unwrap().to_string(), text);
        }
        for text in ["", "shop", "Server/shop/a", "LogicalPort//a", "LogicalPort/shop/a/b"] {
            let error = text.parse::<Identity>().unwrap_err().to_string();
            assert!(error.contains("as LogicalPort/shop/web"), "{error}");
        }
    }
}
