//! The same rules as the kernel is told them, in nftables' own words (nft(8)).
//!
//! They are plain rules, one after the other, as rules with priorities of their own come to be: no
//! sets and no verdict maps, so each packet meets them in order until one decides.

use std::fmt::Write;

use super::frames::Pair;
use super::report::Through;
use super::rules::{HIDDEN, Refused, refused};

/// The kernel's names of both ports: the endpoints'.
pub const PORTS: [&str; 2] = ["a", "b"];

/// Where connections of bridged packets are followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tracking {
    /// By the bridge itself.
    Bridge,
    /// By IP, which bridged packets visit (br_netfilter). It does not know their ports.
    Ip,
}

/// All tables; `None` if none are needed.
pub fn tables(through: Through, rules: u32, pair: &Pair, tracking: Tracking) -> Option<String> {
    let its_port = format!("oifname \"{}\"", PORTS[1]);
    let its_address = format!("ip daddr {}", pair.addresses[1]);
    Some(match (through, tracking) {
        (Through::Plain, _) => return None,
        (Through::L2, _) => table("bridge", pair, &["accept"], ""),
        (Through::Acl, _) => {
            let jump = format!("{its_port} jump rules");
            table("bridge", pair, &[&jump, "accept"], &chain(rules))
        }
        (Through::Stateful, Tracking::Bridge) => {
            let jump = format!("{its_port} jump rules");
            table("bridge", pair, &[ESTABLISHED, &jump, "accept"], &chain(rules))
        }
        (Through::Stateful, Tracking::Ip) => {
            let ports = table("bridge", pair, &["accept"], "");
            let forward = [ESTABLISHED.to_owned(), format!("{its_address} jump rules")];
            ports + &tracked(&forward.join("\n    "), &chain(rules))
        }
        (Through::Routed, _) => table("ip", pair, &["accept"], ""),
        (Through::Nat, _) => {
            let translation = format!(
                "  chain translation {{\n    type nat hook postrouting priority srcnat; policy accept;\n    \
                 {its_port} ip saddr 10.0.0.0/16 snat to {HIDDEN}\n  }}\n"
            );
            table("ip", pair, &["accept"], &translation)
        }
    })
}

const ESTABLISHED: &str = "ct state established,related accept";

/// A table in which who may send what is asked first.
fn table(family: &str, pair: &Pair, forward: &[&str], chains: &str) -> String {
    let mut said = format!("table {family} zovn {{\n  chain ports {{\n");
    for (place, port) in PORTS.into_iter().enumerate() {
        let (mac, address) = (pair.macs[place], pair.addresses[place]);
        // A string takes whatever is written to it.
        let _ =
            writeln!(said, "    iifname \"{port}\" ether saddr {mac} ip saddr {address} return");
    }
    said.push_str("    drop\n  }\n");
    said.push_str(chains);
    said.push_str(
        "  chain forward {\n    type filter hook forward priority filter; policy drop;\n",
    );
    if family == "bridge" {
        said.push_str("    ether type arp accept\n");
    }
    let _ = writeln!(said, "    jump ports\n    {}\n  }}\n}}", forward.join("\n    "));
    said
}

/// A table of IP that bridged packets visit.
fn tracked(forward: &str, chains: &str) -> String {
    format!(
        "table ip zovn {{\n{chains}  chain forward {{\n    type filter hook forward priority filter; policy accept;\n    \
         {forward}\n  }}\n}}\n"
    )
}

/// The rules themselves, in order.
fn chain(rules: u32) -> String {
    let mut said = "  chain rules {\n".to_owned();
    for Refused { source, length, port } in refused(rules) {
        let _ = writeln!(said, "    ip saddr {source}/{length} udp dport {port} drop");
    }
    said.push_str("    ip protocol udp accept\n    ip protocol tcp accept\n    drop\n  }\n");
    said
}

#[cfg(test)]
mod tests {
    use units::Mac;

    use super::super::rules::pair;
    use super::*;

    const MACS: [Mac; 2] = [Mac::local(1), Mac::local(2)];

    fn said(through: Through, rules: u32, tracking: Tracking) -> Option<String> {
        tables(through, rules, &pair(through, MACS), tracking)
    }

    #[test]
    fn the_kernel_is_told_as_many_rules_of_the_same() {
        for rules in [1, 10, 1000, 10_000] {
            let tables = said(Through::Acl, rules, Tracking::Bridge).unwrap();
            assert_eq!(tables.matches("udp dport").count(), rules as usize - 1);
            for Refused { source, length, port } in refused(rules) {
                let rule = format!("ip saddr {source}/{length} udp dport {port} drop\n");
                assert!(tables.contains(&rule), "{rule}");
            }
        }
    }

    #[test]
    fn a_path_has_the_tables_that_it_needs() {
        let all = |through, tracking| {
            let tables = said(through, 10, tracking).unwrap_or_default();
            ["table bridge", "table ip", "ct state", "snat", "dport"]
                .map(|word| tables.contains(word))
        };
        for (through, tracking, has) in [
            (Through::Plain, Tracking::Bridge, [false; 5]),
            (Through::L2, Tracking::Bridge, [true, false, false, false, false]),
            (Through::Acl, Tracking::Bridge, [true, false, false, false, true]),
            (Through::Stateful, Tracking::Bridge, [true, false, true, false, true]),
            (Through::Stateful, Tracking::Ip, [true, true, true, false, true]),
            (Through::Routed, Tracking::Bridge, [false, true, false, false, false]),
            (Through::Nat, Tracking::Bridge, [false, true, false, true, false]),
        ] {
            assert_eq!(all(through, tracking), has, "{through} {tracking:?}");
        }
    }
}
