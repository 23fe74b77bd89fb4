//! What frames have to pass, as each switch is told: objects of logical networks, and OpenFlow
//! rules that decide the same.
//!
//! Of so many rules all but the last refuse what does not come: one in ten datagrams of the
//! sender's own subnet to a port that no flow has, the others datagrams of another address each.
//! The last allows. So whoever looks rules up by the fields that they name has two kinds of them to
//! look through.
//!
//! Open vSwitch's tables are a pipeline as OVN would make it (ovn-northd(8)): port security, where
//! the destination is, the receiver's rules, and behind connection tracking those again.

use std::fmt::Write;
use std::net::Ipv4Addr;

use units::Mac;

use super::frames::Pair;
use super::report::Through;

/// Which logical ports the two machines' are.
pub const PORTS: [&str; 2] = ["t/a", "t/b"];

/// How many rules a policy has at most.
const OF_A_POLICY: usize = 1000;

/// The router's Ethernet addresses, towards each machine.
pub const ROUTER: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 0]), Mac([2, 0, 0, 0, 1, 1])];

/// The router's IP addresses, towards each machine.
pub const GATEWAY: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 255, 254), Ipv4Addr::new(10, 1, 255, 254)];

/// What the second machine sees in place of the first's address where that is translated.
pub const HIDDEN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 100);

/// Of whom a refusing rule speaks, and of which UDP port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    pub source: Ipv4Addr,
    pub length: u8,
    pub port: u16,
}

/// The machines, as they stand on the two sides of something.
pub fn pair(through: Through, macs: [Mac; 2]) -> Pair {
    let near = Ipv4Addr::new(10, 0, 0, 1);
    if !through.is_routed() {
        let addresses = [near, Ipv4Addr::new(10, 0, 0, 2)];
        return Pair { macs, addresses, known_by: addresses, next: [macs[1], macs[0]] };
    }
    let addresses @ [_, far] = [near, Ipv4Addr::new(10, 1, 0, 2)];
    let known_by = if through == Through::Nat { [HIDDEN, far] } else { addresses };
    Pair { macs, addresses, known_by, next: ROUTER }
}

/// All rules but the last, in order.
pub fn refused(rules: u32) -> impl Iterator<Item = Refused> {
    (0..rules.saturating_sub(1)).map(|number| match number % 10 {
        9 => Refused {
            source: Ipv4Addr::new(10, 0, 0, 0),
            length: 24,
            // No flow has a port from 61,024 on.
            port: 61_100 + (number / 10 % 4000) as u16,
        },
        _ => Refused {
            source: Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number),
            length: 32,
            port: 1024 + (number % 50_000) as u16,
        },
    })
}

/// The objects of logical networks, in YAML.
pub fn objects(through: Through, rules: u32, pair: &Pair) -> String {
    let Pair { macs, addresses, .. } = pair;
    let other = if through.is_routed() { "u" } else { "s" };
    let mut said = String::from(
        "- {kind: Tenant, metadata: {name: t}, spec: {}}\n\
         - {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/16]}}\n",
    );
    for (place, (name, switch)) in [("a", "s"), ("b", other)].into_iter().enumerate() {
        let (mac, address) = (macs[place], addresses[place]);
        // A string takes whatever is written to it.
        let _ = writeln!(
            said,
            "- {{kind: LogicalPort, metadata: {{name: {name}, tenant: t}}, spec: \
             {{switch: {switch}, vif: {{}}, mac: '{mac}', addresses: [{address}]}}}}"
        );
    }
    match through {
        Through::Plain | Through::L2 => {}
        Through::Acl => policies(&mut said, rules, false),
        Through::Stateful => policies(&mut said, rules, true),
        Through::Routed => router(&mut said),
        Through::Nat => {
            router(&mut said);
            translation(&mut said);
        }
    }
    said
}

/// Policies of `b`, one after the other.
fn policies(said: &mut String, rules: u32, stateful: bool) {
    let refused = refused(rules).enumerate().map(|(number, Refused { source, length, port })| {
        format!(
            "    - {{name: r{number}, direction: toPort, action: drop, \
             peer: {{prefixes: [{source}/{length}]}}, services: [{{protocol: udp, ports: [{port}]}}]}}"
        )
    });
    let last = format!(
        "    - {{name: last, direction: toPort, action: allow, stateful: {stateful}, \
         services: [{{protocol: udp}}, {{protocol: tcp}}]}}"
    );
    let rules: Vec<_> = refused.chain([last]).collect();
    for (order, rules) in rules.chunks(OF_A_POLICY).enumerate() {
        let _ = writeln!(
            said,
            "- kind: Policy\n  metadata: {{name: p{order}, tenant: t}}\n  spec:\n    \
             appliesTo: {{ports: [b]}}\n    order: {order}\n    rules:"
        );
        for rule in rules {
            let _ = writeln!(said, "{rule}");
        }
    }
}

fn router(said: &mut String) {
    said.push_str(
        "- {kind: LogicalSwitch, metadata: {name: u, tenant: t}, spec: {subnets: [10.1.0.0/16]}}\n\
         - {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}\n",
    );
    for (place, switch) in ["s", "u"].into_iter().enumerate() {
        let (mac, gateway) = (ROUTER[place], GATEWAY[place]);
        let _ = writeln!(
            said,
            "- {{kind: RouterPort, metadata: {{name: r{switch}, tenant: t}}, spec: \
             {{router: r, mac: '{mac}', addresses: [{gateway}/16]}}}}\n\
             - {{kind: LogicalPort, metadata: {{name: {switch}r, tenant: t}}, spec: \
             {{switch: {switch}, router: {{routerPort: r{switch}}}}}}}"
        );
    }
}

/// The router's translation, of all that the first machine's subnet sends to the other.
fn translation(said: &mut String) {
    let _ = writeln!(
        said,
        "- {{kind: ExternalPool, metadata: {{name: e}}, spec: {{prefixes: [10.1.0.0/16], tenants: [t]}}}}\n\
         - {{kind: Nat, metadata: {{name: n, tenant: t}}, spec: \
         {{router: r, kind: snat, external: {HIDDEN}, logical: 10.0.0.0/16}}}}"
    );
}

/// OpenFlow rules, a line each; `None` where the bridge forwards by addresses that it has learned.
pub fn open_flow(through: Through, rules: u32, pair: &Pair) -> Option<String> {
    if through == Through::Plain {
        return None;
    }
    let Pair { macs, addresses, known_by, next } = pair;
    let mut said = String::from("table=0,priority=0,actions=drop\n");
    let mut line = |words: String| {
        said.push_str(&words);
        said.push('\n');
    };
    for from in [0, 1] {
        let (to, port) = (1 - from, from + 1);
        let (mac, address, next) = (macs[from], addresses[from], next[from]);
        // Who may send what.
        line(format!(
            "table=0,priority=100,in_port={port},dl_src={mac},ip,nw_src={address},actions=resubmit(,1)"
        ));
        // Where it goes.
        let out = format!("load:{}->NXM_NX_REG0[],resubmit(,2)", to + 1);
        if through.is_routed() {
            line(format!(
                "table=1,priority=100,dl_dst={next},ip,nw_dst={},actions=dec_ttl,mod_dl_src:{},mod_dl_dst:{},{out}",
                known_by[to], ROUTER[to], macs[to]
            ));
        } else {
            line(format!("table=1,priority=100,dl_dst={next},actions={out}"));
        }
    }
    line("table=2,priority=1,reg0=1,actions=output:1".into());
    match through {
        Through::Plain | Through::L2 | Through::Routed => {
            line("table=2,priority=1,reg0=2,actions=output:2".into());
        }
        Through::Acl => {
            table(&mut line, 2, "reg0=2,", rules, "output:2");
        }
        Through::Stateful => {
            line("table=2,priority=65000,reg0=2,ip,actions=ct(table=3,zone=2)".into());
            line("table=2,priority=65000,reg0=1,ip,actions=ct(table=4,zone=2)".into());
            line("table=3,priority=65000,ct_state=+trk+est-new,ip,actions=output:2".into());
            table(&mut line, 3, "ct_state=+trk+new,", rules, "ct(commit,zone=2),output:2");
            line("table=4,priority=65000,ct_state=+trk-inv,ip,actions=output:1".into());
        }
        Through::Nat => {
            line("table=2,priority=65000,reg0=2,ip,actions=ct(table=3,zone=2,nat)".into());
            line("table=2,priority=65000,reg0=1,ip,actions=ct(table=4,zone=2,nat)".into());
            line("table=3,priority=65000,ct_state=+trk+est-new,ip,actions=output:2".into());
            line(format!(
                "table=3,priority=60000,ct_state=+trk+new,ip,actions=ct(commit,zone=2,nat(src={HIDDEN})),output:2"
            ));
            line("table=4,priority=65000,ct_state=+trk+est-new,ip,actions=output:1".into());
        }
    }
    Some(said)
}

/// The rules themselves: the first goes before the second, and so on.
fn table(line: &mut impl FnMut(String), table: u8, what: &str, rules: u32, allowed: &str) {
    let mut priority = 60_000;
    for Refused { source, length, port } in refused(rules) {
        line(format!(
            "table={table},priority={priority},{what}udp,nw_src={source}/{length},tp_dst={port},actions=drop"
        ));
        priority -= 1;
    }
    for protocol in ["udp", "tcp"] {
        line(format!("table={table},priority={priority},{what}{protocol},actions={allowed}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: [Mac; 2] = [Mac::local(1), Mac::local(2)];

    fn said(through: Through, rules: u32) -> (String, Option<String>) {
        let pair = pair(through, MACS);
        (objects(through, rules, &pair), open_flow(through, rules, &pair))
    }

    #[test]
    fn both_switches_are_told_as_many_rules_of_the_same() {
        for rules in [1, 10, 1000, 10_000] {
            let (objects, flows) = said(Through::Acl, rules);
            let dropped = objects.matches("action: drop").count();
            assert_eq!(
                (dropped, objects.matches("action: allow").count()),
                (rules as usize - 1, 1)
            );
            let flows = flows.unwrap();
            assert_eq!(flows.matches("tp_dst=").count(), dropped);
            let policies = objects.matches("kind: Policy").count();
            assert_eq!(policies, (rules as usize).div_ceil(OF_A_POLICY));
            let hundred = refused(rules).step_by((rules as usize).div_ceil(100));
            for Refused { source, length, port } in hundred {
                assert!(objects.contains(&format!("[{source}/{length}]")), "{source}");
                assert!(flows.contains(&format!("{source}/{length},tp_dst={port},")), "{source}");
            }
        }
    }

    #[test]
    fn no_rule_refuses_what_is_sent() {
        for Refused { source, length, port } in refused(10_000) {
            let is_sender = length == 24;
            assert!(is_sender && port > 61_023 || source != Ipv4Addr::new(10, 0, 0, 1));
        }
        let unique: std::collections::BTreeSet<_> =
            refused(10_000).map(|it| (it.source, it.port)).collect();
        assert_eq!(unique.len(), 9_999);
    }

    #[test]
    fn what_needs_connections_says_so_to_both() {
        let (objects, flows) = said(Through::Stateful, 10);
        let flows = flows.unwrap();
        assert!(objects.contains("stateful: true") && flows.contains("ct(commit,zone=2)"));
        let (objects, flows) = said(Through::Acl, 10);
        assert!(objects.contains("stateful: false") && !flows.unwrap().contains("ct("));
        assert_eq!(said(Through::Plain, 10).1, None);
    }

    #[test]
    fn a_router_is_who_both_send_to() {
        let (objects, flows) = said(Through::Routed, 0);
        let flows = flows.unwrap();
        assert!(!objects.contains("Nat"));
        for mac in pair(Through::Routed, MACS).next.map(|mac| mac.to_string()) {
            assert!(objects.contains(&mac) && flows.contains(&mac), "{mac}");
        }
        assert!(flows.contains("dec_ttl"));
    }

    #[test]
    fn who_is_hidden_is_answered_by_the_address_that_hides_it() {
        let (objects, flows) = said(Through::Nat, 0);
        let flows = flows.unwrap();
        assert!(objects.contains(&format!("snat, external: {HIDDEN}")));
        assert!(flows.contains(&format!("nat(src={HIDDEN})")));
        assert!(flows.contains(&format!("nw_dst={HIDDEN},actions=dec_ttl")));
        let pair = pair(Through::Nat, MACS);
        assert_eq!(pair.frame(1, 64)[30..34], HIDDEN.octets());
        assert_eq!(pair.frame(0, 64)[26..30], pair.addresses[0].octets());
    }
}
