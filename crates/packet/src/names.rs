//! Questions for names (RFC 1035), answered at the source where a zone of the switch has the name.
//!
//! ```text
//! a zone has the name, and what is asked of it ─▶ the records
//!                      and not what is asked   ─▶ no error, no record (NODATA, RFC 2308 §2.2)
//! no zone has it ─ all zones forward           ─▶ the question goes on
//!                ─ one does not                ─▶ there is no such name (NXDOMAIN)
//! ```

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use logical::topology::{Record, Zone};
use simple_dns::rdata::{A, AAAA, PTR, RData};
use simple_dns::{
    CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE,
};

use crate::emit::{self, payload};
use crate::fields::Fields;

/// Where names are asked for.
pub const PORT: u16 = 53;

/// What a message over UDP is no longer than, unless it is asked to be (RFC 1035 §2.3.4).
const MOST: usize = 512;

/// What a machine is answered, by a zone of the switch. `None`: its question goes on.
pub fn serve<'z>(
    zones: impl Iterator<Item = &'z Zone> + Clone,
    fields: &Fields,
    frame: &[u8],
) -> Option<(Vec<u8>, &'z Zone)> {
    let ip = fields.ip?;
    let (source, destination) = (ip.tuple.source, ip.tuple.destination);
    let is_one = !fields.destination.is_multicast() && !source.0.is_unspecified();
    if destination.1 != PORT || !is_one {
        return None;
    }
    let question = payload(frame, &ip)?;
    // One question and nothing else but an OPT record. Others' counts are no reason to set memory
    // aside.
    let counts = question.get(4..12)?;
    let is_plain = matches!(counts, [0, 1, 0, 0, 0, 0, 0, 0 | 1]);
    let asked = Packet::parse(question).ok().filter(|_| is_plain)?;
    let (answer, zone) = answer(zones, &asked)?;
    let room = asked.opt().map_or(MOST, |it| usize::from(it.udp_packet_size).clamp(MOST, 1232));
    let bytes = written(answer, room)?;
    let (to, from) = ((fields.source, source.0), (fields.destination, destination.0));
    let made = emit::datagram((to, source.1), (from, destination.1), &bytes)?;
    Some((made, zone))
}

fn answer<'z, 'a>(
    zones: impl Iterator<Item = &'z Zone> + Clone,
    asked: &Packet<'a>,
) -> Option<(Packet<'a>, &'z Zone)>
where
    'z: 'a,
{
    let is_query =
        !asked.has_flags(PacketFlag::RESPONSE) && asked.opcode() == OPCODE::StandardQuery;
    let question = asked.questions.first().filter(|_| is_query)?;
    if !matches!(question.qclass, QCLASS::CLASS(CLASS::IN) | QCLASS::ANY) {
        return None;
    }
    let name: String = question.qname.to_string().to_ascii_lowercase();
    let found = zones.clone().find_map(|zone| Some((zone, zone.records.get(&name)?)));
    let mut answer = Packet::new_reply(asked.id());
    answer.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
    if asked.has_flags(PacketFlag::RECURSION_DESIRED) {
        answer.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
    }
    answer.questions.push(question.clone());
    let Some((zone, records)) = found else {
        let zone = zones.clone().find(|zone| !zone.forward)?;
        *answer.rcode_mut() = RCODE::NameError;
        return Some((answer, zone));
    };
    let wants = |kind: TYPE| question.qtype == QTYPE::ANY || question.qtype == QTYPE::TYPE(kind);
    for record in records {
        let data = match record {
            Record::Address(core::net::IpAddr::V4(it)) if wants(TYPE::A) => {
                RData::A(A { address: it.to_bits() })
            }
            Record::Address(core::net::IpAddr::V6(it)) if wants(TYPE::AAAA) => {
                RData::AAAA(AAAA { address: it.to_bits() })
            }
            Record::Name(name) if wants(TYPE::PTR) => RData::PTR(PTR(Name::new(name).ok()?)),
            _ => continue,
        };
        let (name, ttl) = (question.qname.clone(), zone.ttl);
        answer.answers.push(ResourceRecord::new(name, CLASS::IN, ttl, data));
    }
    Some((answer, zone))
}

/// The message as bytes; without its records, and with the mark of that, where it is too long (RFC
/// 2181 §9).
fn written(mut answer: Packet<'_>, room: usize) -> Option<Vec<u8>> {
    let bytes = answer.build_bytes_vec_compressed().ok()?;
    if bytes.len() <= room {
        return Some(bytes);
    }
    answer.answers.clear();
    answer.set_flags(PacketFlag::TRUNCATION);
    answer.build_bytes_vec_compressed().ok()
}
