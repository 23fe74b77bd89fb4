//! What the network serves to machines at their own ports.

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use wire::dhcp4::{self, Kind, Message, Writer, option};
use wire::dhcp6;
use zerocopy::FromZeros;

use super::*;
use packet::emit;

const SERVER: Mac = Mac([2, 0, 0, 0, 0, 0x53]);

/// What `a` has besides: profiles, and names.
const PROFILES: &str = "\
- {kind: DhcpProfile, metadata: {name: d, tenant: t}, spec: {v4: {serverId: 10.1.0.253, serverMac: '02:00:00:00:00:53', router: 10.1.0.254, lease: 3600s, dns: [10.1.0.53, 10.1.0.54], domain: shop.internal, search: [a.example, example], mtu: 1400, classlessRoutes: [{prefix: 10.9.0.0/20, router: 10.1.0.9}], ntp: [10.1.0.123], tftp: 10.1.0.69, bootfile: boot.img, raw: {'224': '0a0b'}},
  v6: {serverDuidMac: '02:00:00:00:00:53', dns: ['fd01::53'], search: [example], rapidCommit: true, lease: 1000s}}}
- {kind: DnsZone, metadata: {name: z, tenant: t}, spec: {records: {Web.Shop.internal: [10.1.0.2, 10.1.0.3], six.shop.internal: ['fd01::2'], 2.0.1.10.in-addr.arpa: [web.shop.internal]}, ttl: 30}}
";

fn net(more: &str) -> Net {
    let text = WORLD
        .replace("spec: {subnets: [10.1.0.0/24, fd01::/64]}", "spec: {subnets: [10.1.0.0/24, fd01::/64], dns: [z]}")
        .replace("addresses: [10.1.0.1, 'fd01::1']", "addresses: [10.1.0.1, 'fd01::1'], dhcp4: d, dhcp6: d")
        .replace("addresses: [10.1.0.254/24, 'fd01::fe/64']", "addresses: [10.1.0.254/24, 'fd01::fe/64'], ra6: {mode: stateless, rdnss: ['fd01::53'], dnssl: [example]}");
    of_text(&[&text[..], PROFILES, more].concat())
}

fn of_text(text: &str) -> Net {
    let topology = logical::load(text).unwrap_or_else(|faults| panic!("{faults:#?}"));
    Net { topology, ..Net::new("") }
}

/// A machine's message, and where it goes.
struct Asks {
    kind: Kind,
    to: (Mac, &'static str),
    from: &'static str,
    flags: u16,
    ciaddr: &'static str,
    giaddr: &'static str,
    options: Vec<(u8, Vec<u8>)>,
}

fn asks(kind: Kind) -> Asks {
    let to = (Mac::BROADCAST, "255.255.255.255");
    let (from, ciaddr, giaddr) = ("0.0.0.0", "0.0.0.0", "0.0.0.0");
    Asks { kind, to, from, flags: 0, ciaddr, giaddr, options: Vec::new() }
}

impl Asks {
    fn with(mut self, code: u8, value: &[u8]) -> Self {
        self.options.push((code, value.to_vec()));
        self
    }

    fn requested(self, address: &str) -> Self {
        self.with(option::REQUESTED_ADDRESS, &v4(address).octets())
    }

    fn of_server(self, address: &str) -> Self {
        self.with(option::SERVER_IDENTIFIER, &v4(address).octets())
    }

    fn message(&self) -> Vec<u8> {
        let mut header = dhcp4::Header::new_zeroed();
        (header.op, header.htype, header.hlen) = (dhcp4::op::REQUEST, 1, 6);
        header.xid.set(0x1234_5678);
        header.flags.set(self.flags);
        header.ciaddr = v4(self.ciaddr).octets();
        header.giaddr = v4(self.giaddr).octets();
        header.chaddr[..6].copy_from_slice(&A.0);
        let mut writer = Writer::new(&header, self.kind, 0);
        self.options.iter().for_each(|(code, value)| writer.put(*code, value));
        let mut bytes = writer.finish();
        bytes[236..240].copy_from_slice(&[99, 130, 83, 99]);
        bytes
    }

    fn frame(&self) -> Vec<u8> {
        let to = ((self.to.0, v4(self.to.1).into()), 67);
        emit::datagram(to, ((A, v4(self.from).into()), 68), &self.message()).unwrap()
    }
}

/// What `a` is answered: its frame, and the message.
#[track_caller]
fn answered(net: &mut Net, asks: &Asks) -> Vec<u8> {
    net.refuses("a", &asks.frame(), Reason::Answered).unwrap()
}

fn message(frame: &[u8]) -> Message<'_> {
    Message::parse(emit::payload(frame, &ip(frame)).unwrap()).unwrap()
}

#[track_caller]
fn is_nak(frame: &[u8]) {
    assert_eq!(message(frame).kind, Kind::Nak);
    assert_eq!(message(frame).header.yiaddr, [0; 4]);
    assert_eq!(ip(frame).tuple.destination.0, v4("255.255.255.255"));
}

#[test]
fn a_machine_is_lent_its_ports_address_with_all_that_the_profile_says() {
    let mut net = net("");
    let offer = answered(&mut net, &asks(Kind::Discover));
    let told = message(&offer);
    assert_eq!((told.kind, told.header.yiaddr), (Kind::Offer, [10, 1, 0, 1]));
    assert_eq!(told.header.xid.get(), 0x1234_5678);
    assert_eq!(&offer[..12], [A.0, SERVER.0].concat());
    assert_eq!(ip(&offer).tuple.source, (v4("10.1.0.253").into(), 67));
    assert_eq!(ip(&offer).tuple.destination, (v4("10.1.0.1").into(), 68));
    let ask = asks(Kind::Request).of_server("10.1.0.253").requested("10.1.0.1");
    let ack = answered(&mut net, &ask);
    let told = message(&ack);
    assert_eq!((told.kind, told.header.yiaddr), (Kind::Ack, [10, 1, 0, 1]));
    for (code, value) in [
        (option::SERVER_IDENTIFIER, &[10, 1, 0, 253][..]),
        (option::SUBNET_MASK, &[255, 255, 255, 0]),
        (option::ROUTER, &[10, 1, 0, 254]),
        (option::DOMAIN_NAME_SERVER, &[10, 1, 0, 53, 10, 1, 0, 54]),
        (option::DOMAIN_NAME, b"shop.internal"),
        (option::DOMAIN_SEARCH, b"\x01a\x07example\x00\x07example\x00"),
        (option::INTERFACE_MTU, &[5, 0x78]),
        (option::CLASSLESS_ROUTES, &[20, 10, 9, 0, 10, 1, 0, 9]),
        (option::LEASE_TIME, &3600u32.to_be_bytes()),
        (option::RENEWAL_TIME, &1800u32.to_be_bytes()),
        (option::REBINDING_TIME, &3150u32.to_be_bytes()),
        (option::NTP_SERVERS, &[10, 1, 0, 123]),
        (option::TFTP_SERVER, b"10.1.0.69"),
        (option::BOOTFILE, b"boot.img"),
        (224, &[10, 11]),
    ] {
        assert_eq!(told.option(code), Some(value), "option {code}");
    }
    assert_eq!(told.header.siaddr, [10, 1, 0, 69]);
}

#[test]
fn a_wrong_address_is_refused_and_another_servers_client_left_alone() {
    let mut net = net("");
    // Selecting, and starting again, with an address that is another's.
    is_nak(&answered(&mut net, &asks(Kind::Request).of_server("10.1.0.253").requested("10.1.0.9")));
    is_nak(&answered(&mut net, &asks(Kind::Request).requested("10.1.0.9")));
    is_nak(&answered(&mut net, &asks(Kind::Request)));
    let renew = Asks { ciaddr: "10.1.0.1", from: "10.1.0.1", ..asks(Kind::Request) };
    assert_eq!(message(&answered(&mut net, &renew)).kind, Kind::Ack);
    // To another server, named or addressed.
    let other = asks(Kind::Request).of_server("10.1.0.2").requested("10.1.0.9");
    let decision = net.send("a", &other.frame());
    assert_eq!((decision.answers.len(), decision.delivered.len()), (0, 1));
    let unicast = Asks { to: (B, "10.1.0.2"), ..renew };
    net.gets("a", &unicast.frame(), "b");
}

#[test]
fn renewals_go_straight_back_and_relays_have_theirs() {
    let mut net = net("");
    let renew = Asks {
        ciaddr: "10.1.0.1",
        from: "10.1.0.1",
        to: (SERVER, "10.1.0.253"),
        ..asks(Kind::Request)
    };
    let ack = answered(&mut net, &renew);
    assert_eq!(message(&ack).header.ciaddr, [10, 1, 0, 1]);
    assert_eq!(ip(&ack).tuple.destination.0, v4("10.1.0.1"));
    assert_eq!(&ack[..6], A.0);
    let broadcast = Asks { flags: dhcp4::BROADCAST, ..asks(Kind::Discover) };
    let offer = answered(&mut net, &broadcast);
    assert_eq!(&offer[..6], Mac::BROADCAST.0);
    assert_eq!(message(&offer).header.flags.get(), dhcp4::BROADCAST);
    let relayed = Asks { giaddr: "10.5.0.1", ..asks(Kind::Discover) };
    let offer = answered(&mut net, &relayed);
    assert_eq!(ip(&offer).tuple.destination, (v4("10.5.0.1").into(), 67));
}

#[test]
fn who_informs_itself_is_lent_nothing_and_who_leaves_is_heard() {
    let mut net = net("");
    let inform = Asks { ciaddr: "10.1.0.1", from: "10.1.0.1", ..asks(Kind::Inform) };
    let ack = answered(&mut net, &inform);
    let told = message(&ack);
    assert_eq!((told.kind, told.header.yiaddr), (Kind::Ack, [0; 4]));
    assert_eq!(told.option(option::LEASE_TIME), None);
    assert!(told.option(option::ROUTER).is_some());
    let leaves = Asks {
        ciaddr: "10.1.0.1",
        from: "10.1.0.1",
        to: (SERVER, "10.1.0.253"),
        ..asks(Kind::Release).of_server("10.1.0.253")
    };
    net.silently_refuses("a", &leaves.frame(), Reason::Answered);
    let declines = asks(Kind::Decline).of_server("10.1.0.253").requested("10.1.0.1");
    net.silently_refuses("a", &declines.frame(), Reason::Answered);
}

#[test]
fn a_short_message_is_300_bytes_and_a_long_one_what_its_receiver_takes() {
    let mut net = net("");
    let offer = answered(&mut net, &asks(Kind::Request).requested("10.1.0.9"));
    assert_eq!(ip(&offer).length(), 20 + 8 + 300);
    let long = PROFILES.replace(
        "raw: {'224': '0a0b'}",
        &format!("raw: {{'224': '{0}', '225': '{0}', '226': '{0}'}}", "07".repeat(200)),
    );
    let text = WORLD.replace("addresses: [10.1.0.1, 'fd01::1']", "addresses: [10.1.0.1], dhcp4: d");
    let mut net = of_text(&[text, long].concat());
    assert!(ip(&answered(&mut net, &asks(Kind::Discover))).length() <= 576);
    let wide = asks(Kind::Discover).with(option::MAXIMUM_SIZE, &1500u16.to_be_bytes());
    let offer = answered(&mut net, &wide);
    assert!(message(&offer).option(226).is_some());
}

#[test]
fn the_networks_own_dhcp_needs_no_rule_and_damaged_questions_are_no_questions() {
    let closed = with_policy("a", "defaultAction: drop,", "");
    let mut net = net(&closed);
    answered(&mut net, &asks(Kind::Discover));
    let mut damaged = asks(Kind::Discover).frame();
    damaged[50] ^= 1;
    let arrival = Arrival { port: net.port("a"), node: None, frame: &damaged };
    assert_eq!(decide(&net.topology, &net.state, net.now, arrival).answers, []);
    // The server's address is answered for, to those that it serves.
    let ask = arp::Frame::request((A, v4("10.1.0.1")), v4("10.1.0.253"));
    let answer = net.refuses("a", ask.as_bytes(), Reason::Answered).unwrap();
    assert_eq!(arp::Packet::parse(&answer).unwrap().sender, SERVER.0);
    let ask = arp::Frame::request((B, v4("10.1.0.2")), v4("10.1.0.253"));
    assert_eq!(net.send("b", ask.as_bytes()).answers, []);
}

const LINK: &str = "fe80::ff:fe00:1";

fn v6_of(word: &str) -> Ipv6Addr {
    word.parse().unwrap()
}

fn dhcp6_frame(kind: u8, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut message = alloc::vec![kind, 1, 2, 3];
    options.iter().for_each(|(code, value)| dhcp6::put(&mut message, *code, value));
    let to = ((neighbor::group_mac(dhcp6::ALL_SERVERS), dhcp6::ALL_SERVERS.into()), 547);
    emit::datagram(to, ((A, v6_of(LINK).into()), 546), &message).unwrap()
}

fn dhcp6_answer(frame: &[u8]) -> dhcp6::Message<'_> {
    assert_eq!(ip(frame).tuple.destination, (v6_of(LINK).into(), 546));
    dhcp6::Message::parse(emit::payload(frame, &ip(frame)).unwrap()).unwrap()
}

/// The addresses of an answer's first group, with their lifetimes; and its status.
fn group(answer: &dhcp6::Message<'_>) -> (Vec<(Ipv6Addr, u32)>, Option<u8>) {
    let group = dhcp6::Options(&answer.options.get(dhcp6::option::IA_NA).unwrap()[12..]);
    let addresses = group.iter().filter(|(code, _)| *code == dhcp6::option::IA_ADDRESS);
    let read = |value: &[u8]| {
        let address: [u8; 16] = value[..16].try_into().unwrap();
        (address.into(), u32::from_be_bytes(value[20..24].try_into().unwrap()))
    };
    let status = group.get(dhcp6::option::STATUS).map(|it| it[1]);
    (addresses.map(|(_, value)| read(value)).collect(), status)
}

#[test]
fn dhcp_for_ipv6_lends_the_ports_addresses() {
    use dhcp6::{kind, option};
    let mut net = net("");
    let id = (option::CLIENT_ID, &[0, 3, 0, 1, 2, 0, 0, 0, 0, 1][..]);
    let own = dhcp6::identifier(SERVER);
    let server = (option::SERVER_ID, &own[..]);
    let wants = (option::IA_NA, &[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0][..]);
    let lent = [(v6_of("fd01::1"), 1000)];

    let frame =
        net.refuses("a", &dhcp6_frame(kind::SOLICIT, &[id, wants]), Reason::Answered).unwrap();
    let answer = dhcp6_answer(&frame);
    assert_eq!((answer.kind, answer.transaction), (kind::ADVERTISE, [1, 2, 3]));
    assert_eq!(answer.options.get(option::CLIENT_ID), Some(id.1));
    assert_eq!(answer.options.get(option::SERVER_ID), Some(server.1));
    assert_eq!(answer.options.get(option::DNS_SERVERS), Some(&v6_of("fd01::53").octets()[..]));
    assert_eq!(group(&answer), (lent.to_vec(), None));

    let rapid = [id, wants, (option::RAPID_COMMIT, &[][..])];
    let frame = net.refuses("a", &dhcp6_frame(kind::SOLICIT, &rapid), Reason::Answered).unwrap();
    assert_eq!(dhcp6_answer(&frame).kind, kind::REPLY);
    assert!(dhcp6_answer(&frame).options.get(option::RAPID_COMMIT).is_some());

    // What is not its own ends at once.
    let mut held = wants.1.to_vec();
    let mut value = v6_of("fd01::9").octets().to_vec();
    value.extend([0; 8]);
    dhcp6::put(&mut held, option::IA_ADDRESS, &value);
    let renews = dhcp6_frame(kind::RENEW, &[id, server, (option::IA_NA, &held)]);
    let frame = net.refuses("a", &renews, Reason::Answered).unwrap();
    assert_eq!(group(&dhcp6_answer(&frame)).0, [lent[0], (v6_of("fd01::9"), 0)]);
    let confirms = dhcp6_frame(kind::CONFIRM, &[id, (option::IA_NA, &held)]);
    let frame = net.refuses("a", &confirms, Reason::Answered).unwrap();
    assert_eq!(dhcp6_answer(&frame).options.get(option::STATUS), Some(&[0, 4][..]));

    // For another server, or for none where one has to be named.
    let other = dhcp6::identifier(B);
    let other = dhcp6_frame(kind::REQUEST, &[id, (option::SERVER_ID, &other), wants]);
    assert_eq!(net.send("a", &other).delivered.len(), 1);
    net.silently_refuses("a", &dhcp6_frame(kind::REQUEST, &[id, wants]), Reason::Answered);
    let asks = dhcp6_frame(kind::INFORMATION_REQUEST, &[]);
    let frame = net.refuses("a", &asks, Reason::Answered).unwrap();
    assert!(dhcp6_answer(&frame).options.get(option::DOMAIN_SEARCH).is_some());
}

#[test]
fn stateless_dhcp_for_ipv6_lends_nothing() {
    use dhcp6::{kind, option};
    let text = PROFILES.replace("rapidCommit: true", "mode: stateless");
    let world = WORLD.replace("'fd01::1']", "'fd01::1'], dhcp6: d");
    let mut net = of_text(&[world, text].concat());
    let wants = (option::IA_NA, &[0; 12][..]);
    let solicit = dhcp6_frame(kind::SOLICIT, &[(option::CLIENT_ID, &[1, 2]), wants]);
    let frame = net.refuses("a", &solicit, Reason::Answered).unwrap();
    assert_eq!(group(&dhcp6_answer(&frame)), (alloc::vec![], Some(2)));
}

#[test]
fn who_asks_for_a_router_is_told_alone() {
    let mut net = net("");
    let routers = v6_of("ff02::2");
    let solicit = |from: &str| {
        let to = (neighbor::group_mac(routers), routers.into());
        emit::packet(to, (A, v6_of(from).into()), 1, alloc::vec![133, 0, 0, 0, 0, 0, 0, 0]).unwrap()
    };
    let frame = net.refuses("a", &solicit(LINK), Reason::Answered).unwrap();
    assert_eq!(ip(&frame).tuple.destination.0, v6_of(LINK));
    assert_eq!((ip(&frame).ttl, ip(&frame).icmp.unwrap().kind), (255, 134));
    let body = &frame[54..];
    assert_eq!(body[5], 0x40, "the rest is by DHCP");
    // A prefix of which addresses are made.
    let prefix = [&[3, 4, 64, 0xc0][..], &2_592_000u32.to_be_bytes()].concat();
    assert!(body.windows(8).any(|it| it == prefix));
    assert!(
        body.windows(8).any(|it| it[..2] == [25, 3]) && body.windows(2).any(|it| it == [31, 3])
    );
    // From nowhere: as for everybody, but to nobody else.
    let net_b = net.port("b");
    let policy = net.send("a", &solicit("fe80::ff:fe00:1"));
    assert!(policy.answers.iter().all(|it| it.port != net_b));
    net.silently_refuses("a", &solicit("::"), Reason::Spoofed);
}

fn question(name: &str, kind: TYPE) -> Vec<u8> {
    let mut packet = Packet::new_query(7);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).unwrap();
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    let to = ((B, v4("10.1.0.2").into()), 53);
    emit::datagram(to, ((A, v4("10.1.0.1").into()), 4000), &packet.build_bytes_vec().unwrap())
        .unwrap()
}

/// The answer's code and how many records it has.
#[track_caller]
fn resolves(net: &mut Net, name: &str, kind: TYPE) -> (RCODE, Vec<RData<'static>>) {
    let frame = net.refuses("a", &question(name, kind), Reason::Answered).unwrap();
    assert_eq!(ip(&frame).tuple, ip(&question(name, kind)).tuple.reversed());
    let packet = Packet::parse(emit::payload(&frame, &ip(&frame)).unwrap()).unwrap();
    assert_eq!((packet.id(), packet.questions.len()), (7, 1));
    assert!(packet.answers.iter().all(|it| it.ttl == 30));
    let data = packet.answers.iter().map(|it| it.rdata.clone().into_owned()).collect();
    (packet.rcode(), data)
}

#[test]
fn names_of_a_zone_are_answered_at_the_source() {
    let mut net = net("");
    let (code, found) = resolves(&mut net, "WEB.shop.internal", TYPE::A);
    assert_eq!((code, found.len()), (RCODE::NoError, 2));
    assert!(matches!(&found[0], RData::A(it) if Ipv4Addr::from(it.address) == v4("10.1.0.2")));
    let (_, found) = resolves(&mut net, "six.shop.internal", TYPE::AAAA);
    assert!(matches!(&found[0], RData::AAAA(it) if Ipv6Addr::from(it.address) == v6_of("fd01::2")));
    let (_, found) = resolves(&mut net, "2.0.1.10.in-addr.arpa", TYPE::PTR);
    assert!(matches!(&found[0], RData::PTR(it) if it.0.to_string() == "web.shop.internal"));
    // The name is known, and has nothing of the kind.
    assert_eq!(
        resolves(&mut net, "web.shop.internal", TYPE::AAAA),
        (RCODE::NoError, alloc::vec![])
    );
    // Nobody's: to whom it was sent.
    let other = question("example.org", TYPE::A);
    assert_eq!(net.gets("a", &other, "b"), other);
    let keeps = PROFILES.replace("ttl: 30", "ttl: 30, forward: false");
    let text = WORLD.replace(
        "spec: {subnets: [10.1.0.0/24, fd01::/64]}",
        "spec: {subnets: [10.1.0.0/24, fd01::/64], dns: [z]}",
    );
    let mut net = of_text(&[text, keeps].concat());
    assert_eq!(resolves(&mut net, "example.org", TYPE::A), (RCODE::NameError, alloc::vec![]));
}

#[test]
fn an_answer_that_is_too_long_says_so() {
    let many: Vec<_> = (1..60).map(|it| format!("10.1.1.{it}")).collect();
    let zone = PROFILES.replace("[10.1.0.2, 10.1.0.3]", &format!("[{}]", many.join(", ")));
    let text = WORLD.replace(
        "spec: {subnets: [10.1.0.0/24, fd01::/64]}",
        "spec: {subnets: [10.1.0.0/24, fd01::/64], dns: [z]}",
    );
    let mut net = of_text(&[text, zone].concat());
    let frame =
        net.refuses("a", &question("web.shop.internal", TYPE::A), Reason::Answered).unwrap();
    let packet = Packet::parse(emit::payload(&frame, &ip(&frame)).unwrap()).unwrap();
    assert!(packet.has_flags(PacketFlag::TRUNCATION) && packet.answers.is_empty());
}

/// Routers relay to `c`, which is a server.
fn relaying(servers: &str) -> Net {
    let text = WORLD.replace(
        "addresses: [10.1.0.254/24, 'fd01::fe/64']",
        &format!("addresses: [10.1.0.254/24, 'fd01::fe/64'], dhcpRelay: {{servers: [{servers}]}}"),
    );
    let closed = with_policy("a", "defaultAction: drop,", "");
    of_text(&[text, closed].concat())
}

#[test]
fn a_relay_hands_questions_to_its_servers_and_answers_back() {
    let mut net = relaying("10.2.0.3");
    let asked = net.gets("a", &asks(Kind::Discover).frame(), "c");
    assert_eq!(ip(&asked).tuple.source, (v4("10.1.0.254").into(), 67));
    let header = *message(&asked).header;
    assert_eq!((header.hops, header.giaddr), (1, [10, 1, 0, 254]));
    let mut offer = header.reply();
    offer.yiaddr = [10, 1, 0, 1];
    let offers = |header: &dhcp4::Header, from: &str| {
        let bytes = Writer::new(header, Kind::Offer, 0).finish();
        let to = ((WAN, v4("10.1.0.254").into()), 67);
        emit::datagram(to, ((C, v4(from).into()), 67), &bytes).unwrap()
    };
    let got = net.gets("c", &offers(&offer, "10.2.0.3"), "a");
    assert_eq!(ip(&got).tuple.destination, (v4("10.1.0.1").into(), 68));
    assert_eq!(&got[..12], [A.0, LAN.0].concat());
    offer.flags.set(dhcp4::BROADCAST);
    let got = net.gets("c", &offers(&offer, "10.2.0.3"), "a");
    assert_eq!(&got[..6], Mac::BROADCAST.0);
    // Too many relays before.
    let mut far = asks(Kind::Discover).message();
    far[3] = dhcp4::MOST_HOPS;
    let to = ((Mac::BROADCAST, v4("255.255.255.255").into()), 67);
    let far = emit::datagram(to, ((A, v4("0.0.0.0").into()), 68), &far).unwrap();
    let decision = net.send("a", &far);
    let c = net.port("c");
    assert!(decision.delivered.iter().all(|it| it.port != c));
}

#[test]
fn nobody_answers_for_a_server_that_is_not_asked() {
    let mut net = relaying("10.2.0.9");
    let mut header = dhcp4::Header::new_zeroed();
    (header.op, header.htype, header.hlen) = (dhcp4::op::REPLY, 1, 6);
    header.giaddr = [10, 1, 0, 254];
    header.chaddr[..6].copy_from_slice(&A.0);
    let mut bytes = Writer::new(&header, Kind::Offer, 0).finish();
    bytes[236..240].copy_from_slice(&[99, 130, 83, 99]);
    let to = ((WAN, v4("10.1.0.254").into()), 67);
    let frame = emit::datagram(to, ((C, v4("10.2.0.3").into()), 67), &bytes).unwrap();
    let _ = net.refuses("c", &frame, Reason::ToRouter);
}

#[test]
fn a_relay_hands_ipv6_questions_on_inside_its_own() {
    use dhcp6::{Relayed, kind, option};
    let mut net = relaying("'fd02::3'");
    let asked = net.gets("a", &dhcp6_frame(kind::SOLICIT, &[(option::CLIENT_ID, &[1])]), "c");
    let relayed = Relayed::parse(emit::payload(&asked, &ip(&asked)).unwrap()).unwrap();
    assert_eq!((relayed.link, relayed.peer), (v6_of("fd01::fe"), v6_of(LINK)));
    let answer = [kind::ADVERTISE, 1, 2, 3];
    let body = Relayed::around(kind::RELAY_REPLY, 0, relayed.link, relayed.peer, &answer);
    let to = ((WAN, v6_of("fd01::fe").into()), 547);
    let frame = emit::datagram(to, ((C, v6_of("fd02::3").into()), 547), &body).unwrap();
    let got = net.gets("c", &frame, "a");
    assert_eq!(emit::payload(&got, &ip(&got)), Some(&answer[..]));
}

#[test]
fn the_networks_own_server_answers_for_its_address_when_it_alone_is_asked() {
    let mut net = net("");
    let server = Mac([2, 0, 0, 0, 0, 0x53]);
    let mut request =
        arp::Frame::request((A, v4("10.1.0.1")), v4("10.1.0.253")).as_bytes().to_vec();
    request[..6].copy_from_slice(&server.0);
    let answer = net.refuses("a", &request, Reason::Answered).unwrap();
    assert_eq!(answer[..12], [A.0, server.0].concat());
    // Not for others, and for nobody else's address.
    request[41] = 252;
    net.silently_refuses("a", &request, Reason::Unknown);
}
