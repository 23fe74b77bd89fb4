//! Whether a write stands, by the objects near it.
//!
//! ```text
//!            ┌ judged ─────────────────────────────────┐
//! write ─▶ what it says, who depends on what it changes, and who must differ from both
//!                 │ whom these speak of, and whom those
//!                 ▼
//!              known: there, as far as others ask of them
//! ```
//!
//! All objects that are there are right together. So only those can be wrong after a write that it
//! changes or that depend on what it changes, and what a check of them reads is near them. What
//! says yes here is right together with all; what says no has not been decided: then all objects
//! are to be asked, which say what is wrong, too.

mod domains;

use std::collections::{BTreeMap, BTreeSet};

use logical::objects::{
    AddressSet, Declared, Identity, Kind, LogicalPort, Name, Object, PortGroup,
};

use crate::objects::{Objects, common, meant};

/// Whether all objects are right together for certain after a write that puts some and has others
/// gone. All that there are now are right together.
pub fn stands(objects: &Objects, said: &[Object], gone: &BTreeSet<Identity>) -> bool {
    let near = Next::of(objects, said, gone).and_then(Next::near);
    near.is_some_and(|it| logical::resolve(&it).is_ok())
}

/// Which of these cannot stand once others are gone.
pub fn faulty(
    objects: &Objects,
    judged: &BTreeSet<Identity>,
    gone: &BTreeSet<Identity>,
) -> BTreeSet<Identity> {
    let next = Next { objects, puts: BTreeMap::new(), gone, judged: judged.clone() };
    // Those beside them are left out: no two become alike by what goes.
    let Err(faults) = logical::resolve(&next.gather()) else { return BTreeSet::new() };
    let faulty = faults.iter().filter_map(|it| it.object.parse::<Identity>().ok());
    faulty.filter(|it| judged.contains(it)).collect()
}

/// The objects after a write.
struct Next<'a> {
    objects: &'a Objects,
    puts: BTreeMap<Identity, &'a Object>,
    gone: &'a BTreeSet<Identity>,
    /// Those that may be wrong.
    judged: BTreeSet<Identity>,
}

impl<'a> Next<'a> {
    /// `None`: somebody is said twice, or most objects are said, and to check all costs no more.
    fn of(objects: &'a Objects, said: &'a [Object], gone: &'a BTreeSet<Identity>) -> Option<Self> {
        let puts: BTreeMap<_, _> = said.iter().map(|it| (it.identity(), it)).collect();
        let is_near = puts.len() == said.len() && said.len() + gone.len() <= objects.len() / 2;
        is_near.then(|| Self { objects, puts, gone, judged: BTreeSet::new() })
    }

    /// What is to be checked together. `None`: all.
    fn near(mut self) -> Option<Vec<Object>> {
        let is_near = self.judge_removals() && self.judge_puts() && self.has_room();
        is_near.then(|| {
            let beside: BTreeSet<_> = self.judged.iter().flat_map(|it| self.company(it)).collect();
            self.judged.extend(beside);
            self.gather()
        })
    }

    /// What is there under a name.
    fn get(&self, identity: &Identity) -> Option<&'a Object> {
        let put = self.puts.get(identity).copied();
        put.or_else(|| self.objects.get(identity).filter(|_| !self.gone.contains(identity)))
    }

    /// Looks who depends on what goes. `false`: somebody who has to be asked.
    fn judge_removals(&mut self) -> bool {
        let (objects, gone) = (self.objects, self.gone);
        for identity in gone {
            let Some(before) = objects.get(identity) else { continue };
            if self.puts.contains_key(identity) {
                continue;
            }
            if is_everybodys(identity.kind) || self.is_spoken_of(identity) {
                return false;
            }
            self.judge_routers(before);
        }
        true
    }

    /// Looks who depends on what comes and what is another. `false`: somebody who has to be asked.
    fn judge_puts(&mut self) -> bool {
        for (identity, after) in self.puts.clone() {
            let before = self.objects.get(&identity);
            let is_same = before.is_some_and(|it| is_same(it, after));
            self.judged.insert(identity.clone());
            if is_same {
                continue;
            }
            // Who speaks of what was not there has meant the operator's.
            let is_meant_now = before.is_none() && self.is_spoken_of(&identity);
            if is_everybodys(identity.kind) || is_meant_now {
                return false;
            }
            let Some(before) = before else {
                self.judge_routers(after);
                continue;
            };
            match (before, after) {
                (Object::LogicalPort(before), Object::LogicalPort(after)) => {
                    if !has_same_end(&before.spec, &after.spec) {
                        return false;
                    }
                    self.judge_speaking_of(&identity, &[Kind::Binding, Kind::LoadBalancer]);
                }
                (Object::PortGroup(before), Object::PortGroup(after))
                    if before.spec.include != after.spec.include
                        && self
                            .objects
                            .speaking_of(&identity, Kind::PortGroup)
                            .next()
                            .is_some() =>
                {
                    return false;
                }
                (Object::RouterPort(_), _) => {
                    self.judge_routers(before);
                    self.judge_routers(after);
                    self.judge_speaking_of(&identity, &[Kind::LogicalPort, Kind::RouterPort]);
                }
                (Object::LogicalSwitch(_) | Object::DhcpProfile(_), _) => {
                    self.judge_speaking_of(&identity, &[Kind::LogicalPort]);
                }
                // Others ask of these only whether they are there.
                _ => {}
            }
        }
        true
    }

    /// Whether somebody whom the write leaves as it is speaks of an object.
    fn is_spoken_of(&self, identity: &Identity) -> bool {
        let mut others = self.objects.all_speaking_of(identity);
        others.any(|it| !self.gone.contains(it) && !self.puts.contains_key(it))
    }

    /// Of a router's port: its router's routes lead by it.
    fn judge_routers(&mut self, port: &Object) {
        let Object::RouterPort(port) = port else { return };
        let tenant = port.metadata.tenant.as_ref();
        let router = meant(Kind::LogicalRouter, tenant, &port.spec.router);
        self.judged.insert(router);
    }

    fn judge_speaking_of(&mut self, identity: &Identity, kinds: &[Kind]) {
        let objects = self.objects;
        for kind in kinds {
            self.judged.extend(objects.speaking_of(identity, *kind).cloned());
        }
    }

    /// Whether no quota can be exceeded by what is put.
    fn has_room(&self) -> bool {
        let owned = |it: &Identity| Some((it.tenant.clone()?, it.kind));
        let shelves: BTreeSet<_> = self.puts.keys().filter_map(owned).collect();
        shelves.iter().all(|(name, kind)| self.has_room_for(name, *kind))
            && domains::have_room(self.objects, &self.puts, self.gone)
    }

    fn has_room_for(&self, name: &Name, kind: Kind) -> bool {
        let tenant = Identity { kind: Kind::Tenant, tenant: None, name: name.clone() };
        // Without a tenant they cannot stand; that is found.
        let Some(Object::Tenant(tenant)) = self.get(&tenant) else { return true };
        let counted = |object: &Object| tenant.spec.quota.counts(object);
        let mut put = self.puts.values().filter(|it| it.kind() == kind);
        let Some(most) = put.find_map(|it| counted(it)?.1) else { return true };
        let kept = self.objects.of(kind, Some(name));
        let kept = kept.filter(|(it, _)| !self.gone.contains(it) && !self.puts.contains_key(it));
        let put = self.puts.iter().filter(|(it, _)| it.kind == kind);
        let put = put.filter(|(it, _)| it.tenant.as_ref() == Some(name));
        let all = kept.map(|(_, it)| it).chain(put.map(|(_, it)| *it));
        all.filter_map(|it| Some(counted(it)?.0)).sum::<usize>() <= most as usize
    }

    /// Those that are judged, and whom their check reads.
    fn gather(&self) -> Vec<Object> {
        let mut all = Vec::new();
        let mut next = Vec::new();
        for identity in &self.judged {
            let Some(object) = self.get(identity) else { continue };
            let object = self.anew(identity, object);
            next.extend(logical::references(&object));
            next.extend(self.read_by(&object));
            all.push(object);
        }
        let mut known = self.judged.clone();
        while let Some(identity) = next.pop() {
            if let Some(object) = self.get(&identity)
                && known.insert(identity)
            {
                let object = bare(object);
                next.extend(logical::references(&object));
                all.push(object);
            }
        }
        all
    }

    /// Those that must differ from an object in something, or agree with it.
    fn company(&self, identity: &Identity) -> Vec<Identity> {
        let mut found = Vec::new();
        let mut of = |kind, of: &Identity| {
            found.extend(self.objects.speaking_of(of, kind).cloned());
        };
        match self.get(identity) {
            Some(Object::LogicalPort(it)) => {
                let (tenant, port) = (it.metadata.tenant.as_ref(), &it.spec);
                of(Kind::LogicalPort, &meant(Kind::LogicalSwitch, tenant, &port.switch));
                if let Some(to) = &port.router {
                    of(Kind::LogicalPort, &meant(Kind::RouterPort, tenant, &to.router_port));
                }
                if let Some(child) = &port.child {
                    of(Kind::LogicalPort, &meant(Kind::LogicalPort, tenant, &child.parent));
                }
            }
            Some(Object::RouterPort(it)) => {
                let tenant = it.metadata.tenant.as_ref();
                of(Kind::RouterPort, &meant(Kind::LogicalRouter, tenant, &it.spec.router));
                of(Kind::RouterPort, identity);
                of(Kind::LogicalPort, identity);
                if let Some(peer) = &it.spec.peer {
                    of(Kind::RouterPort, &meant(Kind::RouterPort, tenant, peer));
                }
            }
            Some(Object::Binding(it)) => {
                of(Kind::Binding, &meant(Kind::LogicalPort, None, &it.spec.port));
            }
            _ => {}
        }
        found
    }

    /// Those that a check of an object reads, though it does not speak of them.
    fn read_by(&self, object: &Object) -> Vec<Identity> {
        match object {
            Object::LogicalRouter(_) => {
                let router = object.identity();
                let put = self.puts.keys().filter(|it| it.kind == Kind::RouterPort);
                let there = self.objects.speaking_of(&router, Kind::RouterPort);
                put.chain(there).cloned().collect()
            }
            Object::Nat(_) => {
                self.objects.of(Kind::ExternalPool, None).map(|(it, _)| it.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A judged object, without ports that it has listed all along and that are there still.
    fn anew(&self, identity: &Identity, object: &Object) -> Object {
        let (Object::PortGroup(after), Some(Object::PortGroup(before))) =
            (object, self.objects.get(identity))
        else {
            return object.clone();
        };
        // A port that goes may be among those that are listed still.
        if !self.gone.is_empty() {
            return object.clone();
        }
        let (before, after) = (&before.spec, &after.spec);
        let (start, end) = common(&before.ports, &after.ports);
        let ports = after.ports[start..after.ports.len() - end].to_vec();
        let (selector, include) = (after.selector.clone(), after.include.clone());
        let spec = PortGroup { ports, selector, include };
        Object::PortGroup(Declared::new(object.metadata().clone(), spec))
    }
}

/// Whether objects of a kind are asked by others for more than those who speak of them.
fn is_everybodys(kind: Kind) -> bool {
    matches!(kind, Kind::Tenant | Kind::ExternalPool)
}

/// Whether two objects say the same, but for what the controller writes.
fn is_same(before: &Object, after: &Object) -> bool {
    let (was, mut is) = (before.metadata(), after.metadata().clone());
    is.uid.clone_from(&was.uid);
    is.created_at.clone_from(&was.created_at);
    (is.revision, is.generation) = (was.revision, was.generation);
    is == *was && after.declares_as(before)
}

/// Whether what is at a port is of the same sort: others ask for that.
fn has_same_end(before: &LogicalPort, after: &LogicalPort) -> bool {
    let end = |it: &LogicalPort| {
        let is_there = (it.vif.is_some(), it.provider.is_some(), it.local.is_some());
        (is_there, it.router.clone(), it.child.clone(), it.l2gateway.clone())
    };
    end(before) == end(after)
}

/// An object without what nobody else asks of it.
fn bare(object: &Object) -> Object {
    let metadata = || object.metadata().clone();
    match object {
        Object::PortGroup(it) => {
            let spec = PortGroup { include: it.spec.include.clone(), ..PortGroup::default() };
            Object::PortGroup(Declared::new(metadata(), spec))
        }
        Object::AddressSet(_) => {
            let spec = AddressSet { addresses: Vec::new() };
            Object::AddressSet(Declared::new(metadata(), spec))
        }
        _ => {
            let mut object = object.clone();
            match &mut object {
                Object::LogicalSwitch(it) => (it.spec.dns, it.spec.qos) = (Vec::new(), None),
                Object::LogicalRouter(it) => {
                    (it.spec.routes, it.spec.policies) = (Vec::new(), Vec::new());
                    (it.spec.gateway, it.spec.copp) = (None, None);
                }
                Object::RouterPort(it) => it.spec.gateway = None,
                Object::ProviderNetwork(it) => it.spec.shared_with = Vec::new(),
                _ => {}
            }
            object
        }
    }
}

#[cfg(test)]
mod tests;
