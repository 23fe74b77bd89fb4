//! The same between virtual machines: the switch with its own ports, and drivers of rings with
//! nothing behind them.

use std::path::Path;
use std::time::Duration;

use forwarding::Cycles;
use lossless::{ClassKind, Classes, PortConfig, Settings};
use plane::{NoGate, NoPeers, NoResponder, Plane};
use units::{Instant, Mac};
use vhost::nic::{Nic, NicConfig};
use vhost::port::{Link, Mode, VhostConfig, VhostPort};
use vhost::socket::{Access, connect};
use wire::Offload;
use wire::ethernet::{Header, ethertype};
use zerocopy::IntoBytes;

/// The frames of a round: what the plane takes in a visit.
const BURST: usize = 64;

/// Places in each ring, as in a virtual machine's.
const RING: u16 = 256;

/// A machine that sends to another, to be driven a round at a time.
pub struct Machines {
    plane: Plane<VhostPort, NoPeers, NoResponder, NoGate, Cycles>,
    sender: Nic,
    receiver: Nic,
}

impl Machines {
    /// Two machines whose rings run, their ways known, nothing sent. Sockets and records are made
    /// in `directory`.
    ///
    /// # Panics
    ///
    /// If the machine that this runs on does not have what they need.
    pub fn new(kind: ClassKind, size: u32, directory: &Path) -> Self {
        let switch = Settings { classes: Classes::all(kind), ..Settings::default() };
        let mut plane =
            Plane::with_stages(switch, datapath::Settings::default(), NoResponder, NoGate);
        let mut attach = |number: u32| {
            let socket = directory.join(format!("{number}.sock"));
            let config = VhostConfig {
                socket: socket.clone(),
                mode: Mode::Listen(Access::Owner),
                queue_pairs: 1,
                mtu: 1500,
                frames: 1024,
                records: directory.join(format!("{number}.rings")),
                polled: true,
            };
            let mut port = VhostPort::attach(config, None).expect("a directory of our own");
            let config = NicConfig {
                ring: RING,
                longest: 1514,
                offload: false,
                huge: false,
                timeout: Duration::from_secs(10),
            };
            let mut nic = Nic::new(&config).expect("memory for a card");
            std::thread::scope(|scope| {
                let front = scope.spawn(|| nic.connect(connect(&socket).expect("we listen")));
                while !front.is_finished() {
                    port.wake();
                }
                front.join().expect("a front-end does not panic").expect("our own back-end");
            });
            // Its last request wants no answer.
            port.wake();
            assert_eq!(port.link(), Link::Up);
            let served = PortConfig { permits: plane::PERMITS, ..PortConfig::default() };
            let id = plane
                .attach(Instant::ZERO, port, served, datapath::PortConfig::default())
                .expect("few ports");
            plane.datapath_mut().pin(id, Mac::local(number), 0);
            nic
        };
        let [mut sender, receiver] = [0, 1].map(&mut attach);
        let header = Header::new(Mac::local(1), Mac::local(0), ethertype::IPV4);
        sender.prepare(size as usize, Offload::NONE, |_, frame| frame.write(0, header.as_bytes()));
        Self { plane, sender, receiver }
    }

    /// A burst, a turn of the switch, and all that the receiver was given. Returns how many frames
    /// it got.
    pub fn round(&mut self, now: Instant) -> u64 {
        self.sender.send(BURST, |_, _| ());
        self.sender.publish();
        self.plane.mark_all_rx_ready();
        self.plane.turn(now);
        let taken = self.receiver.receive(usize::MAX, |_, _| ());
        self.receiver.publish();
        taken as u64
    }
}
