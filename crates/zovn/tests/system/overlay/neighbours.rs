//! A machine that nobody declares, behind a port of another host, found by a router that asks.

use model::{NeighbourState, NeighbourStatus};

use super::logical::{OTHER, Shop, WEB};
use super::world::{Machine, Plan};

/// Machines of a network of the older kind: there are two hosts.
const PLAIN: [Machine; 2] = [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2)];

/// Behind the second web server's port there is somebody else.
const WAN: &str = "
- {kind: LogicalSwitch, metadata: {name: wan, tenant: shop}, spec: {subnets: [10.0.3.0/24]}}
- {kind: RouterPort, metadata: {name: edge-wan, tenant: shop}, spec: {router: edge, mac: '02:00:00:00:03:fe', addresses: [10.0.3.254/24]}}
- {kind: LogicalPort, metadata: {name: wan-edge, tenant: shop}, spec: {switch: wan, router: {routerPort: edge-wan}}}
";

const STRANGER: [u8; 4] = [10, 0, 3, 7];
const NOBODY: [u8; 4] = [10, 0, 3, 8];

/// What routers know of an address, at whichever host.
fn known(shop: &Shop, address: [u8; 4]) -> Option<NeighbourStatus> {
    let all = (0..2).flat_map(|host| shop.world.status(host).logical.unwrap().neighbours);
    all.into_iter().find(|it| it.address == std::net::IpAddr::from(address))
}

#[test]
fn who_is_declared_nowhere_is_found_and_nothing_is_lost_meanwhile() {
    let shop = Shop::on(Plan::new(&PLAIN));
    let own = "spec: {switch: web, vif: {}, addresses: [10.0.1.2]}";
    let text = shop.text();
    assert!(text.contains(own));
    let outside = "spec: {switch: wan, vif: {}, unknown: true, security: {mode: 'off'}}";
    let text = text.replace(own, outside) + WAN;
    (0..2).for_each(|host| shop.apply_at(host, &text));
    shop.attach();
    for words in [
        &["ip", "address", "flush", "dev", "eth0"][..],
        &["ip", "address", "add", "10.0.3.7/24", "dev", "eth0"],
        &["ip", "route", "replace", "default", "via", "10.0.3.254"],
    ] {
        shop.run(OTHER, words);
    }
    assert!(shop.pings(WEB, STRANGER), "one question, one answer");
    let stranger = known(&shop, STRANGER).unwrap();
    assert_eq!((stranger.state, stranger.held), (NeighbourState::Reachable, 0));
    assert!(stranger.mac.is_some());
    assert!(!shop.pings(WEB, NOBODY));
    assert_eq!(known(&shop, NOBODY).unwrap().state, NeighbourState::Silent);
    shop.world.assert_balanced();
}
