//! The objects, as they are declared.
//!
//! ```text
//! LogicalPort ─▶ LogicalSwitch ◀─ LogicalPort {router} ─▶ RouterPort ─▶ LogicalRouter ◀─ Nat
//!      ▲                                                                     routes, policies
//!  PortGroup ◀─ Policy { rules } ─▶ AddressSet, Service, Meter
//! ```
//!
//! A reference is a name of the same tenant, or `tenant/name` of one that shares with it. Names do
//! not change; what is called otherwise is another object.

mod envelope;
mod network;
mod operator;
mod policy;
mod range;
mod router;
mod services;
mod status;
mod words;

pub use envelope::{Declared, Identity, Kind, Metadata, NoIdentity, Object, Owner};
pub use network::{
    AllowDrop, AllowedSource, Broadcast, Child, DefaultAction, DynamicAddresses, L2Gateway,
    LogicalPort, LogicalSwitch, Multicast, Nothing, PortSecurity, ProviderVlan, RouterAttachment,
    SecurityMode, Start, UnknownUnicast,
};
pub use operator::{
    Activation, Binding, BindingSource, Election, Encapsulation, ExternalPool, Gateway, Meter,
    MeterUnit, Migration, NodeRole, ProviderNetwork, QosProfile, Quota, Tenant, TransportNode,
};
pub use policy::{
    Action, AddressSet, AppliesTo, Direction, Established, InlineService, Log, Match, Operator,
    Peer, Policy, PortGroup, Requirement, Rule, Selector, Service, ServiceChoice, Severity, Tier,
};
pub use range::AddressRange;
pub use router::{
    DhcpRelay, Ecmp, EcmpHash, GatewayNode, LogicalRouter, Monitor, Nat, NatKind, NatPlace,
    NextHop, PortGateway, Preference, Ra6, RaMode, Reroute, Route, RoutePolicy, RoutePolicyAction,
    RouterPort,
};
pub use services::{
    Affinity, Attachment, Backend, ClasslessRoute, Dhcp4, Dhcp6, Dhcp6Mode, DhcpProfile, DnsZone,
    HealthCheck, LoadBalancer, RawOption,
};
use status::Unread;
pub use status::{Condition, ConditionType, Status, Truth, Used};
pub use words::{Ethertype, MacChoice, Name, PortRange, Protocol, Reference};

/// What an absent switch of an object is where it is on.
const fn yes() -> bool {
    true
}

/// Whether a switch has the value that it has where it is absent.
const fn is_yes(value: &bool) -> bool {
    *value
}

/// Whether a switch has the value that it has where it is absent.
const fn is_no(value: &bool) -> bool {
    !*value
}

/// Whether a value is the one that it is where it is absent.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
