//! NVP's networks, at any size: switches of nine machines, ten of them around a tenant's router,
//! and policies for seven of nine machines (Koponen et al., NSDI 2014, §6.1: 7,000 datapaths,
//! 63,000 ports, 49,188 of them with ACLs).

use std::sync::Arc;

use hypervisor::{Changes, Edit, Hypervisor};
use logical::Object;
use logical::objects::{Metadata, Name, Reference};

/// An object of each kind that there is, of which others are made.
const FORMS: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: s, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fe', addresses: [10.0.0.254/24]}}
- {kind: LogicalPort, metadata: {name: r, tenant: t}, spec: {switch: s, router: {routerPort: s}}}
- {kind: LogicalPort, metadata: {name: p, tenant: t, labels: {app: web}}, spec: {switch: s, vif: {}, addresses: [10.0.0.1]}}
- {kind: AddressSet, metadata: {name: office, tenant: t}, spec: {addresses: [192.0.2.0/24, 198.51.100.7]}}
- {kind: Policy, metadata: {name: web, tenant: t}, spec: {appliesTo: {selector: {matchLabels: {app: web}}}, defaultAction: drop, directions: [toPort], rules: [{name: https, direction: toPort, action: allow, services: [{protocol: tcp, ports: [443]}]}, {name: ssh, direction: toPort, action: allow, peer: {sets: [office]}, services: [{protocol: tcp, ports: [22]}]}]}}
- {kind: Policy, metadata: {name: db, tenant: t}, spec: {appliesTo: {selector: {matchLabels: {app: db}}}, defaultAction: drop, directions: [toPort], rules: [{name: sql, direction: toPort, action: allow, peer: {selector: {matchLabels: {app: web}}}, services: [{protocol: tcp, ports: [5432]}]}]}}
- {kind: PortGroup, metadata: {name: g, tenant: t}, spec: {}}
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [p0]}, rules: [{name: a, direction: toPort, action: allow, peer: {groups: [g]}}]}}
";

/// Switches around one router.
const AROUND: u32 = 10;

/// Machines in a switch.
const MACHINES: u32 = 9;

pub fn name(text: &str) -> Name {
    text.parse().expect("it is a name")
}

fn reference(text: &str) -> Reference {
    text.parse().expect("it is a reference")
}

/// Makes objects.
pub struct Forms(Vec<Object>);

impl Forms {
    pub fn new() -> Self {
        let read = logical::read(FORMS);
        assert!(read.faults.is_empty(), "{:#?}", read.faults);
        Self(read.objects)
    }

    /// An object like one of the forms.
    fn like(&self, form: usize, tenant: u32, called: &str) -> Object {
        let mut object = self.0[form].clone();
        let metadata = metadata(&mut object);
        metadata.name = name(called);
        metadata.tenant = metadata.tenant.is_some().then(|| name(&format!("t{tenant}")));
        object
    }

    /// A machine of a tenant: its number, and what it is. Two of nine have no policy.
    pub fn machine(&self, tenant: u32, number: u32, app: &str) -> Arc<Object> {
        let mut object = self.like(5, tenant, &format!("p{number}"));
        metadata(&mut object).labels = [("app".to_string(), app.to_string())].into();
        let Object::LogicalPort(it) = &mut object else { panic!("{object:?}") };
        it.spec.switch = reference(&format!("s{}", number / MACHINES));
        it.spec.addresses = vec![std::net::Ipv4Addr::from(0x0a00_0001 + number % 200).into()];
        Arc::new(object)
    }

    /// A tenant with so many switches.
    pub fn tenant(&self, tenant: u32, switches: u32) -> Vec<Arc<Object>> {
        let mut all = vec![self.like(0, tenant, &format!("t{tenant}"))];
        all.push(self.like(2, tenant, "r"));
        all.push(self.like(6, tenant, "office"));
        all.push(self.like(7, tenant, "web"));
        all.push(self.like(8, tenant, "db"));
        for switch in 0..switches {
            let called = format!("s{switch}");
            all.push(self.like(1, tenant, &called));
            all.push(self.like(3, tenant, &called));
            let mut port = self.like(4, tenant, &format!("r{switch}"));
            let Object::LogicalPort(it) = &mut port else { panic!("{port:?}") };
            it.spec.switch = reference(&called);
            it.spec.router.as_mut().expect("it stands for one").router_port = reference(&called);
            all.push(port);
        }
        let mut all: Vec<_> = all.into_iter().map(Arc::new).collect();
        all.extend((0..switches * MACHINES).map(|it| self.machine(tenant, it, app(it))));
        all
    }

    /// So many switches, of as many tenants as they need.
    pub fn networks(&self, switches: u32) -> Vec<Arc<Object>> {
        let tenants = switches.div_ceil(AROUND);
        let of = |tenant| AROUND.min(switches - tenant * AROUND);
        (0..tenants).flat_map(|tenant| self.tenant(tenant, of(tenant))).collect()
    }

    /// A tenant whose ports are all in one group but for the last, and policies that speak of the
    /// group; and the same group with the last port.
    pub fn group(&self, tenant: u32, ports: u32, rules: u32) -> (Vec<Arc<Object>>, Arc<Object>) {
        let mut all = self.tenant(tenant, ports.div_ceil(MACHINES));
        let group = |ports| {
            let mut group = self.like(9, tenant, "g");
            let Object::PortGroup(it) = &mut group else { panic!("{group:?}") };
            it.spec.ports = (0..ports).map(|it| reference(&format!("p{it}"))).collect();
            Arc::new(group)
        };
        all.push(group(ports - 1));
        all.extend((0..rules).map(|it| Arc::new(self.like(10, tenant, &format!("rule{it}")))));
        (all, group(ports))
    }
}

/// What a machine is: four in nine serve pages, three data.
pub fn app(number: u32) -> &'static str {
    match number % MACHINES {
        0..4 => "web",
        4..7 => "db",
        _ => "none",
    }
}

fn metadata(object: &mut Object) -> &mut Metadata {
    match object {
        Object::Tenant(it) => &mut it.metadata,
        Object::LogicalSwitch(it) => &mut it.metadata,
        Object::LogicalRouter(it) => &mut it.metadata,
        Object::RouterPort(it) => &mut it.metadata,
        Object::LogicalPort(it) => &mut it.metadata,
        Object::AddressSet(it) => &mut it.metadata,
        Object::Policy(it) => &mut it.metadata,
        Object::PortGroup(it) => &mut it.metadata,
        other => panic!("{other:?} is no form"),
    }
}

/// Puts objects, one commit later than before.
pub fn put(
    hypervisor: &mut Hypervisor,
    revision: &mut u64,
    objects: impl IntoIterator<Item = Arc<Object>>,
) -> Changes {
    *revision += 1;
    hypervisor.commit(*revision, objects.into_iter().map(Edit::put))
}
