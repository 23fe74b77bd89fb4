//! Whether a kernel handles the frames of an interface in the order in which they come.

use std::fs;
use std::path::Path;

/// Why it may not; `None` if it does.
pub fn why(interface: &str) -> Option<String> {
    of(&Path::new("/sys/class/net").join(interface).join("queues"), interface)
}

fn of(queues: &Path, interface: &str) -> Option<String> {
    let receive = fs::read_dir(queues).ok()?.flatten().map(|entry| entry.path());
    let receive = receive
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"rx-")));
    let receive: Vec<_> = receive.collect();
    if receive.len() > 1 {
        let count = receive.len();
        return Some(format!("{interface} has {count} receive queues: `ethtool -L {interface} combined 1`"));
    }
    // A mask of processors, in groups of hexadecimal digits.
    let steers = |queue: &Path| {
        let mask = fs::read_to_string(queue.join("rps_cpus")).unwrap_or_default();
        mask.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0')
    };
    let steered = receive.iter().any(|queue| steers(queue));
    steered.then(|| format!("receive packet steering is on: write 0 to {}/rx-0/rps_cpus", queues.display()))
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
        assert_eq!(of(place.path(), "eth0"), None);
        make("rx-0", "0000,00000002\n");
        assert!(of(place.path(), "eth0").unwrap().contains("rx-0/rps_cpus"));
        make("rx-1", "0");
        assert!(of(place.path(), "eth0").unwrap().contains("2 receive queues"));
    }
}
