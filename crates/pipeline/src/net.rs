//! A host's part of a domain, made ready: names become places, and what is looked up has an index.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use classifier::class::ClassId;
use image::{Change, Domain, Link, Station, StationRole};
use logical::objects::{AddressRange, AllowDrop, Direction, Identity, Kind, Name};
use logical::topology::{Profile, Zone};
use units::{Dscp, Mac};
use wire::neighbor::link_local;

use crate::conditions::Conditions;
use crate::nat::{self, Translation};
use crate::places::{PortAt, RouterAt, RouterPortAt, RuleAt, SwitchAt};
use crate::routes::{Policies, Routes};
use crate::rules::{List, ListKey, Numbers, RuleName};
use crate::touched::Touched;

/// A switch.
#[derive(Clone, Debug)]
pub struct Switch {
    pub id: Identity,
    pub row: image::Switch,
    /// Its ports, by name.
    pub ports: Vec<PortAt>,
    by_mac: BTreeMap<Mac, PortAt>,
    /// Routers' ports on it, and the ports that stand for them.
    routers: Vec<(PortAt, RouterPortAt)>,
    /// Who has an address, routers' own among them, in the order of ports.
    by_address: BTreeMap<IpAddr, Vec<PortAt>>,
    pub zones: Vec<Zone>,
    /// Its load balancers, by their places.
    pub balancers: Vec<usize>,
    /// Whether somebody may be on it whom nobody declares.
    pub leads_outside: bool,
}

impl Switch {
    /// The ports that have an address, routers' own among them, in the order of ports. Addresses
    /// that routers translate are not among these.
    pub fn may_answer(&self, address: IpAddr) -> impl Iterator<Item = PortAt> + Clone + '_ {
        self.by_address.get(&address).into_iter().flatten().copied()
    }
}

/// What a port stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    Machine,
    Local,
    Router(RouterPortAt),
    Provider,
    Gateway,
}

/// A port of a switch, here or elsewhere.
#[derive(Clone, Debug)]
pub struct Port {
    pub id: Identity,
    pub switch: SwitchAt,
    pub role: Role,
    pub station: Station,
    /// What its own host knows. `None`: it is another host's, or a router's.
    pub own: Option<Own>,
}

impl Port {
    /// Whether it is a machine's: policies hold for such ports only.
    pub const fn is_machine(&self) -> bool {
        matches!(self.role, Role::Machine | Role::Local)
    }

    /// Whether it leads outside: nobody there is a port.
    pub const fn is_outside(&self) -> bool {
        matches!(self.role, Role::Provider | Role::Gateway)
    }

    /// Whether somebody may be behind it whom nobody declares.
    pub const fn leads_outside(&self) -> bool {
        self.is_outside() || self.station.unknown
    }
}

/// A port of this host.
#[derive(Clone, Debug)]
pub struct Own {
    pub row: image::Port,
    /// Of a child: its parent.
    pub parent: Option<(PortAt, u16)>,
    /// Its children, by their tags.
    pub children: BTreeMap<u16, PortAt>,
    /// What decides about packets that it sends, and that it is about to get.
    pub lists: [Arc<List>; 2],
    /// The rules that keep what they admitted.
    pub keeping: BTreeMap<RuleName, RuleAt>,
    pub dhcp4: Option<Profile>,
    pub dhcp6: Option<Profile>,
    /// How its packets are marked, and by which QoS profile.
    pub dscp: Option<(Identity, Dscp)>,
}

impl Own {
    /// Where a rule is, if it is still there and keeps what it admitted.
    pub fn keeps(&self, rule: &RuleName) -> Option<RuleAt> {
        self.keeping.get(rule).copied()
    }

    /// What decides about packets of a direction.
    pub fn list(&self, way: Direction) -> &List {
        match way {
            Direction::FromPort => &self.lists[0],
            Direction::ToPort => &self.lists[1],
        }
    }
}

/// A router.
#[derive(Clone, Debug)]
pub struct Router {
    pub id: Identity,
    pub row: image::Router,
    /// Its ports, by name.
    pub ports: Vec<RouterPortAt>,
    /// Its routes.
    pub routes: Routes,
    /// What is decided before.
    pub policies: Policies,
    /// What it translates, in its order.
    pub nats: Vec<Translation>,
    /// Its load balancers, by their places.
    pub balancers: Vec<usize>,
    /// Whether any of its routes leads back where flows came from.
    pub is_symmetric: bool,
    /// Whether it has neighbours that nobody declares.
    pub leads_outside: bool,
    /// Whether another host is its home: it keeps its flows there, or asks for its neighbours.
    pub is_away: bool,
}

impl Router {
    /// Whether it changes ends of flows.
    pub fn translates(&self) -> bool {
        !self.nats.is_empty() || !self.balancers.is_empty()
    }

    /// Whether it remembers flows, which it does at one host.
    pub fn keeps_flows(&self) -> bool {
        self.translates() || self.is_symmetric
    }

    /// Whether one host is its home.
    pub fn has_home(&self) -> bool {
        self.keeps_flows() || self.leads_outside
    }

    /// Whether it keeps its flows at another host.
    pub fn is_elsewhere(&self) -> bool {
        self.keeps_flows() && self.is_away
    }
}

/// What a router's port leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leads {
    Switch(PortAt),
    Peer(RouterPortAt),
    Nowhere,
}

/// A router's port.
#[derive(Clone, Debug)]
pub struct RouterPort {
    pub id: Identity,
    pub router: RouterAt,
    pub leads: Leads,
    pub row: image::RouterPort,
}

impl RouterPort {
    /// Whether an address is its own.
    pub fn has(&self, address: IpAddr) -> bool {
        self.row.addresses.iter().any(|it| it.address == address)
    }

    /// An address of it, of the family of another; the one on its link if there is one.
    pub fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        let family =
            || self.row.addresses.iter().filter(|it| it.address.is_ipv4() == like.is_ipv4());
        let on_link = family().find(|it| AddressRange::from(**it).contains(like));
        on_link.or_else(|| family().next()).map(|it| it.address)
    }
}

/// A moment at which rows were changed: a number that their owner gives to no other change of any
/// domain. 0: nothing is known of it.
pub type Stamp = u64;

/// A host's part of a domain, ready to decide by. Who is in which group is apart from all else: a
/// copy that has other members shares that.
#[derive(Clone, Debug)]
pub struct Net {
    pub(crate) switches: Arc<Vec<Switch>>,
    pub(crate) ports: Arc<Vec<Port>>,
    pub(crate) routers: Arc<Vec<Router>>,
    pub(crate) router_ports: Arc<Vec<RouterPort>>,
    /// Load balancers, by name.
    pub(crate) balancers: Arc<Vec<(Identity, image::Balancer)>>,
    pub(crate) conditions: Conditions,
    /// The class of the groups that each port is in.
    pub(crate) groups: Vec<ClassId>,
    rules: Arc<Numbers>,
    by_name: Arc<BTreeMap<Identity, PortAt>>,
    /// When anything but ports' rules was changed last.
    since: Stamp,
    /// This host's ports, and when what the rules of each say was changed last.
    own: BTreeMap<PortAt, Stamp>,
}

/// The places of load balancers of a kind.
fn placed(part: &Domain, is_it: impl Fn(&image::Balancer) -> bool) -> Vec<usize> {
    let all = part.balancers.values().enumerate();
    all.filter(|(_, it)| is_it(it)).map(|(place, _)| place).collect()
}

/// Numbers names in their order.
fn numbered<'a>(names: impl Iterator<Item = &'a Identity>) -> BTreeMap<&'a Identity, u32> {
    names.zip(0..).collect()
}

impl Net {
    /// Makes a part ready. What rows name and no row is, is as if it were not named: a part is
    /// whole, and says all that is decided by.
    pub fn new(part: &Domain) -> Self {
        Self::after(part, None)
    }

    /// The same; rules that were there before have the places that they had.
    fn after(part: &Domain, before: Option<&Self>) -> Self {
        let switches = numbered(part.switches.keys());
        let ports = numbered(part.stations.keys().map(|(_, port)| port));
        let routers = numbered(part.routers.keys());
        let router_ports = numbered(part.router_ports.keys());
        let port_at = |name: &Identity| ports.get(name).copied().map(PortAt);
        let mut conditions = Conditions::new(part);
        let meter = |name: &Name| {
            let id = Identity { kind: Kind::Meter, tenant: None, name: name.clone() };
            part.meters.get(&id).copied()
        };
        let numbers = Numbers::new(part.policies.iter(), meter, before.map(|it| &*it.rules));
        let balancers: Vec<_> =
            part.balancers.iter().map(|(id, it)| (id.clone(), it.clone())).collect();
        let by_name: BTreeMap<_, _> =
            ports.iter().map(|(id, at)| ((*id).clone(), PortAt(*at))).collect();
        let mut net = Self {
            switches: Arc::default(),
            ports: Arc::default(),
            routers: Arc::default(),
            router_ports: Arc::default(),
            balancers: balancers.into(),
            rules: Arc::default(),
            by_name: by_name.into(),
            conditions: Conditions::new(&Domain::default()),
            groups: Vec::new(),
            since: 0,
            own: BTreeMap::new(),
        };
        let made_switches = part.switches.iter().map(|(id, row)| Switch {
            id: id.clone(),
            row: row.clone(),
            ports: Vec::new(),
            by_mac: BTreeMap::new(),
            routers: Vec::new(),
            by_address: BTreeMap::new(),
            zones: row.zones.iter().filter_map(|it| part.zones.get(it).cloned()).collect(),
            balancers: placed(part, |it| it.switches.contains(id)),
            leads_outside: false,
        });
        net.switches = Arc::new(made_switches.collect());
        let made_switches = Arc::make_mut(&mut net.switches);
        let made_ports = Arc::make_mut(&mut net.ports);
        // In the order of the places that names were given.
        for (place, ((switch, id), station)) in (0..).map(PortAt).zip(&part.stations) {
            let at = SwitchAt(switches.get(switch).copied().unwrap_or_default());
            let role = match &station.role {
                StationRole::Machine => Role::Machine,
                StationRole::Local => Role::Local,
                StationRole::Router(port) => {
                    Role::Router(RouterPortAt(router_ports.get(port).copied().unwrap_or_default()))
                }
                StationRole::Provider => Role::Provider,
                StationRole::Gateway { .. } => Role::Gateway,
            };
            net.groups.push(conditions.groups_of(id));
            let port =
                Port { id: id.clone(), switch: at, role, station: station.clone(), own: None };
            if let Some(switch) = made_switches.get_mut(at.at()) {
                switch.ports.push(place);
                switch.leads_outside |= port.leads_outside();
                switch.by_mac.entry(station.mac).or_insert(place);
            }
            made_ports.push(port);
        }
        // One list for all ports that the same policies hold for.
        let mut lists: BTreeMap<ListKey<'_>, Arc<List>> = BTreeMap::new();
        let none = BTreeSet::new();
        for (id, row) in &part.ports {
            let Some(at) = port_at(id) else { continue };
            let port = &made_ports[at.at()];
            let default = part.switches.get(&row.switch).map(|it| it.default_action);
            let default = default.filter(|_| port.is_machine()).unwrap_or_default();
            let mut list = |way| {
                let default = match way {
                    Direction::FromPort => default.from_port,
                    Direction::ToPort => default.to_port,
                };
                let named = if port.is_machine() { &row.policies } else { &none };
                let allows = default == AllowDrop::Allow;
                let list = lists.entry((way == Direction::FromPort, named, allows));
                let list = list.or_insert_with(|| {
                    let policies = named.iter().filter_map(|it| part.policies.get_key_value(it));
                    Arc::new(List::new(way, policies, allows, &numbers, &mut conditions))
                });
                list.clone()
            };
            let lists = [list(Direction::FromPort), list(Direction::ToPort)];
            let policies = row.policies.iter().filter_map(|it| part.policies.get_key_value(it));
            let keeping = policies.filter(|(_, it)| it.persist && port.is_machine());
            let keeping = keeping.flat_map(|(policy, it)| {
                let rule = |rule: &image::Rule| {
                    let name = RuleName { policy: policy.clone(), rule: rule.name.clone() };
                    let at = numbers.at(&name)?;
                    Some((name, at))
                };
                it.rules.iter().filter_map(rule).collect::<Vec<_>>()
            });
            let keeping = keeping.collect();
            let profile = |name: &Option<Identity>| part.profiles.get(name.as_ref()?).cloned();
            let parent = row.parent.as_ref();
            let parent = parent.and_then(|(parent, vlan)| Some((port_at(parent)?, *vlan)));
            net.own.insert(at, 0);
            made_ports[at.at()].own = Some(Own {
                row: row.clone(),
                parent,
                children: BTreeMap::new(),
                lists,
                keeping,
                dhcp4: profile(&row.dhcp4),
                dhcp6: profile(&row.dhcp6),
                dscp: row.qos.as_ref().and_then(|it| Some((it.clone(), part.qos.get(it)?.dscp?))),
            });
        }
        for at in net.own.keys() {
            let parent = made_ports[at.at()].own.as_ref().and_then(|it| it.parent);
            let Some((parent, vlan)) = parent else { continue };
            if let Some(own) = made_ports[parent.at()].own.as_mut() {
                own.children.insert(vlan, *at);
            }
        }
        for (id, row) in &part.router_ports {
            let leads = match &row.link {
                Link::Switch { port, .. } => port_at(port).map_or(Leads::Nowhere, Leads::Switch),
                Link::Peer(peer) => match router_ports.get(peer) {
                    Some(peer) => Leads::Peer(RouterPortAt(*peer)),
                    None => Leads::Nowhere,
                },
                Link::Nowhere => Leads::Nowhere,
            };
            let router = RouterAt(routers.get(&row.router).copied().unwrap_or_default());
            let made = RouterPort { id: id.clone(), router, leads, row: row.clone() };
            Arc::make_mut(&mut net.router_ports).push(made);
        }
        for (id, row) in &part.routers {
            let of = |router: &Identity| router == id;
            let routes = part.routes.iter().filter(|(key, _)| of(&key.router));
            let is_symmetric = routes.clone().any(|(_, row)| row.symmetric);
            let routes = Routes::new(routes, |out| net.up(out));
            let policies = part.route_policies.iter().filter(|(key, _)| of(&key.router));
            let policies = Policies::new(id, policies, &mut conditions, |out| net.up(out));
            let ports = (0..).map(RouterPortAt).zip(net.router_ports.iter());
            let ports = ports.filter(|(_, port)| of(&port.row.router)).map(|(at, _)| at);
            let ports: Vec<_> = ports.collect();
            let leads_outside = ports.iter().any(|at| net.leads_outside(*at));
            Arc::make_mut(&mut net.routers).push(Router {
                id: id.clone(),
                row: row.clone(),
                ports,
                routes,
                policies,
                nats: nat::translations(part, id, &mut conditions),
                balancers: placed(part, |it| it.routers.contains(id)),
                is_symmetric,
                leads_outside,
                is_away: false,
            });
        }
        conditions.finish();
        net.rules = numbers.into();
        net.conditions = conditions;
        net.address();
        net
    }

    /// The same of rows that are changed now. What is not touched since the rows before is as old
    /// as it was there.
    pub fn changed(part: &Domain, now: Stamp, before: Option<(&Domain, &Self)>) -> Self {
        let (mut net, touched) = match before {
            Some((rows, old)) => {
                let changes = rows.diff(part);
                let touched = Touched::by(&changes, rows, part);
                let net = old.with_members(&changes, rows);
                (net.unwrap_or_else(|| Self::after(part, Some(old))), touched)
            }
            None => (Self::after(part, None), Touched::All),
        };
        let before = before.map(|(_, old)| old);
        let is_touched = |port: &Identity| match &touched {
            Touched::All => true,
            Touched::Ports(ports) => ports.contains(port),
        };
        let old = before.filter(|_| touched != Touched::All);
        net.since = old.map_or(now, |old| old.since);
        for (at, since) in &mut net.own {
            let id = &net.ports[at.at()].id;
            let old = before.filter(|_| !is_touched(id));
            let old = old.and_then(|it| it.own.get(&it.port(id)?));
            *since = old.copied().unwrap_or(now);
        }
        net
    }

    /// The same of rows that differ from those before in members of groups alone, and only of
    /// groups that had some before. `None` if they differ in anything else.
    fn with_members(&self, changes: &[Change], before: &Domain) -> Option<Self> {
        let members = changes.iter().map(|change| match change {
            Change::Member(key, now) => Some((key, now.as_deref())),
            _ => None,
        });
        let members: Vec<_> = members.collect::<Option<_>>()?;
        let mut net = self.clone();
        for (key, now) in members {
            let old = before.members.get(key).map(|it| &**it);
            let class = net.conditions.change_member(key, old, now)?;
            if let Some(at) = net.port(&key.1) {
                net.groups[at.at()] = class;
            }
        }
        Some(net)
    }

    /// When anything but ports' rules was changed last.
    pub const fn since(&self) -> Stamp {
        self.since
    }

    /// When what a port's rules say was changed last.
    pub fn rules_since(&self, port: PortAt) -> Stamp {
        self.own.get(&port).copied().unwrap_or(0)
    }

    /// Finds out who has which address in each switch.
    fn address(&mut self) {
        for switch in Arc::make_mut(&mut self.switches) {
            for at in &switch.ports {
                let port = &self.ports[at.at()];
                let mut addresses: BTreeSet<IpAddr> = BTreeSet::new();
                if let Role::Router(router) = port.role {
                    let row = &self.router_ports[router.at()].row;
                    addresses.extend(row.addresses.iter().map(|it| it.address));
                    addresses.insert(link_local(row.mac).into());
                    switch.routers.push((*at, router));
                }
                addresses.extend(&port.station.addresses);
                for address in addresses {
                    switch.by_address.entry(address).or_default().push(*at);
                }
            }
        }
    }

    /// A router's port that forwards.
    fn up(&self, name: &Identity) -> Option<RouterPortAt> {
        self.router_port(name).filter(|at| self.router_ports[at.at()].row.enabled)
    }

    /// Says which routers have their home here, of those that have one; without, all. A router that
    /// translates, or leads flows back where they came from, is at one host, which both directions
    /// of a flow pass. One that has neighbours outside asks for them at one host.
    #[must_use]
    pub fn with_routers(mut self, is_here: impl Fn(&Identity) -> bool) -> Self {
        let is_away = |router: &Router| router.has_home() && !is_here(&router.id);
        if self.routers.iter().any(|router| router.is_away != is_away(router)) {
            for router in Arc::make_mut(&mut self.routers) {
                router.is_away = is_away(router);
            }
        }
        self
    }

    /// Whether a port is this host's, or this is a router's home.
    pub fn has(&self, name: &Identity) -> bool {
        self.own_port(name).is_some() || self.own_routers().any(|router| router == name)
    }

    /// Whether a router of the network has such a port.
    pub fn has_router_port(&self, port: &Identity) -> bool {
        self.router_port(port).is_some()
    }

    /// Whether frames for a router's port go on here, and at no other host: this is its home.
    pub fn resumes(&self, port: &Identity) -> bool {
        let router = self.router_port(port).map(|at| self.router_ports[at.at()].router);
        let router = router.map(|at| &self.routers[at.at()]);
        router.is_some_and(|it| it.has_home() && !it.is_away)
    }

    /// The routers that have their home here.
    pub fn own_routers(&self) -> impl Iterator<Item = &Identity> {
        self.at_home().map(|router| &router.id)
    }

    /// Whether any of them has neighbours that nobody declares.
    pub fn asks(&self) -> bool {
        self.at_home().any(|router| router.leads_outside)
    }

    fn at_home(&self) -> impl Iterator<Item = &Router> {
        self.routers.iter().filter(|it| it.has_home() && !it.is_away)
    }

    /// Who keeps translated flows here, and how many: routers, and ports with load balancers.
    pub(crate) fn translating(&self) -> impl Iterator<Item = (&Identity, u32)> {
        let ports = self.own_ports().filter(|port| {
            port.is_machine() && !self.switches[port.switch.at()].balancers.is_empty()
        });
        let ports = ports.filter_map(|port| {
            Some((&port.id, port.own.as_ref()?.row.connections.unwrap_or(u32::MAX)))
        });
        let routers = self.at_home().filter(|router| router.translates());
        routers.map(|router| (&router.id, u32::MAX)).chain(ports)
    }

    /// The rules of all policies that hold for ports of this host.
    pub fn rules(&self) -> &Numbers {
        &self.rules
    }

    /// A rule's name.
    pub fn rule(&self, at: RuleAt) -> &RuleName {
        &self.rules.get(at).name
    }

    /// The policies that hold for a port of this host.
    pub fn policies(&self, port: PortAt) -> impl Iterator<Item = &Identity> {
        let own = self.ports[port.at()].own.as_ref();
        own.into_iter().flat_map(|own| &own.row.policies)
    }

    /// A port's name.
    pub fn name(&self, port: PortAt) -> &Identity {
        &self.ports[port.at()].id
    }

    /// A port by its name.
    pub fn port(&self, name: &Identity) -> Option<PortAt> {
        self.by_name.get(name).copied()
    }

    /// A port of this host by its name.
    pub fn own_port(&self, name: &Identity) -> Option<PortAt> {
        self.port(name).filter(|at| self.ports[at.at()].own.is_some())
    }

    /// All ports of this host.
    pub(crate) fn own_ports(&self) -> impl Iterator<Item = &Port> {
        self.own.keys().map(|at| &self.ports[at.at()])
    }

    /// The ports of this host whose frames are a port's with tags.
    pub fn children(&self, port: PortAt) -> impl Iterator<Item = PortAt> + '_ {
        let own = self.ports[port.at()].own.as_ref();
        own.into_iter().flat_map(|own| own.children.values().copied())
    }

    /// Who declares an Ethernet address in a switch.
    pub(crate) fn owner(&self, switch: SwitchAt, mac: Mac) -> Option<PortAt> {
        let declared = self.switches[switch.at()].by_mac.get(&mac).copied();
        declared.or_else(|| self.external_owner(switch, mac))
    }

    /// The groups that a port is in, wherever it is.
    pub(crate) fn groups_of(&self, name: &Identity) -> ClassId {
        self.conditions.groups_of(name)
    }

    /// A router's port by its name.
    pub(crate) fn router_port(&self, name: &Identity) -> Option<RouterPortAt> {
        let found = self.router_ports.binary_search_by(|it| it.id.cmp(name)).ok()?;
        Some(RouterPortAt(found as u32))
    }

    /// Whether a port that stands for a router's forwards.
    pub(crate) fn is_up(&self, at: PortAt, router_port: RouterPortAt) -> bool {
        let port = &self.router_ports[router_port.at()];
        let router = &self.routers[port.router.at()];
        self.ports[at.at()].station.enabled && port.row.enabled && router.row.enabled
    }

    /// The routers' ports on a switch, with the ports that stand for them.
    pub(crate) fn routers_on(
        &self,
        switch: SwitchAt,
    ) -> impl Iterator<Item = (PortAt, RouterPortAt)> + '_ {
        self.switches[switch.at()].routers.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use image::Group;

    use super::*;

    #[test]
    fn a_member_more_leaves_all_else_as_it_was() {
        let id = |text: &str| -> Identity { text.parse().unwrap() };
        let [one, other] = ["LogicalPort/t/a", "LogicalPort/t/b"].map(id);
        let [group, new] = ["PortGroup/t/g", "PortGroup/t/h"].map(|it| Group::Named(id(it)));
        let mut part = Domain::default();
        for port in [&one, &other] {
            let station = Station {
                role: StationRole::Machine,
                mac: Mac([2, 0, 0, 0, 0, 1]),
                addresses: Vec::new(),
                unknown: false,
                enabled: true,
            };
            part.stations.insert((id("LogicalSwitch/t/s"), port.clone()), station);
        }
        part.members.insert((group.clone(), one.clone()), Vec::new());
        let before = Net::changed(&part, 1, None);
        let class = |net: &Net, port| net.groups[net.port(port).unwrap().at()];
        assert_ne!(class(&before, &one), class(&before, &other));

        let mut more = part.clone();
        more.members.insert((group, other.clone()), Vec::new());
        let net = Net::changed(&more, 2, Some((&part, &before)));
        assert_eq!(class(&net, &one), class(&net, &other));
        assert!(Arc::ptr_eq(&net.ports, &before.ports) && net.since() == 1);

        // Rules that name a group without members have no number for it.
        let mut first = more.clone();
        first.members.insert((new, one.clone()), Vec::new());
        let anew = Net::changed(&first, 3, Some((&more, &net)));
        assert!(!Arc::ptr_eq(&anew.ports, &net.ports));
        assert_ne!(class(&anew, &one), class(&anew, &other));
    }
}
