//! What a machine's own settings lose, whatever the switch does.

use std::fs;
use std::path::Path;

use kernel::netlink::Netlink;

/// Queueing disciplines that drop what waits too long, or would.
const DROPPING: [&str; 9] =
    ["cake", "choke", "codel", "fq_codel", "fq_pie", "gred", "pie", "red", "sfb"];

/// What is in the way on an interface, by name and index, in sentences that say what to do.
pub fn of(interface: &str, link: u32) -> Vec<String> {
    let queues = Path::new("/sys/class/net").join(interface).join("queues");
    let kinds = Netlink::open().and_then(|mut netlink| netlink.qdiscs(link)).unwrap_or_default();
    let dropping = kinds.iter().map(|qdisc| &*qdisc.kind).find(|kind| DROPPING.contains(kind));
    let dropping = dropping.map(|kind| {
        format!(
            "{kind} drops what this machine sends to who is slow: `tc qdisc replace dev {interface} root pfifo_fast`"
        )
    });
    disorder(&queues, interface).into_iter().chain(dropping).collect()
}

/// Why datagrams may not reach their sockets in the order in which they come.
fn disorder(queues: &Path, interface: &str) -> Option<String> {
    let receive = fs::read_dir(queues).ok()?.flatten().map(|entry| entry.path());
    let receive = receive.filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"rx-"))
    });
    let receive: Vec<_> = receive.collect();
    if receive.len() > 1 {
        let count = receive.len();
        return Some(format!(
            "{interface} has {count} receive queues, which overtake each other: `ethtool -L {interface} combined 1`"
        ));
    }
    // A mask of processors, in groups of hexadecimal digits.
    let steers = |queue: &Path| {
        let mask = fs::read_to_string(queue.join("rps_cpus")).unwrap_or_default();
        mask.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0')
    };
    let steered = receive.iter().any(|queue| steers(queue));
    steered.then(|| {
        format!(
            "receive packet steering has datagrams overtake each other: write 0 to {}/rx-0/rps_cpus",
            queues.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_queues_and_steering_are_told_of() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, mask: &str| {
            fs::create_dir_all(place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join("rps_cpus"), mask).unwrap();
        };
        make("rx-0", "0000,00000000\n");
        make("tx-0", "0");
        assert_eq!(disorder(place.path(), "eth0"), None);
        make("rx-0", "0000,00000002\n");
        assert!(disorder(place.path(), "eth0").unwrap().contains("rx-0/rps_cpus"));
        make("rx-1", "0");
        assert!(disorder(place.path(), "eth0").unwrap().contains("2 receive queues"));
    }
}
