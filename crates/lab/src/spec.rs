//! What a lab is asked to be.
//!
//! [`LabSpec`] and [`EndpointSpec`] are what people write, with most of it left out;
//! `LabSpec::resolve` fills in the rest and gives the [`Endpoint`]s that will be.
//!
//! ```text
//! lab.toml ─parse─▶ LabSpec ─resolve─▶ Endpoint, Endpoint, …   names, addresses, rates: all said
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use model::{AgentSettings, LogicalPortName, NetworkName, NetworkShare, Position, mistake};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use units::{Mac, Prefix, Rate};

use crate::LabError;
use crate::hosts::{CONTROLLER, ControllerSpec, HostsSpec, PhysicalKind};

/// Names that the switch's namespace gives to something else.
const RESERVED: [&str; 6] = ["switch", "ovs-netdev", "eth0", "lo", "all", "default"];

/// Labs that come with the program.
const BUILT_IN: [(&str, &str); 2] = [
    ("testbed1", include_str!("../../../examples/lab/testbed1.toml")),
    ("testbed2", include_str!("../../../examples/lab/testbed2.toml")),
];

/// A lab: one switch under test and the endpoints around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabSpec {
    /// What people call it; one of its own on this machine.
    pub name: String,
    /// The switch under test.
    pub switch: SwitchKind,
    /// The largest packet that endpoints send, in bytes.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// Let endpoints hand large segments and unfinished checksums to the switch, where the switch
    /// can take them (`ovs` cannot). Without it every frame on every link is a frame of the MTU.
    #[serde(default = "yes")]
    pub offload: bool,
    /// Tell each endpoint every other's Ethernet address, and the switch every port's, so that
    /// nothing is asked, learned or flooded.
    #[serde(default = "yes")]
    pub static_addresses: bool,
    /// How the agent runs, for the two zovn switches. The lab sets its socket and, for
    /// `zovn-lossy`, its classes and its UDP gate.
    #[serde(default)]
    pub agent: AgentSettings,
    /// The hosts that the endpoints are on, with a switch of its own on each; one switch for all
    /// endpoints if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsSpec>,
    /// A controller that the agents of all hosts follow. Without, they are told logical networks
    /// one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerSpec>,
    /// What virtual networks have of what they share; one that is not named here has no terms.
    #[serde(default, rename = "network", skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkTerms>,
    /// The endpoints, in the order in which they are numbered.
    #[serde(rename = "endpoint")]
    pub endpoints: Vec<EndpointSpec>,
}

/// What a virtual network has of what networks share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTerms {
    /// The network's name, as endpoints have it.
    pub name: NetworkName,
    /// Its terms, as a host's `[network.share]` has them.
    pub share: NetworkShare,
}

/// An endpoint, or several alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointSpec {
    /// The endpoint's name; with a `count`, what its number is put behind.
    pub name: String,
    /// How many endpoints like this there are: `name1`, `name2`, … One, under its plain name, if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Its addresses; 10.0.0.n/24 and fd00::n/64 if empty, where n is the endpoint's place in the
    /// lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Prefix>,
    /// Its Ethernet address; 02:00:00:00:00:0n if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// The rate of its link, from the switch towards the endpoint, in bits of L2 frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many frames wait at the switch for that link, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u32>,
    /// Kernel settings of its network namespace, by their dotted names: `"net.ipv4.tcp_sack" = 0`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "words")]
    pub sysctls: BTreeMap<String, String>,
    /// TCP's initial congestion window towards the other endpoints, in segments; the kernel's if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initcwnd: Option<u32>,
    /// The number of the host that it is on, from 1; spread over the hosts in order if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// The virtual network that it is in, where there are tunnels of zovn; one for all who name
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The port of a logical network that its interface is, where the switch is zovn: nothing
    /// passes until the agent is told that network's objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical: Option<LogicalPortName>,
}

/// The switch under test.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchKind {
    /// The kernel's bridge.
    Bridge,
    /// Open vSwitch with its userspace datapath.
    Ovs,
    /// Open vSwitch with DPDK, between virtual machines only.
    OvsDpdk,
    /// DPDK's own forwarder, between two virtual machines only.
    Testpmd,
    /// zovn with every class lossy: the same code, without its promise.
    ZovnLossy,
    /// zovn.
    Zovn,
}

/// An endpoint with everything said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Its network namespace, by its name under /run/netns.
    pub netns: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<Prefix>,
    /// The rate of its link, towards it.
    pub rate: Option<Rate>,
    /// How many frames wait for that link at most.
    pub buffer: Option<u32>,
    /// Its namespace's kernel settings.
    pub sysctls: BTreeMap<String, String>,
    /// TCP's initial congestion window, in segments.
    pub initcwnd: Option<u32>,
    /// The number of the host that it is on, from 0, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// The virtual network that it is in, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The port of a logical network that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical: Option<LogicalPortName>,
}

impl LabSpec {
    /// A lab without endpoints and with everything else as a file would have it that does not
    /// mention it.
    pub fn new(name: impl Into<String>, switch: SwitchKind) -> Self {
        Self {
            name: name.into(),
            switch,
            mtu: default_mtu(),
            offload: true,
            static_addresses: true,
            agent: AgentSettings::default(),
            hosts: None,
            controller: None,
            networks: Vec::new(),
            endpoints: Vec::new(),
        }
    }

    /// Reads a lab from a TOML file.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] if it cannot be read, [`LabError::Toml`] with the line that is wrong,
    /// [`LabError::Spec`] if it reads well and cannot be.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let spec: Self = read(path)?;
        spec.resolve("check")?;
        Ok(spec)
    }

    /// A lab that comes with the program, `testbed1` or `testbed2` of the zOVN paper (figure 9), or
    /// else the one of a TOML file.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read) has them.
    pub fn find(word: &str) -> Result<Self, LabError> {
        match BUILT_IN.iter().find(|(name, _)| *name == word) {
            Some((_, text)) => {
                Ok(toml::from_str(text).expect("a test reads what comes with the program"))
            }
            None => Self::read(Path::new(word)),
        }
    }

    /// The endpoints of a lab with this id, all defaults filled in.
    ///
    /// # Errors
    ///
    /// [`LabError::Spec`]
    pub fn resolve(&self, prefix: &str) -> Result<Vec<Endpoint>, LabError> {
        if !SwitchKind::OF_CONTAINERS.contains(&self.switch) {
            return Err(self.wrong(format!(
                "`{}` serves virtual machines, and a lab's endpoints are containers: make it bridge, ovs, zovn-lossy or \
                 zovn",
                self.switch
            )));
        }
        // RFC 791 §3.2 and a TAP device's most; the same for all switches.
        if !(68..=65_521).contains(&self.mtu) {
            return Err(self.wrong("`mtu` lies outside 68 to 65521"));
        }
        if !is_word(&self.name, 32) {
            return Err(self.wrong("a lab's name is 1 to 32 letters, digits, `-`, `_` or `.`"));
        }
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for spec in &self.endpoints {
            if spec.count.is_some_and(|count| count > 1)
                && (spec.mac.is_some() || !spec.addresses.is_empty())
            {
                return Err(self.wrong(format!(
                    "endpoint `{}`: several endpoints cannot share one address: leave out `count`, or `mac` and \
                     `addresses`",
                    spec.name
                )));
            }
            for n in 1..=spec.count.unwrap_or(1) {
                let name =
                    spec.count.map_or_else(|| spec.name.clone(), |_| format!("{}{n}", spec.name));
                let number = u32::try_from(endpoints.len() + 1).unwrap_or(u32::MAX);
                endpoints.push(self.endpoint(spec, name, number, prefix)?);
            }
        }
        self.check_unique(&endpoints)?;
        self.place(&mut endpoints)?;
        Ok(endpoints)
    }

    /// Whether an endpoint's interface comes when its logical port has been declared: agents that
    /// follow a controller wait for that.
    pub(crate) fn comes_later(&self, endpoint: &Endpoint) -> bool {
        self.controller.is_some() && endpoint.logical.is_some()
    }

    /// Why its hosts cannot follow a controller, if they are to and cannot.
    fn fault_of_controller(&self, endpoints: &[Endpoint]) -> Option<&'static str> {
        self.controller?;
        let Some(hosts) = &self.hosts else { return Some("only [hosts] follow one: add [hosts]") };
        let physical = &hosts.physical;
        let mut late = endpoints.iter().filter(|it| self.comes_later(it)).peekable();
        let faults = [
            (
                !matches!(self.switch, SwitchKind::Zovn | SwitchKind::ZovnLossy),
                "only zovn's agents follow one: make `switch` zovn or zovn-lossy",
            ),
            (
                !hosts.tunnels || physical.cable.is_some(),
                "a `cable` has no place for its host: leave out `cable`, and `tunnels`",
            ),
            (
                physical.switch == PhysicalKind::Bridge,
                "its host is at a switch of ours: make `switch` of [hosts.physical] fabric",
            ),
            (
                self.static_addresses && late.peek().is_some(),
                "logical ports come when they are declared: make `static_addresses` false",
            ),
            (
                late.any(|it| it.initcwnd.is_some()),
                "logical ports come when they are declared: leave out their `initcwnd`",
            ),
            (
                endpoints.iter().any(|it| it.name == CONTROLLER),
                "its host is called `controller`: give that endpoint another name",
            ),
        ];
        faults.into_iter().find(|(is_so, _)| *is_so).map(|(_, what)| what)
    }

    /// Puts endpoints on hosts.
    fn place(&self, endpoints: &mut [Endpoint]) -> Result<(), LabError> {
        self.check_networks(endpoints)?;
        if let Some(fault) = self.fault_of_controller(endpoints) {
            return Err(self.wrong(format!("[controller]: {fault}")));
        }
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let joins = match self.switch {
            SwitchKind::Zovn => true,
            // A port of its own to the other host would have to promise nothing either.
            SwitchKind::ZovnLossy => hosts.tunnels,
            // The kernel's own tunnel, from one to one, or a cable.
            SwitchKind::Bridge => hosts.count == 2,
            SwitchKind::Ovs => hosts.physical.cable.is_some(),
            SwitchKind::OvsDpdk | SwitchKind::Testpmd => false,
        };
        if !joins {
            return Err(self.wrong(format!(
                "`{}` does not join {} hosts so: with [hosts], make `switch` zovn; or bridge between two, ovs at the ends of a \
                 `cable`, or with tunnels zovn-lossy",
                self.switch, hosts.count
            )));
        }
        if hosts.uplinks > 1 && matches!(self.switch, SwitchKind::Bridge | SwitchKind::Ovs) {
            return Err(self
                .wrong(format!("[hosts]: `{}` has one uplink: leave out `uplinks`", self.switch)));
        }
        let count = endpoints.len();
        if let Some(fault) = hosts.fault(self.switch == SwitchKind::Bridge, count, self.mtu) {
            return Err(self.wrong(format!("[hosts]: {fault}")));
        }
        for (place, endpoint) in endpoints.iter_mut().enumerate() {
            if endpoint.name.starts_with("host") {
                return Err(self.wrong(format!(
                    "endpoint `{}`: names with `host` are the hosts'",
                    endpoint.name
                )));
            }
            if self.switch == SwitchKind::Ovs
                && (endpoint.rate.is_some() || endpoint.buffer.is_some())
            {
                return Err(self.wrong(format!(
                    "endpoint `{}`: `ovs` on several hosts has no queue for a `rate` or a `buffer`: leave them out",
                    endpoint.name
                )));
            }
            let host = endpoint.host.unwrap_or(hosts.of(place, count));
            if host >= hosts.count {
                return Err(self.wrong(format!(
                    "endpoint `{}`: there is no host {}: make `host` 1 to {}",
                    endpoint.name,
                    host + 1,
                    hosts.count
                )));
            }
            endpoint.host = Some(host);
        }
        Ok(())
    }

    /// Refuses endpoints on hosts that are not there, and in networks that nothing keeps apart.
    fn check_networks(&self, endpoints: &[Endpoint]) -> Result<(), LabError> {
        let tunnels = self.hosts.as_ref().is_some_and(|hosts| hosts.tunnels);
        let is_zovn = matches!(self.switch, SwitchKind::Zovn | SwitchKind::ZovnLossy);
        for Endpoint { name, host, network, logical, .. } in endpoints {
            if self.hosts.is_none() && host.is_some() {
                return Err(self.wrong(format!(
                    "endpoint `{name}`: there is one switch for all endpoints: leave out `host`, or \
                     add [hosts]"
                )));
            }
            if network.is_some() && !(tunnels && is_zovn) {
                return Err(self.wrong(format!(
                    "endpoint `{name}`: only zovn's tunnels have networks: leave out `network`, or \
                     add [hosts] and make `switch` zovn or zovn-lossy"
                )));
            }
            if logical.is_some() && !is_zovn {
                return Err(self.wrong(format!(
                    "endpoint `{name}`: only zovn has logical networks: leave out `logical`, or make \
                     `switch` zovn or zovn-lossy"
                )));
            }
        }
        let mut seen = BTreeSet::new();
        for NetworkTerms { name, .. } in &self.networks {
            if !endpoints.iter().any(|endpoint| endpoint.network.as_ref() == Some(name)) {
                return Err(self.wrong(format!(
                    "network `{name}`: no endpoint is in it: name it as `network` of one, or leave \
                     out its [[network]]"
                )));
            }
            if !seen.insert(name) {
                return Err(self.wrong(format!(
                    "network `{name}` is declared twice: keep one [[network]] of it"
                )));
            }
        }
        Ok(())
    }

    fn endpoint(
        &self,
        spec: &EndpointSpec,
        name: String,
        number: u32,
        prefix: &str,
    ) -> Result<Endpoint, LabError> {
        let wrong = |what: &str| Err(self.wrong(format!("endpoint `{name}`: {what}")));
        // The switch's port is named after the endpoint, and IFNAMSIZ is 16 with the closing zero.
        if !is_word(&name, 15) || RESERVED.contains(&name.as_str()) {
            return wrong(&format!(
                "a name is 1 to 15 letters, digits, `-`, `_` or `.`, and none of {}",
                RESERVED.join(", ")
            ));
        }
        if spec.host == Some(0) {
            return wrong("hosts are numbered from 1: raise `host`");
        }
        if spec.buffer == Some(0) {
            return wrong("a queue holds at least one frame: raise `buffer` above 0");
        }
        if spec.mac.is_some_and(Mac::is_multicast) {
            return wrong("`mac` is a group address: clear the lowest bit of its first octet");
        }
        let bad_name =
            |key: &str| !key.starts_with("net.") || key.contains("..") || key.contains('/');
        if let Some(key) = spec.sysctls.keys().find(|key| bad_name(key)) {
            return wrong(&format!(
                "`{key}` is no setting of a network namespace: those begin with `net.`"
            ));
        }
        let addresses = match (&spec.addresses[..], u8::try_from(number)) {
            ([], Ok(n @ 1..=254)) => vec![
                Prefix { address: Ipv4Addr::new(10, 0, 0, n).into(), length: 24 },
                Prefix {
                    address: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into()).into(),
                    length: 64,
                },
            ],
            ([], _) => {
                return wrong(
                    "10.0.0.0/24 holds 254 endpoints: give the others `addresses` of their own",
                );
            }
            (given, _) => given.to_vec(),
        };
        Ok(Endpoint {
            netns: format!("{prefix}-{name}"),
            name,
            mac: spec.mac.unwrap_or(Mac::local(number)),
            addresses,
            rate: spec.rate,
            buffer: spec.buffer,
            sysctls: spec.sysctls.clone(),
            initcwnd: spec.initcwnd,
            host: spec.host.map(|number| number - 1),
            network: spec.network.clone(),
            logical: spec.logical.clone(),
        })
    }

    fn check_unique(&self, endpoints: &[Endpoint]) -> Result<(), LabError> {
        if endpoints.is_empty() {
            return Err(self.wrong("it has no endpoint: add an [[endpoint]] with a `name`"));
        }
        let mut seen = BTreeSet::new();
        for endpoint in endpoints {
            let ips = endpoint.addresses.iter().map(|address| address.address.to_string());
            for word in [endpoint.name.clone(), endpoint.mac.to_string()].into_iter().chain(ips) {
                if !seen.insert(word.clone()) {
                    return Err(
                        self.wrong(format!("`{word}` is given to two endpoints: keep it for one"))
                    );
                }
            }
        }
        Ok(())
    }

    fn wrong(&self, what: impl Into<String>) -> LabError {
        LabError::Spec { lab: self.name.clone(), what: what.into() }
    }
}

impl EndpointSpec {
    /// An endpoint of which nothing but the name is said.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            count: None,
            addresses: Vec::new(),
            mac: None,
            rate: None,
            buffer: None,
            sysctls: BTreeMap::new(),
            initcwnd: None,
            host: None,
            network: None,
            logical: None,
        }
    }
}

impl SwitchKind {
    /// Every switch, in the order in which tables show them.
    pub const ALL: [Self; 6] =
        [Self::Bridge, Self::Ovs, Self::OvsDpdk, Self::Testpmd, Self::ZovnLossy, Self::Zovn];

    /// Those that a lab can have: between containers.
    pub const OF_CONTAINERS: [Self; 4] = [Self::Bridge, Self::Ovs, Self::ZovnLossy, Self::Zovn];

    /// Those that a [rig](crate::vhost::Rig) can have: between virtual machines.
    pub const OF_MACHINES: [Self; 4] = [Self::OvsDpdk, Self::Testpmd, Self::ZovnLossy, Self::Zovn];

    const fn word(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Ovs => "ovs",
            Self::OvsDpdk => "ovs-dpdk",
            Self::Testpmd => "testpmd",
            Self::ZovnLossy => "zovn-lossy",
            Self::Zovn => "zovn",
        }
    }
}

impl Endpoint {
    /// Its first IPv4 address.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.addresses.iter().find_map(|address| match address.address {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        })
    }

    /// Its first IPv6 address.
    pub fn ipv6(&self) -> Option<Ipv6Addr> {
        self.addresses.iter().find_map(|address| match address.address {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(ip),
        })
    }
}

/// Reads what is declared in a TOML file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let text = std::fs::read_to_string(path).map_err(LabError::file(path))?;
    toml::from_str(&text).map_err(|error| {
        let Position { line, .. } = Position::of(&text, error.span().map_or(0, |span| span.start));
        LabError::Toml { path: path.to_owned(), line, what: mistake::plain(error.message().trim()) }
    })
}

/// Why a word names no switch.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is no switch: write bridge, ovs, zovn-lossy or zovn; between virtual machines also ovs-dpdk or testpmd"
)]
pub struct ParseSwitchError(String);

impl FromStr for SwitchKind {
    type Err = ParseSwitchError;

    fn from_str(word: &str) -> Result<Self, ParseSwitchError> {
        let found = Self::ALL.into_iter().find(|kind| kind.word() == word);
        found.ok_or_else(|| ParseSwitchError(word.to_owned()))
    }
}

impl fmt::Display for SwitchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Letters, digits, `-`, `_` and `.`, of which the first is a letter or a digit: what may be part
/// of a file's name.
fn is_word(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Kernel settings are words, and people write the numbers among them as numbers.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a kernel setting is a number or a word in quotes")]
    enum Word {
        Number(i64),
        Text(String),
    }
    let given = BTreeMap::<String, Word>::deserialize(deserializer)?;
    let word = |word| match word {
        Word::Number(number) => number.to_string(),
        Word::Text(text) => text,
    };
    Ok(given.into_iter().map(|(key, value)| (key, word(value))).collect())
}

fn default_mtu() -> u32 {
    1500
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> LabSpec {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_left_out_is_filled_in_in_order() {
        let spec = parse(
            "name = \"a\"\nswitch = \"zovn-lossy\"\n[[endpoint]]\nname = \"rx\"\nrate = \"1gbit\"\n\
             [[endpoint]]\nname = \"tx\"\ncount = 2\nsysctls = { \"net.ipv4.tcp_sack\" = 0 }\n",
        );
        let endpoints = spec.resolve("zovn-7").unwrap();
        let names: Vec<_> = endpoints.iter().map(|e| (e.name.as_str(), e.netns.as_str())).collect();
        assert_eq!(names, [("rx", "zovn-7-rx"), ("tx1", "zovn-7-tx1"), ("tx2", "zovn-7-tx2")]);
        assert_eq!(endpoints[2].mac, Mac::local(3));
        assert_eq!(endpoints[2].ipv4(), Some(Ipv4Addr::new(10, 0, 0, 3)));
        assert_eq!(endpoints[2].addresses[1].to_string(), "fd00::3/64");
        assert_eq!(endpoints[1].sysctls["net.ipv4.tcp_sack"], "0");
        assert_eq!((spec.switch, spec.mtu), (SwitchKind::ZovnLossy, 1500));
    }

    #[test]
    fn endpoints_are_on_the_hosts_and_in_the_networks_that_they_name() {
        let parsed = |switch: &str, hosts: &str, rest: &str| {
            let text = format!(
                "name = \"a\"\nswitch = \"{switch}\"\n{hosts}[[endpoint]]\nname = \"x\"\n{rest}\n\
                 [[endpoint]]\nname = \"y\"\n"
            );
            parse(&text).resolve("zovn-7")
        };
        let two = "[hosts]\ncount = 2\n";
        let endpoints = parsed("zovn", two, "host = 2\nnetwork = \"blue\"").unwrap();
        assert_eq!(endpoints.iter().map(|one| one.host).collect::<Vec<_>>(), [Some(1), Some(1)]);
        assert_eq!(endpoints[0].network, Some(NetworkName("blue".into())));
        for (switch, hosts, rest, named) in [
            ("zovn", two, "host = 3", "no host 3"),
            ("zovn", two, "host = 0", "from 1"),
            ("zovn", "", "host = 1", "leave out `host`"),
            ("zovn", "", "network = \"blue\"", "leave out `network`"),
            ("bridge", two, "network = \"blue\"", "leave out `network`"),
            ("bridge", "", "logical = \"t/a\"", "leave out `logical`"),
        ] {
            let error = parsed(switch, hosts, rest).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn terms_are_those_of_a_network_that_an_endpoint_is_in() {
        let read = |terms: &str| {
            parse(&format!(
                "name = \"a\"\nswitch = \"zovn\"\n[hosts]\ncount = 2\nrate = \"1gbit\"\n{terms}\
                 [[endpoint]]\nname = \"x\"\nnetwork = \"blue\"\n[[endpoint]]\nname = \"y\"\n"
            ))
        };
        let blue = "[[network]]\nname = \"blue\"\nshare = { min = \"500mbit\" }\n";
        let spec = read(blue);
        assert_eq!(spec.networks[0].share.min, Rate::from_bits_per_sec(500_000_000));
        spec.resolve("zovn-7").unwrap();
        for (terms, named) in [
            (blue.replace("blue", "green"), "no endpoint is in it"),
            (blue.repeat(2), "declared twice"),
        ] {
            let error = read(&terms).resolve("zovn-7").unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_spec_survives_its_file() {
        let mut spec = LabSpec::new("a", SwitchKind::Zovn);
        spec.endpoints.push(EndpointSpec {
            rate: Some(Rate::from_gbit(1)),
            buffer: Some(32),
            addresses: vec!["10.1.0.1/16".parse().unwrap()],
            ..EndpointSpec::new("rx")
        });
        assert_eq!(parse(&toml::to_string(&spec).unwrap()), spec);
    }

    #[test]
    fn labs_that_come_with_the_program_are_found_by_name() {
        for (name, _) in BUILT_IN {
            let spec = LabSpec::find(name).unwrap();
            assert_eq!(spec.name, name);
            assert!(spec.hosts.is_some() && spec.resolve("zovn-7").is_ok());
        }
        assert!(LabSpec::find("testbed3").unwrap_err().to_string().contains("testbed3"));
    }

    #[test]
    fn what_cannot_be_is_said_with_what_to_do() {
        let testpmd = parse("name = \"a\"\nswitch = \"testpmd\"\n[[endpoint]]\nname = \"a\"");
        assert!(testpmd.resolve("zovn-7").unwrap_err().to_string().contains("make it bridge, ovs"));
        let endpoint =
            |text: &str| format!("name = \"a\"\nswitch = \"zovn\"\n[[endpoint]]\n{text}");
        for (text, word) in [
            ("name = \"switch\"", "none of switch"),
            ("name = \"a-very-long-name\"", "1 to 15"),
            ("name = \"../x\"", "letters"),
            ("name = \"a\"\nbuffer = 0", "above 0"),
            ("name = \"a\"\nmac = \"01:00:00:00:00:00\"", "group address"),
            ("name = \"a\"\nsysctls = { \"kernel.panic\" = 1 }", "begin with `net.`"),
            ("name = \"a\"\ncount = 300", "254 endpoints"),
            ("name = \"a\"\ncount = 4000000000", "254 endpoints"),
            ("name = \"a\"\ncount = 2\naddresses = [\"10.0.0.1/24\"]", "leave out `count`"),
            ("name = \"a\"\n[[endpoint]]\nname = \"a\"", "`a` is given to two"),
        ] {
            let error = parse(&endpoint(text)).resolve("zovn-7").unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let path = std::env::temp_dir().join(format!("zovn-t-{}.toml", std::process::id()));
        for (text, place, word) in [
            ("name = \"a\"\nswitch = \"brigde\"\n", ".toml:2: ", "did you mean `bridge`?"),
            ("name = \"a\"\nspeed = 1\n", ".toml:2: ", "static_addresses"),
            ("", ".toml:1: ", "`name`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = LabSpec::read(&path).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains(word), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
