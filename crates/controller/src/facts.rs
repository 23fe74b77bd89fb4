//! What is so of objects beside conditions: how many there are of what they have, and where.
//!
//! Tenants are told numbers. On which hosts something is, and the names of domains, which may be
//! another tenant's, are for who may know hosts.

use logical::objects::{Identity, Kind, Status, Used};

use crate::counts::{MEMBERS, PORTS, SIZE};
use crate::progress::Progress;

/// Adds to what is so of an object what is known of it.
pub fn add(status: &mut Status, id: &Identity, progress: &Progress, names_hosts: bool) {
    let count = |what| Some(progress.count(id, what));
    match id.kind {
        Kind::Tenant => status.used = Some(used(id, progress)),
        Kind::LogicalSwitch => status.ports = count(PORTS),
        Kind::PortGroup => status.members = count(MEMBERS),
        Kind::AddressSet => status.size = count(SIZE),
        Kind::LogicalPort if names_hosts => status.nodes = nodes(id, progress),
        Kind::TransportNode => reached(status, id, progress),
        _ => {}
    }
    if names_hosts && matches!(id.kind, Kind::LogicalSwitch | Kind::LogicalRouter) {
        status.domain = progress.domain(id).map(|it| it.to_string());
    }
}

/// What of its quota a tenant has used.
fn used(tenant: &Identity, progress: &Progress) -> Used {
    let count = |what| progress.count(tenant, what);
    Used {
        ports: count(PORTS),
        switches: count("switches"),
        routers: count("routers"),
        rules: count("rules"),
        set_members: count("setMembers"),
        nat_entries: count("natEntries"),
    }
}

/// The nodes that have a machine's port.
fn nodes(port: &Identity, progress: &Progress) -> Vec<String> {
    let tenant = port.tenant.as_ref().map_or("", |it| it.as_str());
    let holding = progress.publisher().holding(&format!("{tenant}/{}", port.name));
    holding.into_iter().flat_map(|it| it.holders).map(|it| it.to_string()).collect()
}

/// How far a node is.
fn reached(status: &mut Status, node: &Identity, progress: &Progress) {
    let reached = progress.publisher().node(node.name.as_str());
    status.connected = Some(reached.as_ref().is_some_and(|(_, it)| it.is_connected));
    if let Some((told, it)) = reached {
        let lag = told.0.saturating_sub(it.until.0);
        status.lag = Some(lag);
        // Of a node that is not behind, each revision would be news.
        status.executes = (lag > 0).then_some(it.until.0);
    }
}
