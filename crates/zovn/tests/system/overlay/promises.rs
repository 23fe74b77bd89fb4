//! What objects promise logical ports of an uplink: QosProfiles and tenants, beside a network of
//! the older kind that floods.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use model::{NetworkShareStatus, PortName, PortStatus, SharingStatus};
use rustix::process::Signal;

use super::logical::{CONTAINERS, OTHER, Shop, WEB};
use super::parts::{self, Part};
use super::world::{Machine, Plan};
use crate::common::until;

/// Machines of a network of the older kind.
const PLAIN: [Machine; 2] = [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2)];

/// A datagram, which takes a hundred microseconds at the uplink's rate.
const LEN: usize = 1100;

/// Two hosts whose uplinks have a hundred megabits, of which 94.05 can be promised.
fn shop() -> Shop {
    let mut plan = Plan::new(&PLAIN);
    plan.uplink.rate = "100mbit".parse().ok();
    Shop::on(plan)
}

/// The objects, of which a port of this name has a profile of the tenant's own, and the tenant
/// itself these terms.
fn text(shop: &Shop, ports: &[&str], profile: &str, tenant: &str) -> String {
    let mut text = shop.text();
    for port in ports {
        let head =
            format!("metadata: {{name: {port}, tenant: shop, labels: {{app: web}}}}\n  spec: {{");
        assert!(text.contains(&head), "{text}");
        text = text.replace(&head, &format!("{head}qos: own, "));
    }
    if !tenant.is_empty() {
        text = text.replace("  quota: {ports: 100", &format!("  {tenant}\n  quota: {{ports: 100"));
    }
    let profile = format!(
        "- {{kind: QosProfile, metadata: {{name: own, tenant: shop}}, spec: {{{profile}}}}}\n"
    );
    text + &profile
}

fn sharing(shop: &Shop) -> SharingStatus {
    parts::sharing(&shop.world)
}

/// What a network has had of the first host's uplink.
fn had(shop: &Shop, network: &str) -> NetworkShareStatus {
    parts::had(&shop.world, network)
}

/// The part of the uplink that the tenant has while all send as much as they can.
fn part(shop: &Shop) -> Part {
    parts::of_networks(&shop.world, ["logical/shop", "blue"])
}

#[test]
fn a_tenants_own_terms_hold_beside_a_flood() {
    let shop = shop();
    shop.apply(&text(&shop, &["web-1"], "limit: 20mbit", ""));
    shop.attach();
    shop.world.ping(PLAIN[0], PLAIN[1].v4());
    assert!(shop.pings(WEB, CONTAINERS[OTHER].address));
    let to = SocketAddr::from((CONTAINERS[OTHER].address, 7));
    let [own, others] = [shop.udp(OTHER, 7), shop.world.udp(PLAIN[1], 7)];
    let is_over = AtomicBool::new(false);
    let flood = |socket: UdpSocket, to: SocketAddr| {
        socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            // Nobody may take it at the end.
            let _ = socket.send_to(&[1; LEN], to);
        }
    };
    let take = |socket: UdpSocket| {
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            let _ = socket.recv(&mut [0; LEN]);
        }
    };
    thread::scope(|scope| {
        let over = needs::Over(&is_over);
        [own, others].into_iter().for_each(|socket| drop(scope.spawn(|| take(socket))));
        scope.spawn(|| flood(shop.udp(WEB, 0), to));
        scope.spawn(|| flood(shop.world.udp(PLAIN[0], 0), PLAIN[1].at(7)));
        let all_send = |network| had(&shop, network).sent_bytes > 500_000;
        until(|| ["logical/shop", "blue"].into_iter().all(all_send));

        let limited = part(&shop);
        assert!(limited.is_20_of_99_at_most(), "a port with that: {limited:?}");
        shop.apply(&text(&shop, &["web-1"], "guarantee: 60mbit", ""));
        assert_eq!(sharing(&shop).promised_bits, 60_000_000);
        let guaranteed = part(&shop).of_all;
        assert!((0.7..0.95).contains(&guaranteed), "60 of 99 and half of the rest: {guaranteed}");
        shop.apply(&text(&shop, &[], "", "limit: 20mbit"));
        let limited = part(&shop);
        assert!(limited.is_20_of_99_at_most(), "a tenant with that: {limited:?}");
        shop.apply(&text(&shop, &[], "", "guarantee: 60mbit"));
        assert_eq!(had(&shop, "logical/shop").min, "60mbit".parse().ok());
        assert_eq!(sharing(&shop).promised_bits, 60_000_000);
        let guaranteed = part(&shop).of_all;
        assert!(guaranteed > 0.7, "60 of 99 and most of the rest, by weight: {guaranteed}");
        shop.apply(&shop.text());
        assert_eq!(sharing(&shop).promised_bits, 0);
        let half = part(&shop).of_all;
        assert!((0.4..0.6).contains(&half), "nobody has terms: {half}");
        drop(over);
    });
    assert!(had(&shop, "logical/shop").guaranteed_bytes > 1_000_000);
    until(|| (0..2).all(|host| shop.world.status(host).ledger.held == 0));
    shop.world.assert_balanced();
}

#[test]
fn guarantees_that_have_no_room_are_told_and_kept_once_there_is_some() {
    let shop = shop();
    let own = |tenant: &str| {
        let text = text(&shop, &["web-1", "web-2"], "guarantee: 60mbit", tenant);
        text.replace("port: shop/web-2, node: h1", "port: shop/web-2, node: h0")
    };
    shop.apply(&own(""));
    shop.attach_at(0, WEB, "eth0", Vec::new());
    shop.attach_at(0, OTHER, "eth0", Vec::new());
    let port = |name: &str| shop.world.client(0).port(&PortName(name.into())).unwrap();
    let min = |name: &str| port(name).share.min.map(|min| min.to_string());
    let refused = || shop.world.status(0).logical.unwrap().refused_guarantees;
    let note = |port: PortStatus| port.notes.into_iter().find(|note| note.contains("guarantee"));
    assert_eq!([min("web-1"), min("web-2")], [Some("60mbit".into()), None]);
    assert_eq!((note(port("web-1")), refused()), (None, 1));
    assert_eq!(
        note(port("web-2")).as_deref(),
        Some(
            "the guarantee of 60mbit of QosProfile/shop/own is not kept: 34050kbit is left of what the uplink can guarantee: \
             lower it or another, or move the port to another host"
        )
    );
    assert_eq!(sharing(&shop).promised_bits, 60_000_000);
    assert!(shop.world.log(0).contains("a guarantee is not kept"), "{}", shop.world.log(0));
    assert!(shop.pings(WEB, CONTAINERS[OTHER].address), "it is a port as any other");

    // Its tenant's word goes first.
    shop.apply(&own("guarantee: 90mbit"));
    let of_tenant = note(port("web-2")).unwrap();
    assert!(of_tenant.contains("30mbit is left of its tenant's `guarantee`"), "{of_tenant}");
    shop.apply(&own(""));
    // Who has it keeps it, whoever else comes, until it goes.
    shop.world.client(0).detach(&PortName("web-1".into())).unwrap();
    until(|| min("web-2").is_some());
    assert_eq!((note(port("web-2")), refused()), (None, 0));
    shop.attach_at(0, WEB, "eth0", Vec::new());
    assert_eq!([min("web-1"), min("web-2")], [None, Some("60mbit".into())]);
    // Nor does it lose that by asking for more than there is, and the log has a line of each
    // change.
    let lines = |what: &str| shop.world.log(0).matches(what).count();
    let before = lines("a guarantee is not kept");
    shop.apply(&own("").replace("guarantee: 60mbit", "guarantee: 95mbit"));
    assert_eq!([min("web-1"), min("web-2")], [None, Some("60mbit".into())]);
    let short = note(port("web-2")).unwrap();
    let start = "the guarantee of 95mbit of QosProfile/shop/own is kept at 60mbit, as before: 94050kbit is left";
    assert!(short.starts_with(start), "{short}");
    assert_eq!((refused(), lines("a guarantee is kept as before, and not more")), (2, 1));
    shop.apply(&own(""));
    assert_eq!((min("web-2"), refused()), (Some("60mbit".into()), 1));
    assert_eq!(lines("a guarantee is not kept"), before, "web-1's is not kept as before");
    // What the file's networks are promised goes before all of them.
    let mut blue = shop.world.client(0).networks().unwrap().networks.remove(0);
    blue.share.min = "40mbit".parse().ok();
    shop.world.client(0).set_network(&blue).unwrap();
    assert_eq!((min("web-2"), refused(), sharing(&shop).promised_bits), (None, 2, 40_000_000));
    shop.world.assert_balanced();
}

#[test]
fn what_is_kept_stays_so_until_a_start_which_admits_all_ports_at_once() {
    let mut shop = shop();
    let text = text(&shop, &["web-1", "web-2"], "guarantee: 60mbit", "limit: 94mbit");
    let text = text.replace("port: shop/web-2, node: h1", "port: shop/web-2, node: h0");
    // The second's profile is the operator's, and so is its tenant's limit.
    let (first, second) = text.split_once("qos: own").unwrap();
    let second = second.replacen("qos: own", "qos: gold", 1);
    let gold = "- {kind: QosProfile, metadata: {name: gold}, spec: {guarantee: 60mbit}}\n";
    shop.apply(&format!("{first}qos: own{second}{gold}"));
    shop.attach_at(0, WEB, "eth0", Vec::new());
    shop.attach_at(0, OTHER, "eth0", Vec::new());
    let mins = |shop: &Shop| {
        let port = |name: &str| shop.world.client(0).port(&PortName(name.into())).unwrap();
        ["web-1", "web-2"].map(|name| port(name).share.min.map(|min| min.to_string()))
    };
    assert_eq!(mins(&shop), [Some("60mbit".into()), None]);
    shop.world.end(0, Signal::KILL);
    shop.world.start(0);
    assert_eq!(mins(&shop), [None, Some("60mbit".into())]);
    shop.world.assert_balanced();
}
