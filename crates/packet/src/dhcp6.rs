//! DHCP for IPv6 (RFC 8415), answered at the machine's own port from its profile.
//!
//! The addresses that are lent are the port's, and so is whoever asks: no identifier of a machine
//! is remembered. A machine that asks for more than one group of addresses has them all in the
//! first.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use logical::objects::{Dhcp6, Dhcp6Mode};
use wire::dhcp6::{
    ALL_SERVERS, CLIENT_PORT, FOR_EVER, Message, Options, SERVER_PORT, Status, identifier, kind,
    option, put,
};
use wire::neighbor::link_local;

use crate::dhcp4::search;
use crate::emit::{self, payload};
use crate::fields::Fields;

/// What a machine at a port with these addresses is answered. `None`: its message is not for the
/// network's own server, and goes on. Otherwise it is taken, with what is answered, if anything.
pub fn serve(
    addresses: &[IpAddr],
    profile: &Dhcp6,
    fields: &Fields,
    frame: &[u8],
) -> Option<Option<Vec<u8>>> {
    let ip = fields.ip?;
    let ports = (ip.tuple.source.1, ip.tuple.destination.1);
    if ports != (CLIENT_PORT, SERVER_PORT) || ip.tuple.destination.0 != IpAddr::V6(ALL_SERVERS) {
        return None;
    }
    let message = Message::parse(payload(frame, &ip)?)?;
    let own = identifier(profile.server_duid_mac);
    let server = message.options.get(option::SERVER_ID);
    if server.is_some_and(|it| it != own) {
        return None;
    }
    let answer = Answers { addresses, profile, message }.make(server.is_some());
    Some(answer.and_then(|answer| {
        let from = link_local(profile.server_duid_mac);
        let from = ((profile.server_duid_mac, from.into()), SERVER_PORT);
        let to = ((fields.source, ip.tuple.source.0), CLIENT_PORT);
        emit::datagram(to, from, &answer)
    }))
}

/// What answers are made of.
struct Answers<'a> {
    addresses: &'a [IpAddr],
    profile: &'a Dhcp6,
    message: Message<'a>,
}

impl Answers<'_> {
    /// The answer, if the message may have one (§16). `names_us`: it names this server.
    fn make(&self, names_us: bool) -> Option<Vec<u8>> {
        let options = self.message.options;
        let client = options.get(option::CLIENT_ID);
        let is_rapid = self.profile.rapid_commit && options.get(option::RAPID_COMMIT).is_some();
        let asks_all = matches!(self.message.kind, kind::SOLICIT | kind::CONFIRM | kind::REBIND);
        let asks_us = matches!(
            self.message.kind,
            kind::REQUEST | kind::RENEW | kind::RELEASE | kind::DECLINE
        );
        let informs = self.message.kind == kind::INFORMATION_REQUEST;
        let is_valid = match (asks_all, asks_us, informs) {
            (true, ..) => !names_us && client.is_some(),
            (_, true, _) => names_us && client.is_some(),
            (.., true) => [option::IA_NA, option::IA_TA, option::IA_PD]
                .iter()
                .all(|it| options.get(*it).is_none()),
            _ => false,
        };
        if !is_valid {
            return None;
        }
        let is_offer = self.message.kind == kind::SOLICIT && !is_rapid;
        let kind = if is_offer { kind::ADVERTISE } else { kind::REPLY };
        let mut answer = alloc::vec![kind];
        answer.extend(self.message.transaction);
        put(&mut answer, option::SERVER_ID, &identifier(self.profile.server_duid_mac));
        client.into_iter().for_each(|it| put(&mut answer, option::CLIENT_ID, it));
        match self.message.kind {
            kind::CONFIRM => {
                // Who names no address is not answered (§18.3.3).
                let mut named = addresses(options).peekable();
                named.peek()?;
                let all = named.all(|it| self.addresses.contains(&it.into()));
                put_status(&mut answer, if all { Status::Success } else { Status::NotOnLink });
            }
            kind::RELEASE | kind::DECLINE => put_status(&mut answer, Status::Success),
            kind::INFORMATION_REQUEST => {}
            kind => {
                if kind == kind::SOLICIT && is_rapid {
                    put(&mut answer, option::RAPID_COMMIT, &[]);
                }
                self.put_groups(&mut answer);
            }
        }
        if !matches!(self.message.kind, kind::CONFIRM | kind::RELEASE | kind::DECLINE) {
            let dns: Vec<_> = self.profile.dns.iter().flat_map(|it| it.octets()).collect();
            for (code, value) in
                [(option::DNS_SERVERS, dns), (option::DOMAIN_SEARCH, search(&self.profile.search))]
            {
                if !value.is_empty() {
                    put(&mut answer, code, &value);
                }
            }
        }
        Some(answer)
    }

    /// The addresses that are lent: none where the profile tells only the rest.
    fn lent(&self) -> impl Iterator<Item = Ipv6Addr> {
        let is_lent = self.profile.mode == Dhcp6Mode::Stateful;
        self.addresses.iter().filter(move |_| is_lent).filter_map(|it| match it {
            IpAddr::V6(it) if !it.is_unicast_link_local() => Some(*it),
            _ => None,
        })
    }

    /// An answer to each group of addresses, or of prefixes, that is asked for.
    fn put_groups(&self, answer: &mut Vec<u8>) {
        let lifetime = self.profile.lease.map_or(FOR_EVER, |it| {
            u32::try_from(it.as_nanos() / 1_000_000_000).unwrap_or(FOR_EVER)
        });
        // When to ask again (§14.2).
        let part = |of: u32| match lifetime {
            FOR_EVER => FOR_EVER,
            seconds => seconds / 10 * of,
        };
        let mut is_first = true;
        for (code, value) in self.message.options.iter() {
            let Some((name, within)) = value.split_first_chunk::<4>() else { continue };
            let mut group = name.to_vec();
            match code {
                option::IA_NA if is_first && self.lent().next().is_some() => {
                    is_first = false;
                    group.extend(part(5).to_be_bytes());
                    group.extend(part(8).to_be_bytes());
                    self.lent().for_each(|it| put_address(&mut group, it, lifetime));
                    // What it has and may not keep ends at once (§18.3.4).
                    let others = Options(within.get(8..).unwrap_or_default());
                    let others = in_group(others).filter(|it| self.lent().all(|own| own != *it));
                    others.for_each(|it| put_address(&mut group, it, 0));
                }
                option::IA_NA | option::IA_TA | option::IA_PD => {
                    let status = match code {
                        option::IA_PD => Status::NoPrefixAvail,
                        _ => Status::NoAddrsAvail,
                    };
                    if code != option::IA_TA {
                        group.extend([0; 8]);
                    }
                    put_status(&mut group, status);
                }
                _ => continue,
            }
            put(answer, code, &group);
        }
    }
}

/// Every address that a message names in its groups.
fn addresses(options: Options<'_>) -> impl Iterator<Item = Ipv6Addr> {
    let groups = options.iter().filter_map(|(code, value)| match code {
        option::IA_NA => value.get(12..),
        option::IA_TA => value.get(4..),
        _ => None,
    });
    groups.flat_map(|it| in_group(Options(it)))
}

fn in_group(options: Options<'_>) -> impl Iterator<Item = Ipv6Addr> {
    let named = options.iter().filter(|(code, _)| *code == option::IA_ADDRESS);
    named.filter_map(|(_, value)| value.first_chunk::<16>().map(|it| Ipv6Addr::from(*it)))
}

fn put_address(group: &mut Vec<u8>, address: Ipv6Addr, lifetime: u32) {
    let mut value = address.octets().to_vec();
    // Preferred, and valid.
    value.extend(lifetime.to_be_bytes());
    value.extend(lifetime.to_be_bytes());
    put(group, option::IA_ADDRESS, &value);
}

fn put_status(answer: &mut Vec<u8>, status: Status) {
    put(answer, option::STATUS, &(status as u16).to_be_bytes());
}
