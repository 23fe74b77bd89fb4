//! The connections that are followed for a logical port, some at a time.

use conntrack::{Id, Phase, Tuple};
use logical::objects::{Direction, Identity};
use model::{Connection, ConnectionEnds, ConnectionState, ConnectionsPage, PortName};
use pipeline::Followed;
use units::Span;
use wire::ip::protocol;

use super::Host;
use super::packet::PacketTraceError;
use crate::logical::identity;

/// Which connections are asked for.
pub(crate) struct ConnectionsAsked {
    /// Of which port: the host's, or a logical one.
    pub port: PortName,
    /// How many at most.
    pub limit: u32,
    /// Behind which.
    pub after: Option<Id>,
}

impl ConnectionsAsked {
    /// A connection, as pages name it.
    pub fn read_id(text: &str) -> Option<Id> {
        let (place, life) = text.split_once('-')?;
        Some(Id::of_parts((place.parse().ok()?, life.parse().ok()?)))
    }
}

fn id_text(id: Id) -> String {
    let (place, life) = id.parts();
    format!("{place}-{life}")
}

fn ends(tuple: Tuple) -> ConnectionEnds {
    let [(source, source_port), (destination, destination_port)] =
        [tuple.source(), tuple.destination()];
    ConnectionEnds { source, source_port, destination, destination_port }
}

fn protocol_text(number: u8) -> String {
    match number {
        protocol::TCP => "tcp".into(),
        protocol::UDP => "udp".into(),
        132 => "sctp".into(),
        protocol::ICMP => "icmp".into(),
        protocol::ICMPV6 => "icmp6".into(),
        other => other.to_string(),
    }
}

const fn state(phase: Phase, is_answered: bool) -> ConnectionState {
    match phase {
        Phase::Opening => ConnectionState::Opening,
        Phase::Crossing => ConnectionState::Crossing,
        Phase::Accepting => ConnectionState::Accepting,
        Phase::Established => ConnectionState::Established,
        Phase::Closing => ConnectionState::Closing,
        Phase::TimeWait => ConnectionState::TimeWait,
        Phase::Closed => ConnectionState::Closed,
        Phase::Udp | Phase::Names | Phase::Echo | Phase::Other if is_answered => {
            ConnectionState::Answered
        }
        Phase::Udp | Phase::Names | Phase::Echo | Phase::Other => ConnectionState::Asked,
    }
}

fn told(zone: &Identity, it: Followed<'_>) -> Connection {
    let Followed { connection, opened, origin, rule } = it;
    let translated = connection.reply.reversed();
    Connection {
        id: id_text(connection.id),
        zone: zone.to_string(),
        protocol: protocol_text(connection.original.protocol()),
        ends: ends(connection.original),
        translated: (translated != connection.original).then(|| ends(translated)),
        direction: match opened {
            Direction::FromPort => "fromPort".into(),
            Direction::ToPort => "toPort".into(),
        },
        state: state(connection.phase, connection.flags.is_answered()),
        origin: origin.map(ToString::to_string),
        by: rule.map(ToString::to_string),
        left: Span::from_secs(connection.left.as_nanos() / 1_000_000_000),
        loose: connection.flags.is_loose(),
    }
}

impl Host {
    /// Some of a logical port's connections.
    ///
    /// # Errors
    ///
    /// [`PacketTraceError`]: there is no such port.
    pub(crate) fn connections(
        &self,
        asked: &ConnectionsAsked,
    ) -> Result<ConnectionsPage, PacketTraceError> {
        let name = self.logical_name(&asked.port)?;
        let networks = self.plane.logical().zip(identity(&name));
        let Some((networks, id)) = networks.filter(|(it, id)| it.is_here(id)) else {
            return Err(PacketTraceError::NotHere(name));
        };
        if networks.rows_of(&id).is_none() {
            return Err(PacketTraceError::NotRealized(name));
        }
        let mut all = networks.followed(&id, asked.after, self.now()).peekable();
        let limit = asked.limit as usize;
        let connections: Vec<_> = all.by_ref().take(limit).map(|it| told(&id, it)).collect();
        let next = all.peek().and(connections.last()).map(|it| it.id.clone());
        Ok(ConnectionsPage { connections, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pages_call_a_connection_is_read_again() {
        let id = Id::of_parts((17, 3));
        assert_eq!(id_text(id), "17-3");
        assert_eq!(ConnectionsAsked::read_id("17-3"), Some(id));
        for text in ["", "17", "17-", "-3", "17-3-1", "a-b", "4294967296-0"] {
            assert_eq!(ConnectionsAsked::read_id(text), None, "{text}");
        }
    }
}
