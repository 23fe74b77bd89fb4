//! Whether domains have room for what a write puts into them.
//!
//! Where something comes into a domain, that is walked as it is after the write: its ports and
//! hosts are counted as quotas say. A domain into which nothing comes is as right as it was.

use std::collections::{BTreeMap, BTreeSet};

use logical::objects::{Identity, Kind, LogicalPort, Name, Object, Quota, RouterPort};

use crate::objects::{Objects, meant};

/// Whether it is certain that no domain is too large.
pub fn have_room(
    objects: &Objects,
    puts: &BTreeMap<Identity, &Object>,
    gone: &BTreeSet<Identity>,
) -> bool {
    // A group speaks of many, and is in no domain.
    let is_in_some =
        |it: &Identity| matches!(it.kind, Kind::LogicalPort | Kind::RouterPort | Kind::Binding);
    let mut speakers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (identity, object) in puts.iter().filter(|(it, _)| is_in_some(it)) {
        for of in logical::references(object) {
            speakers.entry(of).or_default().push(identity);
        }
    }
    let next = Next { objects, puts, gone, speakers };
    let mut seen = BTreeSet::new();
    next.entered().into_iter().all(|node| next.has_room(node, &mut seen))
}

/// The objects after a write.
struct Next<'a> {
    objects: &'a Objects,
    puts: &'a BTreeMap<Identity, &'a Object>,
    gone: &'a BTreeSet<Identity>,
    /// Whoever is spoken of by what is put into domains, with who does.
    speakers: BTreeMap<Identity, Vec<&'a Identity>>,
}

/// What a tenant has in a domain, and may have.
struct Size {
    quota: Quota,
    ports: usize,
    hosts: BTreeSet<Name>,
}

impl<'a> Next<'a> {
    fn get(&self, identity: &Identity) -> Option<&'a Object> {
        let put = self.puts.get(identity).copied();
        put.or_else(|| self.objects.get(identity).filter(|_| !self.gone.contains(identity)))
    }

    /// The objects of a kind that speak of one.
    fn speaking_of(&self, identity: &Identity, kind: Kind) -> Vec<&'a Object> {
        let is_left = |it: &&Identity| !self.puts.contains_key(it) && !self.gone.contains(it);
        let kept = self.objects.speaking_of(identity, kind).filter(is_left);
        let put = self.speakers.get(identity).into_iter().flatten().copied();
        let all = kept.chain(put.filter(|it| it.kind == kind));
        all.filter_map(|it| self.get(it)).collect()
    }

    /// Switches and routers into whose domains something comes.
    fn entered(&self) -> BTreeSet<Identity> {
        let mut found = BTreeSet::new();
        for (identity, after) in self.puts {
            let tenant = identity.tenant.as_ref();
            match (self.objects.get(identity), *after) {
                (Some(Object::LogicalPort(before)), Object::LogicalPort(after))
                    if before.spec.switch == after.spec.switch
                        && before.spec.router == after.spec.router => {}
                (_, Object::LogicalPort(it)) => found.extend([switch(tenant, &it.spec)]),
                (Some(Object::RouterPort(before)), Object::RouterPort(after))
                    if before.spec.router == after.spec.router
                        && before.spec.peer == after.spec.peer => {}
                (_, Object::RouterPort(it)) => found.extend([router(tenant, &it.spec)]),
                (_, Object::Binding(it)) => {
                    let port = meant(Kind::LogicalPort, None, &it.spec.port);
                    let children = self.speaking_of(&port, Kind::LogicalPort);
                    for object in self.get(&port).into_iter().chain(children) {
                        let Object::LogicalPort(it) = object else { continue };
                        found.insert(switch(it.metadata.tenant.as_ref(), &it.spec));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Whether the domain of a switch or a router is right, unless it was looked at.
    fn has_room(&self, from: Identity, seen: &mut BTreeSet<Identity>) -> bool {
        let mut sizes: BTreeMap<&Name, Size> = BTreeMap::new();
        let mut next = vec![from];
        while let Some(node) = next.pop() {
            if !seen.insert(node.clone()) {
                continue;
            }
            let router_ports = self.speaking_of(&node, Kind::RouterPort);
            let ports = self.speaking_of(&node, Kind::LogicalPort);
            for object in router_ports.into_iter().chain(ports) {
                next.extend(self.behind(object));
                if let Object::LogicalPort(it) = object
                    && let Some(tenant) = &it.metadata.tenant
                {
                    let size = sizes.entry(tenant).or_insert_with(|| self.size(tenant));
                    size.ports += 1;
                    if size.quota.domain_hosts.is_some() {
                        size.hosts.extend(self.host(object));
                    }
                }
            }
        }
        sizes.into_values().all(|Size { quota, ports, hosts }| {
            let fits = |has: usize, most: Option<u32>| most.is_none_or(|most| has <= most as usize);
            fits(ports, quota.domain_ports) && fits(hosts.len(), quota.domain_hosts)
        })
    }

    /// The switches and routers to which a port leads.
    fn behind(&self, port: &Object) -> Vec<Identity> {
        let router_of = |identity: Identity| match self.get(&identity) {
            Some(Object::RouterPort(it)) => Some(router(identity.tenant.as_ref(), &it.spec)),
            _ => None,
        };
        let tenant = port.metadata().tenant.as_ref();
        match port {
            Object::LogicalPort(it) => {
                let to = it.spec.router.as_ref();
                let to = to.map(|it| meant(Kind::RouterPort, tenant, &it.router_port));
                to.and_then(router_of).into_iter().collect()
            }
            Object::RouterPort(it) => {
                let peer = it.spec.peer.as_ref();
                let peer = peer.map(|it| meant(Kind::RouterPort, tenant, it)).and_then(router_of);
                let stands = self.speaking_of(&port.identity(), Kind::LogicalPort);
                let switches = stands.into_iter().filter_map(|it| match it {
                    Object::LogicalPort(it) => Some(switch(it.metadata.tenant.as_ref(), &it.spec)),
                    _ => None,
                });
                peer.into_iter().chain(switches).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The node that a port is bound to. A child is where its parent is.
    fn host(&self, port: &Object) -> Option<Name> {
        let Object::LogicalPort(it) = port else { return None };
        let port = match &it.spec.child {
            Some(child) => meant(Kind::LogicalPort, it.metadata.tenant.as_ref(), &child.parent),
            None => port.identity(),
        };
        self.speaking_of(&port, Kind::Binding).into_iter().find_map(|it| match it {
            Object::Binding(it) => Some(it.spec.node.clone()),
            _ => None,
        })
    }

    /// Nothing of a tenant, and its quota.
    fn size(&self, tenant: &Name) -> Size {
        let tenant = Identity { kind: Kind::Tenant, tenant: None, name: tenant.clone() };
        let quota = match self.get(&tenant) {
            Some(Object::Tenant(it)) => it.spec.quota,
            // Without a tenant they cannot stand; that is found.
            _ => Quota::default(),
        };
        Size { quota, ports: 0, hosts: BTreeSet::new() }
    }
}

fn switch(tenant: Option<&Name>, port: &LogicalPort) -> Identity {
    meant(Kind::LogicalSwitch, tenant, &port.switch)
}

fn router(tenant: Option<&Name>, port: &RouterPort) -> Identity {
    meant(Kind::LogicalRouter, tenant, &port.router)
}
