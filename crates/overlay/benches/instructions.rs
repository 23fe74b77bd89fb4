//! What a frame to another host costs, and whether idle hosts beside cost it anything.
//!
//! `cargo bench -p overlay --bench instructions`. Two hosts in one process, each with a plane and
//! sockets on loopback. Both ends of the way are counted, and the kernel is not.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::Arc;

use datapath::{Directory, Network};
use lossless::{PortConfig, PortId, Settings};
use model::{BfdStatus, Member, NetworkName, NetworkSpec, Uplink, VtepList};
use overlay::{Monitor, Overlay, Topology};
use plane::{NoGate, NoResponder, Plane};
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair};
use units::{Instant, Mac, Span};
use wire::ethernet::{self, ethertype};
use zerocopy::IntoBytes;

const CASES: [callgrind::Case<'_>; 2] = [("one far host", 9300.0), ("4096 far hosts", 9300.0)];

/// How many frames leave at once.
const BATCH: u32 = 32;

const LEN: usize = 200;

fn main() -> ExitCode {
    callgrind::main("frame", &CASES, 8_000, |case, frames| {
        let hosts = if case == CASES[0].0 { 1 } else { 4096 };
        let mut here = Host::new(0, hosts);
        let mut there = Host::new(1, 1);
        let mut now = Instant::ZERO + Span::from_secs(1);
        let mut carried = 0;
        while carried < frames {
            here.send();
            // No timer of an idle host falls due.
            now += Span::from_nanos(100);
            here.turn(now);
            there.turn(now);
            carried += there.receive();
            here.turn(now);
        }
        carried
    })
}

/// Watches nothing.
struct Blind;

impl Monitor for Blind {
    fn watch(&mut self, _: &[IpAddr]) {}

    fn set_keys(&mut self, _: &Arc<seal::Keys>) {}

    fn events(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn each(&self, _: &mut dyn FnMut(IpAddr, Option<bool>)) {}

    fn status(&self, _: IpAddr) -> Option<BfdStatus> {
        None
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Where a host's socket is. Nobody is at those beyond the first two. A case runs twice at once:
/// each process has addresses of its own.
fn loopback(host: u32) -> IpAddr {
    let process = 1 + std::process::id() % 200;
    Ipv4Addr::from_bits((127 << 24) + (process << 16) + 1 + host).into()
}

/// A host as networks know it.
fn vtep(host: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xc612_0001 + host).into()
}

/// A host with one machine, whose number is that of the host.
struct Host {
    plane: Plane<MemoryPort, Overlay>,
    port: PortId,
    end: MemoryEnd,
    frame: Vec<u8>,
}

impl Host {
    /// The host of this number, which knows so many others: first the other of the two that talk.
    fn new(number: u32, others: u32) -> Self {
        let now = Instant::ZERO + Span::from_millis(1);
        let settings = Settings::default();
        let mut plane =
            Plane::with_stages(settings, datapath::Settings::default(), NoResponder, NoGate);
        let uplink = Uplink { bfd: None, ..Uplink::new(VtepList::from(loopback(number))) };
        let monitor = |_, _| Box::new(Blind) as Box<dyn Monitor>;
        let overlay = Overlay::new(&uplink, None, || 1, &settings, monitor).expect("it has root");
        plane.attach_uplink(now, overlay, PortConfig::default()).expect("there is a port");
        let (device, end) = pair(MemoryConfig { slots: 256, slot_size: 2048 });
        let network = Network::new(1).expect("it is a number");
        let forwarding = datapath::PortConfig { network, ..Default::default() };
        let config = PortConfig::default();
        let port = plane.attach(now, device, config, forwarding).expect("there is a port");
        plane.datapath_mut().pin(port, Mac::local(number), 0);

        let hosts = [number, 1 - number].into_iter().chain(2..others + 1);
        let member = |host| Member {
            mac: Mac::local(host),
            addresses: Vec::new(),
            vtep: vtep(host).into(),
            label: host + 1,
        };
        let name = NetworkName("n".into());
        let spec = NetworkSpec::new(name, 7, hosts.map(member).collect());
        let directory = Directory::new(&[spec], &vtep(number).into()).expect("it stands");
        let delta = Topology::default().advance(&directory);
        let real = |vtep: &VtepList| {
            let IpAddr::V4(vtep) = vtep.first() else { unreachable!("all are of one family") };
            VtepList::from(loopback(vtep.to_bits() - 0xc612_0001))
        };
        let hosts: Vec<_> = delta.hosts.iter().map(|(peer, vtep)| (*peer, real(vtep))).collect();
        let [(_, declared)] = &delta.networks[..] else { unreachable!("there is one network") };
        let (overlay, _) = plane.peers_mut().expect("there is an uplink");
        overlay.follow(now, &[], &hosts, &[(network, declared.clone())]);
        plane.datapath_mut().declare(network, declared.clone());
        let header =
            ethernet::Header::new(Mac::local(1 - number), Mac::local(number), ethertype::IPV4);
        let frame = [header.as_bytes(), &[0; LEN - 14]].concat();
        Self { plane, port, end, frame }
    }

    fn send(&mut self) {
        let sent = (0..BATCH).take_while(|_| self.end.send(&self.frame).is_ok());
        if sent.count() > 0 {
            self.plane.mark_rx_ready(self.port.index());
        }
    }

    fn receive(&mut self) -> u64 {
        self.end.receive(BATCH as usize, |_| {}) as u64
    }

    /// Turns until nothing moves.
    fn turn(&mut self, now: Instant) {
        loop {
            let (overlay, _) = self.plane.peers_mut().expect("there is an uplink");
            overlay.links_mut().iter_mut().for_each(|link| link.mark_rx_ready());
            let received = overlay.receive(now, None);
            self.plane.handle_peer_timeouts(now);
            let moved = self.plane.turn(now);
            let (overlay, _) = self.plane.peers_mut().expect("there is an uplink");
            overlay.flush(now, None);
            if !received && !moved {
                return;
            }
        }
    }
}
