//! Open vSwitch with its DPDK datapath: a bridge that forwards by address, on one core.
//!
//! ```text
//!   ovsdb-server ◀─db.sock─ ovs-vswitchd ─── one PMD thread on its core ─── vhost-user ports
//! ```
//!
//! It needs no mount for its huge pages: it has DPDK keep them in memory (`--in-memory`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use units::Rate;

use super::{Port, Rig, networks};
use crate::bridge::SWITCH;
use crate::ovs::{OpenVSwitch, sum};
use crate::program::{find, run};
use crate::{DeviceCounters, LabError};

/// Where Debian puts it: beside Open vSwitch's own program, whose name it may take by choice only.
const DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const PACKAGE: &str = "openvswitch-switch-dpdk";

/// Its memory: what it keeps of each ring and each large segment, without which it refuses rings.
const MEMORY_MIB: u32 = 128;

/// And for each port 22,560 buffers of 3 KiB, rounded up.
const PORT_MIB: u32 = 80;

/// The least that may come at once, in thousands of bits: ten long frames.
const LEAST_BURST: u64 = 120;

/// Open vSwitch with DPDK, as long as its rig is up.
#[derive(Debug)]
pub struct OvsDpdk {
    switch: OpenVSwitch,
    ports: Vec<String>,
}

/// What Open vSwitch's threads have counted, all together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct PmdCounters {
    /// Frames that they took from ports.
    pub received: u64,
    /// Of those, the ones whose way the exact-match cache knew.
    pub emc_hits: u64,
    /// The ones whose way the datapath's classifier knew.
    pub megaflow_hits: u64,
    /// The ones whose way was asked for.
    pub misses: u64,
    /// Cycles in which frames were handled.
    pub processing_cycles: u64,
    /// Cycles in which ports were looked at and had none.
    pub idle_cycles: u64,
    /// Turns around all ports.
    pub turns: u64,
    /// Those of them that found nothing.
    pub empty_turns: u64,
}

/// What Open vSwitch has counted at one vhost-user port.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct VhostCounters {
    /// Frames in and out, as the switch sees them; none before the first connection.
    /// `tx_dropped` is what it gave up for want of room.
    pub device: Option<DeviceCounters>,
    /// Its own counters of this kind of port, by its own names: `ovs_tx_failure_drops`,
    /// `ovs_tx_retries`.
    pub own: BTreeMap<String, u64>,
}

impl OvsDpdk {
    /// Huge pages of 2 MiB that it takes with so many ports.
    pub fn pages(ports: usize) -> u64 {
        u64::from(memory_mib(ports)) / 2
    }

    /// Bytes of the longest frame that it carries from one machine to another with offload. DPDK's
    /// vhost (22.11) counts the buffer that it copies one into in 16 bits, with 128 bytes of
    /// headroom before the frame and 32 of its own behind it.
    pub const LONGEST: u32 = 65_368;

    /// Starts it with a PMD thread that polls these ports, and tells it where each address is. With
    /// `offload` it takes large segments from one machine to another as they are. Each network of
    /// theirs is a VLAN, at whose ports frames are untagged.
    ///
    /// # Errors
    ///
    /// [`LabError`]; what was started ends with the rig.
    pub fn up(rig: &Rig<'_>, ports: &[Port], offload: bool) -> Result<Self, LabError> {
        Self::check()?;
        let settings = [
            // It offers that to none of its ports otherwise.
            format!("other_config:userspace-tso-enable={offload}"),
            "other_config:dpdk-init=true".to_owned(),
            // No device of the host's is ours to take.
            "other_config:dpdk-extra=--no-pci".to_owned(),
            format!("other_config:pmd-cpu-mask={}", mask(rig.core)),
            // Otherwise it takes what there is for the buffers that all ports share, when the first
            // front-end has come, and for as long as it tries out how much that is, it has no
            // memory for the next.
            "other_config:per-port-memory=true".to_owned(),
            format!("other_config:dpdk-socket-limit={}", memory_mib(ports.len())),
        ];
        let switch = OpenVSwitch::start(&rig.ground, DAEMON.into(), &settings)?;
        let mut bridge = switch.configure();
        bridge.args(["add-br", SWITCH, "--", "set", "bridge", SWITCH, "datapath_type=netdev"]);
        let networks = networks(ports);
        let vlan = |port: &Port| {
            let place = networks.iter().position(|network| port.network.as_ref() == Some(*network));
            place.map_or(0, |place| place as u16 + 1)
        };
        for (number, port) in (1..).zip(ports) {
            let name = &port.name;
            bridge.args(["--", "add-port", SWITCH, name]);
            if let vlan @ 1.. = vlan(port) {
                bridge.arg(format!("tag={vlan}"));
            }
            bridge.args(["--", "set", "interface", name]);
            bridge.arg(format!("ofport_request={number}"));
            bridge.arg("type=dpdkvhostuserclient");
            bridge.arg(format!("options:vhost-server-path={}", port.socket.display()));
        }
        switch.apply(&mut bridge)?;
        for port in ports {
            switch.pin(&port.name, vlan(port), port.mac)?;
        }
        Ok(Self { switch, ports: ports.iter().map(|port| port.name.clone()).collect() })
    }

    /// Takes no more than this of what comes in by a port, of packets without their Ethernet
    /// header; it drops the rest. After a rest a millisecond's worth may come at once.
    ///
    /// # Errors
    ///
    /// [`LabError::Program`] if it does not answer.
    pub fn police(&self, port: &Port, rate: Rate) -> Result<(), LabError> {
        // In thousands of bits.
        let rate = (rate.bits_per_sec() / 1000).max(1);
        let burst = (rate / 1000).max(LEAST_BURST);
        let mut change = self.switch.configure();
        change.args(["set", "interface", &port.name]);
        change.arg(format!("ingress_policing_rate={rate}"));
        self.switch.apply(change.arg(format!("ingress_policing_burst={burst}")))
    }

    /// Has it forward by these OpenFlow rules alone, a line each as `ovs-ofctl add-flows` reads
    /// them (ovs-ofctl(8)); it knows ports by their place, from 1 on.
    ///
    /// # Errors
    ///
    /// [`LabError`] if it does not take them.
    pub fn flows(&self, flows: &str) -> Result<(), LabError> {
        let file = self.switch.file("flows");
        std::fs::write(&file, flows).map_err(LabError::file(&file))?;
        let mut order = self.switch.at_home(Command::new(ofctl()?));
        order.args(["--protocols=OpenFlow14", "--bundle", "replace-flows", SWITCH]);
        run(order.arg(&file)).map(drop)
    }

    /// Whether it can be brought up on this machine.
    ///
    /// # Errors
    ///
    /// [`LabError::Missing`]
    pub fn check() -> Result<(), LabError> {
        crate::ovs::programs()?;
        ofctl()?;
        if Path::new(DAEMON).is_file() {
            return Ok(());
        }
        Err(LabError::Missing { program: "ovs-vswitchd-dpdk", package: PACKAGE })
    }

    /// Whether each of its ports has its front-end: what goes to one that has none yet is dropped.
    ///
    /// # Errors
    ///
    /// [`LabError::Program`] if it does not answer.
    pub fn is_connected(&self) -> Result<bool, LabError> {
        let mut ask = self.switch.configure();
        let said = run(ask
            .args(["--bare", "--columns=link_state", "list", "interface"])
            .args(&self.ports))?;
        Ok(said.lines().filter(|line| *line == "up").count() == self.ports.len())
    }

    /// What its threads have counted.
    ///
    /// # Errors
    ///
    /// [`LabError::Program`] if it does not answer.
    pub fn threads(&self) -> Result<PmdCounters, LabError> {
        Ok(PmdCounters::read(&self.switch.threads()?, &self.switch.turns()?))
    }

    /// What its ports have counted, in the order in which they were given.
    ///
    /// # Errors
    ///
    /// [`LabError::Program`] if it does not answer.
    pub fn ports(&self) -> Result<Vec<VhostCounters>, LabError> {
        let mut ask = self.switch.at_home(Command::new(ofctl()?));
        // Its own counters came with OpenFlow 1.4.
        let said = run(ask.args(["--protocols=OpenFlow14", "dump-ports", SWITCH]))?;
        let mut counters = read_ports(&said);
        Ok((1..=self.ports.len())
            .map(|number| counters.remove(&number.to_string()).unwrap_or_default())
            .collect())
    }
}

impl PmdCounters {
    fn read(threads: &str, turns: &str) -> Self {
        let turn = |name| sum(turns, name);
        let sum = |name| sum(threads, name);
        Self {
            received: sum("packets received:"),
            emc_hits: sum("emc hits:"),
            megaflow_hits: sum("megaflow hits:"),
            misses: sum("miss with success upcall:") + sum("miss with failed upcall:"),
            processing_cycles: sum("processing cycles:"),
            idle_cycles: sum("idle cycles:"),
            turns: turn("Iterations:"),
            empty_turns: turn("- idle iterations:"),
        }
    }

    /// What was counted since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            received: self.received - before.received,
            emc_hits: self.emc_hits - before.emc_hits,
            megaflow_hits: self.megaflow_hits - before.megaflow_hits,
            misses: self.misses - before.misses,
            processing_cycles: self.processing_cycles - before.processing_cycles,
            idle_cycles: self.idle_cycles - before.idle_cycles,
            turns: self.turns - before.turns,
            empty_turns: self.empty_turns - before.empty_turns,
        }
    }

    /// Cycles that a frame took; none if there was no frame.
    pub fn cycles_per_frame(self) -> Option<f64> {
        (self.received > 0).then(|| self.processing_cycles as f64 / self.received as f64)
    }
}

/// Ports by their numbers: `port  3: rx pkts=7, bytes=448, drop=0, …` and lines of `tx pkts=…` and
/// `name=number` after it. What it does not know it writes as `?`.
fn read_ports(said: &str) -> BTreeMap<String, VhostCounters> {
    let mut ports = BTreeMap::new();
    for part in said.split("\n  port ").skip(1) {
        let Some((number, counters)) = part.split_once(':') else { continue };
        ports.insert(number.trim().trim_matches('"').to_owned(), read_port(counters));
    }
    ports
}

fn read_port(counters: &str) -> VhostCounters {
    let (columns, own) = counters.split_once("CUSTOM Statistics").unwrap_or((counters, ""));
    let columns = |direction: &str| {
        let from = columns.find(direction).map_or("", |at| &columns[at + direction.len()..]);
        numbers(from.lines().next().unwrap_or_default())
    };
    let (rx, tx) = (columns("rx "), columns("tx "));
    let device = || {
        Some(DeviceCounters {
            rx_packets: *rx.get("pkts")?,
            rx_bytes: *rx.get("bytes")?,
            rx_dropped: *rx.get("drop")?,
            tx_packets: *tx.get("pkts")?,
            tx_bytes: *tx.get("bytes")?,
            tx_dropped: *tx.get("drop")?,
        })
    };
    VhostCounters { device: device(), own: numbers(own) }
}

/// `name=number, name=number, …`, whatever else there is left out.
fn numbers(text: &str) -> BTreeMap<String, u64> {
    let pair = |word: &str| {
        let (name, number) = word.trim().split_once('=')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.split([',', ' ', '\n']).filter_map(pair).collect()
}

fn memory_mib(ports: usize) -> u32 {
    MEMORY_MIB + PORT_MIB * ports as u32
}

/// A set of one core in hexadecimal digits, of which there may be hundreds.
fn mask(core: usize) -> String {
    format!("{:x}{}", 1 << (core % 4), "0".repeat(core / 4))
}

fn ofctl() -> Result<PathBuf, LabError> {
    find("ovs-ofctl")
        .ok_or(LabError::Missing { program: "ovs-ofctl", package: "openvswitch-switch" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_a_bit() {
        assert_eq!([0, 1, 3, 4, 31].map(mask), ["1", "2", "8", "10", "80000000"]);
    }

    #[test]
    fn what_ports_say_is_read() {
        let said = "\
OFPST_PORT reply (OF1.4) (xid=0x2): 3 ports
  port  2: rx pkts=3210912, bytes=205498368, drop=1, errs=?, frame=?, over=?, crc=?
           tx pkts=3210880, bytes=205496320, drop=7, errs=?, coll=?
           duration=6.022s
           rx rfc2819 1_to_64_packets=3210912, 65_to_127_packets=0,
           tx rfc2819 1_to_64_packets=3210880, multicast_packets=0,
           CUSTOM Statistics
                      ovs_tx_retries=3, ovs_tx_failure_drops=7, ovs_tx_mtu_exceeded_drops=0,
                      rx_q0_good_packets=3210912, tx_q0_inflight_completed=0,
  port LOCAL: rx pkts=0, bytes=0, drop=5, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=0, errs=0, coll=0
           duration=64.217s
  port  1: rx pkts=?, bytes=?, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=?, bytes=?, drop=?, errs=?, coll=?
           duration=26.613s
           CUSTOM Statistics
                      ovs_tx_retries=0, ovs_tx_failure_drops=9,
";
        let ports = read_ports(said);
        assert_eq!(ports.len(), 3);
        let device = DeviceCounters {
            rx_packets: 3_210_912,
            rx_bytes: 205_498_368,
            rx_dropped: 1,
            tx_packets: 3_210_880,
            tx_bytes: 205_496_320,
            tx_dropped: 7,
        };
        assert_eq!(ports["2"].device, Some(device));
        assert_eq!(
            (ports["2"].own["ovs_tx_retries"], ports["2"].own["ovs_tx_failure_drops"]),
            (3, 7)
        );
        assert_eq!(ports["2"].own["rx_q0_good_packets"], 3_210_912);
        assert_eq!(ports["LOCAL"].device.unwrap().rx_dropped, 5);
        // Open vSwitch does not know what a port of its own socket carried, only what it dropped.
        assert_eq!((ports["1"].device, ports["1"].own["ovs_tx_failure_drops"]), (None, 9));
    }

    #[test]
    fn what_threads_say_is_added_up() {
        let said = "\
pmd thread numa_id 0 core_id 0:
  packets received: 5749504
  avg. datapath passes per packet: 1.00
  emc hits: 5749000
  megaflow hits: 502
  avg. subtable lookups per megaflow hit: 1.00
  miss with success upcall: 2
  miss with failed upcall: 0
  idle cycles: 2003050128 (33.25%)
  processing cycles: 4020969055 (66.75%)
  avg cycles per packet: 1047.75 (6024019183/5749504)
  avg processing cycles per packet: 699.36 (4020969055/5749504)
main thread:
  packets received: 4
  emc hits: 0
";
        let turns = "\
pmd thread numa_id 0 core_id 0:

  Iterations:              9999  (0.17 us/it)
  - Used TSC cycles: 4800000000  (100.1 % of total cycles)
  - idle iterations:       7000  (  7.3 % of used cycles)
  - busy iterations:       2999  ( 92.7 % of used cycles)
";
        let threads = PmdCounters::read(said, turns);
        let expected = PmdCounters {
            received: 5_749_508,
            emc_hits: 5_749_000,
            megaflow_hits: 502,
            misses: 2,
            processing_cycles: 4_020_969_055,
            idle_cycles: 2_003_050_128,
            turns: 9999,
            empty_turns: 7000,
        };
        assert_eq!(threads, expected);
        assert_eq!(threads.since(threads).cycles_per_frame(), None);
    }
}
