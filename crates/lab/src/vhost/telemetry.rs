//! What a DPDK program tells of itself over its telemetry socket, in JSON (DPDK Programmer's Guide,
//! Telemetry Library).

use std::io;
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket,
};
use serde::Deserialize;

use crate::DeviceCounters;

/// Bytes of the longest answer.
const LONGEST: usize = 16 << 10;

/// Where a program puts its socket under its RUNTIME_DIRECTORY.
pub const SOCKET: &str = "dpdk/rte/dpdk_telemetry.v2";

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "/ethdev/stats")]
    stats: Stats,
}

#[derive(Deserialize)]
struct Stats {
    ipackets: u64,
    ibytes: u64,
    imissed: u64,
    opackets: u64,
    obytes: u64,
    oerrors: u64,
}

#[derive(Deserialize)]
struct Link {
    #[serde(rename = "/ethdev/link_status")]
    link: Status,
}

#[derive(Deserialize)]
struct Status {
    status: String,
}

/// What a device has counted, as the program sees it.
pub fn counters(path: &Path, device: usize) -> io::Result<DeviceCounters> {
    read(&ask(path, &format!("/ethdev/stats,{device}"))?)
}

/// Whether a device has somebody on its other side.
pub fn is_up(path: &Path, device: usize) -> io::Result<bool> {
    let answer = ask(path, &format!("/ethdev/link_status,{device}"))?;
    Ok(serde_json::from_slice::<Link>(&answer)?.link.status == "UP")
}

fn ask(path: &Path, question: &str) -> io::Result<Vec<u8>> {
    let telemetry = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    connect(&telemetry, &SocketAddrUnix::new(path)?)?;
    let mut answer = vec![0; LONGEST];
    // It introduces itself first; each message is a packet.
    recv(&telemetry, &mut answer[..], RecvFlags::empty())?;
    send(&telemetry, question.as_bytes(), SendFlags::empty())?;
    let (length, _) = recv(&telemetry, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

fn read(answer: &[u8]) -> io::Result<DeviceCounters> {
    let Answer { stats } = serde_json::from_slice(answer)?;
    Ok(DeviceCounters {
        rx_packets: stats.ipackets,
        rx_bytes: stats.ibytes,
        rx_dropped: stats.imissed,
        tx_packets: stats.opackets,
        tx_bytes: stats.obytes,
        tx_dropped: stats.oerrors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_counters_are_read() {
        let answer =
            br#"{"/ethdev/stats":{"ipackets":7,"opackets":5,"ibytes":448,"obytes":320,"imissed":1,
            "ierrors":0,"oerrors":2,"rx_nombuf":0,"q_ipackets":[7,0],"q_errors":[0,0]}}"#;
        let expected = DeviceCounters {
            rx_packets: 7,
            rx_bytes: 448,
            rx_dropped: 1,
            tx_packets: 5,
            tx_bytes: 320,
            tx_dropped: 2,
        };
        assert_eq!(read(answer).unwrap(), expected);
        assert!(read(br#"{"/ethdev/stats":null}"#).is_err());
    }
}
