//! What a tenant knows of all objects, and what of its own is the operator's.
//!
//! A tenant's write is checked with all objects. If it cannot stand, it is checked again with what
//! the tenant knows, and what that check finds is told: no sentence has a name that the tenant does
//! not know. If it finds nothing, others' objects are in the way, and nothing more is said.

use std::collections::BTreeSet;

use logical::objects::{Identity, Kind, Name, Object, SecurityMode};
use logical::{Fault, Source};

/// Takes out of a tenant's object where it is: only the operator is to know.
pub fn hide(object: &mut Object) {
    match object {
        Object::LogicalPort(port) => port.spec.node.clear(),
        Object::RouterPort(port) => port.spec.gateway = None,
        _ => {}
    }
}

/// Has a tenant's object keep what the operator has said of it, which the tenant does not see. All
/// that the tenant says and is the operator's to say is told.
pub fn keep(object: &mut Object, before: Option<&Object>) -> Vec<(&'static str, &'static str)> {
    const PLACE: &str = "only the operator says on which nodes it is: leave it out";
    const RESERVED: &str = "only the operator may have it so: leave it out, or ask the operator";
    const OPERATORS: &str = "this is the operator's to say: leave it as it is";
    const JOINED: &str = "only the operator joins switches to provider networks: leave it as it is";
    let mut wrong = Vec::new();
    match object {
        Object::LogicalPort(port) => {
            let before = before.and_then(|it| match it {
                Object::LogicalPort(port) => Some(&port.spec),
                _ => None,
            });
            let now = &mut port.spec;
            if !now.node.is_empty() {
                wrong.push(("/spec/node", PLACE));
            }
            now.node = before.map(|it| it.node.clone()).unwrap_or_default();
            let gateway = before.and_then(|it| it.l2gateway.as_ref());
            let is_off = now.security.mode == SecurityMode::Off;
            let was_off = before.is_some_and(|it| it.security.mode == SecurityMode::Off);
            let has_local = before.is_some_and(|it| it.local.is_some());
            let has_provider = before.is_some_and(|it| it.provider.is_some());
            let is_other_gateway = now.l2gateway.is_some() && now.l2gateway.as_ref() != gateway;
            let is_reserved = now.local.is_some()
                || now.provider.is_some()
                || now.l2gateway.is_some()
                || now.security.mode == SecurityMode::Off;
            let moves = before.is_some_and(|it| it.switch != now.switch);
            for (path, is_new) in [
                ("/spec/switch", is_reserved && moves),
                ("/spec/local", now.local.is_some() && !has_local),
                ("/spec/provider", now.provider.is_some() && !has_provider),
                ("/spec/l2gateway", is_other_gateway),
                ("/spec/security/mode", is_off && !was_off),
            ] {
                if is_new {
                    wrong.push((path, RESERVED));
                }
            }
        }
        Object::LogicalSwitch(switch) => {
            let before = before.and_then(|it| match it {
                Object::LogicalSwitch(switch) => switch.spec.provider.as_ref(),
                _ => None,
            });
            if switch.spec.provider.as_ref() != before {
                wrong.push(("/spec/provider", JOINED));
            }
        }
        Object::LogicalRouter(router) => {
            let before = before.and_then(|it| match it {
                Object::LogicalRouter(router) => Some(&router.spec),
                _ => None,
            });
            let now = &router.spec;
            for (path, is_same) in [
                (
                    "/spec/gateway",
                    now.gateway.as_ref() == before.and_then(|it| it.gateway.as_ref()),
                ),
                ("/spec/copp", now.copp.as_ref() == before.and_then(|it| it.copp.as_ref())),
            ] {
                if !is_same {
                    wrong.push((path, OPERATORS));
                }
            }
        }
        Object::RouterPort(port) => {
            if port.spec.gateway.is_some() {
                wrong.push(("/spec/gateway", PLACE));
            }
            port.spec.gateway = before.and_then(|it| match it {
                Object::RouterPort(port) => port.spec.gateway.clone(),
                _ => None,
            });
        }
        _ => {}
    }
    wrong
}

/// What is wrong with what a tenant says beside others' objects, by those that it knows. Nothing:
/// only objects that it does not know are in the way.
pub fn told<'a>(
    tenant: &Name,
    said: Source,
    others: impl Iterator<Item = (&'a Identity, &'a Object)> + Clone,
) -> Vec<Fault> {
    let of_text = said.faults.clone();
    let mut faults = said.resolve_beside(known(tenant, others)).err().unwrap_or_default();
    faults.retain(|it| is_own(tenant, it) || of_text.contains(it));
    faults
}

/// What a tenant knows of these objects: its own, those of tenants that share theirs with it, and
/// of the operator's what its own may name.
fn known<'a>(
    tenant: &Name,
    objects: impl Iterator<Item = (&'a Identity, &'a Object)> + Clone,
) -> Vec<Object> {
    let shares = |object: &Object| match object {
        Object::Tenant(it) => it.spec.shared_with.contains(tenant) || it.metadata.name == *tenant,
        _ => false,
    };
    let tenants: BTreeSet<_> = objects
        .clone()
        .filter(|(identity, object)| identity.kind == Kind::Tenant && shares(object))
        .map(|(identity, _)| &identity.name)
        .collect();
    let is_known = |identity: &Identity| match (&identity.tenant, identity.kind) {
        (Some(owner), _) => owner == tenant || tenants.contains(owner),
        (None, Kind::Tenant) => tenants.contains(&identity.name),
        (None, Kind::TransportNode | Kind::Binding | Kind::Policy) => false,
        (None, _) => true,
    };
    let known = objects.filter(|(identity, _)| is_known(identity));
    let mut known: Vec<_> = known.map(|(_, object)| object.clone()).collect();
    known.iter_mut().for_each(hide);
    known
}

/// Whether a fault is of a tenant's own object.
fn is_own(tenant: &Name, fault: &Fault) -> bool {
    let identity: Option<Identity> = fault.object.parse().ok();
    identity.is_some_and(|it| it.tenant.as_ref() == Some(tenant))
}
