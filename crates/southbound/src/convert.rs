//! Messages to what they mean, and back.

use model::Generation;
use prost::bytes::Bytes;
use replica::{Chunk, Digest, Known, Name, Part, Reason, Reply, Store, ToAgent};

use crate::proto;
use crate::proto::{from_agent, from_controller};

/// The most bytes of a sentence that says why an agent does not take an update.
const LONGEST_WHY: usize = 1000;

/// A message that says what none may say.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("cannot read a message: {0}; use the protocol's version that the other end speaks")]
pub struct Malformed(pub &'static str);

/// Sixteen bytes as a number.
pub fn number(bytes: &[u8], what: &'static str) -> Result<u128, Malformed> {
    bytes.try_into().map(u128::from_be_bytes).map_err(|_| Malformed(what))
}

/// The name of a store.
pub fn store(bytes: &[u8]) -> Result<Store, Malformed> {
    number(bytes, "a store's name has 16 bytes").map(Store)
}

fn digest(bytes: &[u8]) -> Result<Digest, Malformed> {
    number(bytes, "a digest has 16 bytes").map(Digest)
}

/// A domain that an agent has, and as what.
pub fn known(known: &proto::Known) -> Result<(Name, Option<Known>), Malformed> {
    let proto::Known { domain, generation, digest: sum } = known;
    let known = Known { generation: Generation(*generation), digest: digest(sum)? };
    Ok((domain.as_str().into(), Some(known).filter(|it| it.generation > Generation(0))))
}

impl From<(&Name, Option<Known>)> for proto::Known {
    fn from((domain, known): (&Name, Option<Known>)) -> Self {
        let Known { generation, digest } =
            known.unwrap_or(Known { generation: Generation(0), digest: Digest::default() });
        let digest = digest.0.to_be_bytes().to_vec();
        Self { domain: domain.to_string(), generation: generation.0, digest }
    }
}

impl From<&ToAgent> for from_controller::Message {
    fn from(message: &ToAgent) -> Self {
        match message {
            ToAgent::Part(part) => Self::Part(part.into()),
            ToAgent::Drop(domain) => Self::Drop(proto::Drop { domain: domain.to_string() }),
            ToAgent::Mark(revision) => Self::Mark(proto::Mark { revision: revision.0 }),
            ToAgent::Compare(domain, known) => Self::Compare((domain, Some(*known)).into()),
        }
    }
}

impl From<&Part> for proto::Part {
    fn from(part: &Part) -> Self {
        let Chunk { domain, from, to, len, at, bytes } = Chunk::from(part);
        Self {
            domain: domain.to_string(),
            from: from.0,
            to: to.generation.0,
            digest: to.digest.0.to_be_bytes().to_vec(),
            length: len as u64,
            at: at as u64,
            bytes: Bytes::from_owner(part.update.body.clone()).slice(at..at + bytes.len()),
        }
    }
}

/// A part as it has come, of a domain with this name.
pub fn chunk<'a>(part: &'a proto::Part, domain: &'a Name) -> Result<Chunk<'a>, Malformed> {
    let to = Known { generation: Generation(part.to), digest: digest(&part.digest)? };
    let place = |place: u64| usize::try_from(place).map_err(|_| Malformed("a length is too long"));
    let (len, at) = (place(part.length)?, place(part.at)?);
    Ok(Chunk { domain, from: Generation(part.from), to, len, at, bytes: &part.bytes })
}

impl From<Reply> for from_agent::Message {
    fn from(reply: Reply) -> Self {
        let (domain, generation, reason) = match reply {
            Reply::Ack(domain, generation) => {
                let domain = domain.to_string();
                return Self::Ack(proto::Ack { domain, generation: generation.0 });
            }
            Reply::Nack(domain, generation, reason) => (domain, generation, reason),
            Reply::Differs(domain, generation) => {
                let domain = domain.to_string();
                return Self::Differs(proto::Differs { domain, generation: generation.0 });
            }
        };
        let (reason, why) = match reason {
            Reason::Base => (proto::Reason::Base, String::new()),
            Reason::Digest => (proto::Reason::Digest, String::new()),
            Reason::Malformed => (proto::Reason::Malformed, String::new()),
            Reason::Older => (proto::Reason::Older, String::new()),
            Reason::TooLarge => (proto::Reason::TooLarge, String::new()),
            Reason::Refused(why) => (proto::Reason::Refused, shortened(why)),
        };
        let (domain, generation) = (domain.to_string(), generation.0);
        Self::Nack(proto::Nack { domain, generation, reason: reason.into(), why })
    }
}

/// A sentence of at most [`LONGEST_WHY`] bytes.
fn shortened(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(LONGEST_WHY));
    why
}

/// An agent's answer.
pub fn nack(nack: proto::Nack) -> Result<Reply, Malformed> {
    let why = nack.why;
    if why.len() > LONGEST_WHY {
        return Err(Malformed("a reason is too long"));
    }
    let reason = match proto::Reason::try_from(nack.reason) {
        Ok(proto::Reason::Base) => Reason::Base,
        Ok(proto::Reason::Digest) => Reason::Digest,
        Ok(proto::Reason::Malformed) => Reason::Malformed,
        Ok(proto::Reason::Older) => Reason::Older,
        Ok(proto::Reason::TooLarge) => Reason::TooLarge,
        Ok(proto::Reason::Refused) => Reason::Refused(why),
        Ok(proto::Reason::Unspecified) | Err(_) => {
            return Err(Malformed("a refusal has no reason"));
        }
    };
    Ok(Reply::Nack(nack.domain.into(), Generation(nack.generation), reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_are_written() {
        let refused = Reason::Refused("no room".into());
        let all =
            [Reason::Base, Reason::Digest, Reason::Malformed, Reason::Older, Reason::TooLarge];
        for reason in all.into_iter().chain([refused]) {
            let reply = Reply::Nack("d".into(), Generation(7), reason);
            let from_agent::Message::Nack(written) = reply.clone().into() else { panic!() };
            assert_eq!(nack(written), Ok(reply));
        }
        let long = Reply::Nack("d".into(), Generation(7), Reason::Refused("ä".repeat(LONGEST_WHY)));
        let from_agent::Message::Nack(written) = long.into() else { panic!() };
        assert!(nack(written.clone()).is_ok());
        let none = proto::Nack { reason: 0, ..written.clone() };
        assert!(nack(none).is_err());
        assert!(nack(proto::Nack { why: "a".repeat(LONGEST_WHY + 1), ..written }).is_err());
    }
}
