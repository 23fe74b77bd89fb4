//! What logical networks have decided, as tables: rules' hits, connections, and the last refusals.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use api::{Client, ClientError};
use model::{
    BackendState, BackendStatus, Connection, ConnectionEnds, ConnectionState, FrameCount,
    LastRefusal, MOST_CONNECTIONS, NeighbourStatus, PortName, PortStatus, RuleHits,
};
use serde::Serialize;

use crate::table::{headed, text};

/// A line for each rule.
pub fn rules(rules: &[RuleHits]) -> String {
    let mut table =
        headed(["rule", "direction", "action", "admitted", "bytes", "refused", "bytes"]);
    for RuleHits { policy, rule, direction, action, admitted, refused } in rules {
        let FrameCount { frames, bytes } = admitted;
        table.add_row([
            format!("{policy}/{rule}"),
            direction.clone(),
            action.clone(),
            frames.to_string(),
            bytes.to_string(),
            refused.frames.to_string(),
            refused.bytes.to_string(),
        ]);
    }
    text(table)
}

/// A line for each backend.
pub fn backends(all: &[BackendStatus]) -> String {
    let mut table = headed(["load balancer", "backend", "state", "checked"]);
    for BackendStatus { balancer, address, port, state, here } in all {
        let state = match state {
            BackendState::Up => "up",
            BackendState::Down => "down",
        };
        table.add_row([
            balancer.clone(),
            SocketAddr::new(*address, *port).to_string(),
            state.into(),
            if *here { "here" } else { "elsewhere" }.into(),
        ]);
    }
    text(table)
}

/// A line for each neighbour.
pub fn neighbours(all: &[NeighbourStatus]) -> String {
    let mut table = headed(["router's port", "address", "state", "mac", "waiting"]);
    for NeighbourStatus { port, address, mac, state, held } in all {
        table.add_row([
            port.clone(),
            address.to_string(),
            state.name().into(),
            mac.map_or("–".into(), |mac| mac.to_string()),
            held.to_string(),
        ]);
    }
    text(table)
}

/// A frame that was refused, and the port that it came from or was for.
#[derive(Debug, Serialize)]
pub struct Refusal {
    port: PortName,
    #[serde(flatten)]
    refusal: LastRefusal,
}

/// The last refusals of all ports, the last one first.
pub fn refusals(ports: Vec<PortStatus>) -> Vec<Refusal> {
    let of = |port: PortStatus| {
        let name = port.name;
        let last = port.logical_state.map(|it| it.last_refusals).unwrap_or_default();
        last.into_iter().map(move |refusal| Refusal { port: name.clone(), refusal })
    };
    let mut all: Vec<_> = ports.into_iter().flat_map(of).collect();
    all.sort_by_key(|it| it.refusal.ago);
    all
}

/// A line for each.
pub fn refusals_table(all: &[Refusal]) -> String {
    let mut table = headed(["ago", "port", "reason", "flow", "at", "by", "generation"]);
    for Refusal { port, refusal } in all {
        let or_dash = |word: &Option<String>| word.clone().unwrap_or_else(|| "–".into());
        table.add_row([
            refusal.ago.to_string(),
            port.to_string(),
            refusal.reason.clone(),
            or_dash(&refusal.flow),
            or_dash(&refusal.at),
            or_dash(&refusal.by),
            refusal.generation.to_string(),
        ]);
    }
    text(table)
}

/// The connections of a port, or of all logical ports of the host.
pub fn connections(
    client: &Client,
    port: Option<PortName>,
) -> Result<Vec<Connection>, ClientError> {
    let ports = match port {
        Some(port) => vec![port],
        None => {
            let all = client.ports()?.into_iter();
            let realized = |it: &PortStatus| {
                it.logical_state.as_ref().is_some_and(|state| state.realized.is_some())
            };
            all.filter(realized).map(|it| it.name).collect()
        }
    };
    let mut all = Vec::new();
    for port in ports {
        all.extend(connections_of(client, &port)?);
    }
    Ok(all)
}

/// All pages. One begins anew if the last connection of the one before is no more: then those that
/// were told are told again.
pub fn connections_of(client: &Client, port: &PortName) -> Result<Vec<Connection>, ClientError> {
    let (mut all, mut known, mut after) = (Vec::new(), BTreeSet::new(), None::<String>);
    loop {
        let page = client.connections(port, MOST_CONNECTIONS, after.as_deref())?;
        let fresh = page.connections.into_iter().filter(|it| known.insert(it.id.clone()));
        all.extend(fresh);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// A line for each.
pub fn connections_table(all: &[Connection]) -> String {
    let titles =
        ["port", "protocol", "from", "to", "translated to", "direction", "state", "left", "by"];
    let mut table = headed(titles);
    for it in all {
        let ends = |it: &ConnectionEnds| {
            let end = |address, port| SocketAddr::new(address, port).to_string();
            [end(it.source, it.source_port), end(it.destination, it.destination_port)]
        };
        let [from, to] = ends(&it.ends);
        let or_dash = |word: Option<String>| word.unwrap_or_else(|| "–".into());
        let port = it.zone.split_once('/').map_or(it.zone.as_str(), |(_, name)| name);
        table.add_row([
            port.to_owned(),
            it.protocol.clone(),
            from,
            to,
            or_dash(it.translated.as_ref().map(|it| ends(it)[1].clone())),
            it.direction.clone(),
            word(it.state).to_owned(),
            it.left.to_string(),
            or_dash(it.by.clone()),
        ]);
    }
    text(table)
}

const fn word(state: ConnectionState) -> &'static str {
    match state {
        ConnectionState::Opening => "opening",
        ConnectionState::Crossing => "crossing",
        ConnectionState::Accepting => "accepting",
        ConnectionState::Established => "established",
        ConnectionState::Closing => "closing",
        ConnectionState::TimeWait => "time wait",
        ConnectionState::Closed => "closed",
        ConnectionState::Asked => "asked",
        ConnectionState::Answered => "answered",
    }
}
