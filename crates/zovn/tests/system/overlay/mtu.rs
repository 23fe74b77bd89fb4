//! What is too long for a tunnel.

use super::numbered::exchange;
use super::world::{Machine, Plan, World};

const ONE: Machine = Machine::new(0, "blue", 1);
const OTHER: Machine = Machine::new(1, "blue", 2);

/// What a tunnel over IPv4 carries of 1,500 bytes: without IPv4's header, UDP's, Geneve's with our
/// longest option, and Ethernet's.
const INNER: usize = 1500 - 20 - 8 - 8 - 32 - 14;

#[test]
fn who_sends_what_is_too_long_is_told_how_long_it_may_be() {
    let mut plan = Plan::new(&[ONE, OTHER]);
    plan.fabric.ports.iter_mut().for_each(|port| port.mtu = 1500);
    let world = World::new(plan);
    for (to, headers, says) in [(OTHER.v4(), 28, "mtu = "), (OTHER.v6(), 48, "mtu=")] {
        let ping = |len: usize| {
            let (len, to) = ((len - headers).to_string(), to.to_string());
            world.run(ONE, &["ping", "-n", "-M", "do", "-c", "1", "-W", "20", "-s", &len, &to])
        };
        assert!(ping(INNER).status.success());
        let told = ping(INNER + 1);
        let told = String::from_utf8([told.stdout, told.stderr].concat()).unwrap();
        assert!(told.contains(&format!("{says}{INNER}")), "{told}");
    }
    exchange(&world.connect(ONE, OTHER, 7), 3_000_000);
    exchange(&world.connect(OTHER, ONE, 7), 3_000_000);
    assert_eq!([world.refused(0, "unfit"), world.refused(1, "unfit")], [0, 0]);
    world.assert_balanced();
}
