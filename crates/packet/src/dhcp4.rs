//! DHCP (RFC 2131), answered at the machine's own port from its profile.
//!
//! ```text
//! DISCOVER ─▶ OFFER
//! REQUEST  ─▶ ACK    the address is the port's
//!          ─▶ NAK    it is another
//!          ─▶ goes on, untouched: it is for another server
//! INFORM   ─▶ ACK without an address
//! ```
//!
//! The address that is lent is the port's, so there is nothing to remember: whoever declines or
//! releases it is heard, and told nothing.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use logical::objects::{AddressRange, Dhcp4};
use units::{Mac, Prefix, Span};
use wire::dhcp4::{BROADCAST, CLIENT_PORT, Header, Kind, Message, SERVER_PORT, Writer, op, option};
use zerocopy::network_endian::U16;

use crate::emit::{self, payload};
use crate::fields::Fields;

/// Who asks: a machine at its port.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The port's addresses.
    pub addresses: &'a [IpAddr],
    /// The prefixes of its switch.
    pub subnets: &'a [Prefix],
    /// The longest IP packet of its switch, if it is declared.
    pub mtu: Option<u16>,
}

/// What a machine is answered. `None`: its message is not for the network's own server, and goes
/// on. Otherwise it is taken, with what is answered, if anything.
pub fn serve(
    client: Client<'_>,
    profile: &Dhcp4,
    fields: &Fields,
    frame: &[u8],
) -> Option<Option<Vec<u8>>> {
    let ip = fields.ip?;
    if (ip.tuple.source.1, ip.tuple.destination.1) != (CLIENT_PORT, SERVER_PORT) {
        return None;
    }
    let to = ip.tuple.destination.0;
    if to != IpAddr::V4(Ipv4Addr::BROADCAST) && to != IpAddr::V4(profile.server_id) {
        return None;
    }
    let message = Message::parse(payload(frame, &ip)?)?;
    let server = message.address(option::SERVER_IDENTIFIER).map(Ipv4Addr::from);
    if message.header.op != op::REQUEST || server.is_some_and(|it| it != profile.server_id) {
        return None;
    }
    let own = || client.addresses.iter().filter_map(v4_of);
    let has = Ipv4Addr::from(message.header.ciaddr);
    let asked = message.address(option::REQUESTED_ADDRESS).map(Ipv4Addr::from);
    let asked = asked.or_else(|| Some(has).filter(|it| !it.is_unspecified()));
    let lent = own().find(|it| Some(*it) == asked).or_else(|| own().next())?;
    let answers = Answers { client, profile, message, from: fields.source, lent };
    Some(match message.kind {
        Kind::Discover => answers.make(Kind::Offer),
        Kind::Request if asked == Some(lent) => answers.make(Kind::Ack),
        Kind::Request => answers.make(Kind::Nak),
        Kind::Inform => answers.make(Kind::Ack),
        Kind::Decline | Kind::Release => None,
        Kind::Offer | Kind::Ack | Kind::Nak => return None,
    })
}

fn v4_of(address: &IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    }
}

/// What answers are made of.
struct Answers<'a> {
    client: Client<'a>,
    profile: &'a Dhcp4,
    message: Message<'a>,
    /// Who sent the frame.
    from: Mac,
    lent: Ipv4Addr,
}

impl Answers<'_> {
    fn make(&self, kind: Kind) -> Option<Vec<u8>> {
        let asked = self.message.header;
        let is_lent = kind != Kind::Nak && self.message.kind != Kind::Inform;
        let mut header = asked.reply();
        if is_lent {
            header.yiaddr = self.lent.octets();
        }
        if kind == Kind::Ack {
            header.ciaddr = asked.ciaddr;
        }
        if kind != Kind::Nak {
            header.siaddr = self.next_server().unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
        } else if asked.giaddr != [0; 4] {
            // Who is refused hears it whatever address it has (RFC 2131 §4.3.2).
            header.flags = U16::new(header.flags.get() | BROADCAST);
        }
        let size = self.message.option(option::MAXIMUM_SIZE).and_then(|it| it.as_array().copied());
        // Of the packet, with the headers of IP and UDP (RFC 2132 §9.10).
        let most = size.map_or(0, u16::from_be_bytes).saturating_sub(28).min(1472);
        let mut writer = Writer::new(&header, kind, most.into());
        writer.put(option::SERVER_IDENTIFIER, &self.profile.server_id.octets());
        if is_lent {
            self.put_times(&mut writer);
        }
        if kind != Kind::Nak {
            self.put_settings(&mut writer);
        }
        let (mac, address, port) = self.receiver(kind);
        let from = (self.profile.server_mac, self.profile.server_id.into());
        emit::datagram(((mac, address.into()), port), (from, SERVER_PORT), &writer.finish())
    }

    /// Who gets an answer: a relay; who has an address; everybody, if it cannot be helped (RFC 2131
    /// §4.1).
    fn receiver(&self, kind: Kind) -> (Mac, Ipv4Addr, u16) {
        let Header { giaddr, ciaddr, chaddr, flags, .. } = self.message.header;
        let [a, b, c, d, e, f, ..] = *chaddr;
        let mac = Mac([a, b, c, d, e, f]);
        if *giaddr != [0; 4] {
            return (self.from, Ipv4Addr::from(*giaddr), SERVER_PORT);
        }
        let wants_all = flags.get() & BROADCAST != 0 && *ciaddr == [0; 4];
        if kind == Kind::Nak || wants_all {
            return (Mac::BROADCAST, Ipv4Addr::BROADCAST, CLIENT_PORT);
        }
        let address = if *ciaddr == [0; 4] { self.lent } else { Ipv4Addr::from(*ciaddr) };
        (mac, address, CLIENT_PORT)
    }

    /// For how long the address is lent, and when to ask again (RFC 2131 §4.4.5).
    fn put_times(&self, writer: &mut Writer) {
        let seconds =
            |span: Span| u32::try_from(span.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX);
        let lease = seconds(self.profile.lease);
        // All ones are for ever, and so are half of that.
        let part = |of: u32, by: u32| if lease == u32::MAX { lease } else { lease / by * of };
        writer.put(option::LEASE_TIME, &lease.to_be_bytes());
        writer.put(option::RENEWAL_TIME, &part(1, 2).to_be_bytes());
        writer.put(option::REBINDING_TIME, &part(7, 8).to_be_bytes());
    }

    /// All else that the profile says, what matters most first.
    fn put_settings(&self, writer: &mut Writer) {
        let profile = self.profile;
        let subnet = self.client.subnets.iter();
        let subnet = subnet.copied().find(|it| AddressRange::from(*it).contains(self.lent.into()));
        writer.put(option::SUBNET_MASK, &mask(subnet.map_or(32, |it| it.length)).octets());
        // Before the default router, which who knows them overlooks (RFC 3442).
        writer.put(option::CLASSLESS_ROUTES, &routes(profile));
        writer.put(option::ROUTER, &octets(profile.router.as_slice()));
        writer.put(option::DOMAIN_NAME_SERVER, &octets(&profile.dns));
        if let Some(mtu) = profile.mtu.or(self.client.mtu) {
            writer.put(option::INTERFACE_MTU, &mtu.to_be_bytes());
        }
        for (code, text) in [
            (option::DOMAIN_NAME, &profile.domain),
            (option::TFTP_SERVER, &profile.tftp),
            (option::BOOTFILE, &profile.bootfile),
        ] {
            writer.put(code, text.as_deref().unwrap_or_default().as_bytes());
        }
        writer.put(option::NTP_SERVERS, &octets(&profile.ntp));
        writer.put(option::DOMAIN_SEARCH, &search(&profile.search));
        for (code, value) in &profile.raw {
            writer.put(*code, &value.0);
        }
    }

    fn next_server(&self) -> Option<Ipv4Addr> {
        self.profile.tftp.as_ref()?.parse().ok()
    }
}

fn octets(addresses: &[Ipv4Addr]) -> Vec<u8> {
    addresses.iter().flat_map(|it| it.octets()).collect()
}

fn mask(length: u8) -> Ipv4Addr {
    let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
    Ipv4Addr::from(!host)
}

/// Each a length, as many bytes of its prefix as count, and its router (RFC 3442).
fn routes(profile: &Dhcp4) -> Vec<u8> {
    let mut all = Vec::new();
    for route in &profile.classless_routes {
        let Prefix { address: IpAddr::V4(address), length } = route.prefix else { continue };
        all.push(length);
        all.extend(&address.octets()[..usize::from(length).div_ceil(8).min(4)]);
        all.extend(route.router.octets());
    }
    all
}

/// Names as DNS has them (RFC 1035 §3.1), which is how machines are told what to search.
pub fn search(names: &[String]) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        let labels = name.split('.').filter(|it| (1..=63).contains(&it.len()));
        for label in labels {
            all.push(label.len() as u8);
            all.extend(label.bytes());
        }
        all.push(0);
    }
    all
}
