//! Virtual machines' ports from the guest's end of their rings.

use std::time::{Duration, Instant};

use model::{AgentSettings, PortName, PortSpec, PortState, PortStatus, SocketMode};
use rustix::process::Signal;
use units::{Mac, Span};
use vhost::features::{Features, ProtocolFeatures};
use vhost::front::{FrontConfig, FrontEnd};
use vhost::nic::{Nic, NicConfig};
use vhost::socket::{Access, Listener, connect};
use vhost::vring::Base;
use wire::Offload;
use wire::ethernet::Header;
use zerocopy::IntoBytes;

use super::host::Host;
use crate::common::{cpu_ns, until};

pub const RING: u16 = 256;
const CARD: NicConfig = NicConfig {
    ring: RING,
    longest: 1514,
    offload: false,
    huge: false,
    timeout: Duration::from_secs(60),
};
pub const LEN: usize = 100;

/// A guest's card, which waits for its switch at a socket.
pub struct Machine {
    pub listener: Listener,
    pub nic: Nic,
    pub mac: Mac,
}

impl Machine {
    pub fn new(host: &Host, number: u32) -> Self {
        let listener = Listener::bind(&host.path(&format!("vm{number}")), Access::Owner).unwrap();
        Self { listener, nic: Nic::new(&CARD).unwrap(), mac: Mac::local(number) }
    }

    pub fn port(&self, host: &Host) -> PortSpec {
        let name = self.listener.path().file_name().unwrap().to_str().unwrap();
        host.machine(name, SocketMode::Connect, Some(self.mac))
    }

    /// Waits for its switch.
    pub fn plug(&mut self) {
        let mut connection = None;
        until(|| {
            connection = self.listener.accept().unwrap();
            connection.is_some()
        });
        self.nic.connect(connection.unwrap()).unwrap();
    }

    pub fn sends_to(&mut self, to: Mac) {
        let header = Header::new(to, self.mac, 0x88b5);
        self.nic.prepare(LEN, Offload::NONE, |_, frame| frame.write(0, header.as_bytes()));
    }

    /// Sends frames with these numbers, as far as there is room, and moves on.
    pub fn send(&mut self, next: &mut u64, end: u64) {
        let most = (end - *next).min(64) as usize;
        self.nic.send(most, |_, frame| {
            frame.write(20, &next.to_le_bytes());
            *next += 1;
        });
        self.nic.publish();
    }

    /// The numbers of those frames that have come, at most so many.
    pub fn take(&mut self, most: usize, came: &mut Vec<u64>) {
        self.nic.receive(most, |frame, len| {
            assert_eq!(len, LEN);
            came.push(u64::from_le_bytes(frame.read(20)));
        });
        self.nic.publish();
    }
}

pub fn machines(host: &Host, count: u32) -> (Vec<Machine>, Vec<PortSpec>) {
    let machines: Vec<_> = (1..=count).map(|number| Machine::new(host, number)).collect();
    let ports = machines.iter().map(|machine| machine.port(host)).collect();
    (machines, ports)
}

fn name(number: u32) -> PortName {
    PortName(format!("vm{number}"))
}

#[test]
fn a_slow_receiver_holds_its_sender_and_gets_every_frame() {
    let mut host = Host::new();
    let (mut vms, ports) = machines(&host, 2);
    let client = host.start(AgentSettings::default(), ports);
    vms.iter_mut().for_each(Machine::plug);
    let [a, b] = &mut vms[..] else { unreachable!() };
    a.sends_to(b.mac);
    let (mut next, mut came) = (0, Vec::new());
    // The sender's ring and the receiver's: there is no other place.
    let most = u64::from(2 * RING);
    until(|| {
        a.send(&mut next, 100_000);
        b.take(1, &mut came);
        assert!(next <= came.len() as u64 + most, "the sender waits");
        came.len() >= 20_000
    });
    until(|| {
        a.send(&mut next, 100_000);
        b.take(64, &mut came);
        came.len() == 100_000
    });
    assert!(came.into_iter().eq(0..100_000), "every frame came once, in order");
    let status = client.status().unwrap();
    assert!(status.balanced);
    assert_eq!((status.ledger.delivered, status.ledger.refused_total()), (100_000, 0));
    assert!(status.ports.iter().all(|port| port.state == PortState::Up && port.notes.is_empty()));
    assert_eq!(host.end(Signal::TERM), Some(0));
}

/// Whatever ends an agent, the frames that it has taken over reach their receivers by the next one,
/// in order.
fn frames_survive(signal: Signal) {
    let mut host = Host::new();
    let (mut vms, ports) = machines(&host, 3);
    // Nobody waits for what cannot go.
    let settings = AgentSettings { drain: Span::from_millis(20), ..AgentSettings::default() };
    host.start(settings.clone(), ports.clone());
    vms.iter_mut().for_each(Machine::plug);
    let [a, b, c] = &mut vms[..] else { unreachable!() };
    a.sends_to(c.mac);
    let [even, odd] = [b.mac, c.mac];
    let (mut next, mut came, mut beside) = (0_u64, Vec::new(), Vec::new());
    for _ in 0..4 {
        // The second machine does not look, so its frames stay in the first one's ring, until
        // nothing else fits in there; the third one's go around them.
        let (mut last, mut quiet) = (0, Instant::now());
        until(|| {
            a.nic.send(64, |_, frame| {
                frame.write(0, if next % 2 == 0 { &even.0 } else { &odd.0 });
                frame.write(20, &next.to_le_bytes());
                next += 1;
            });
            a.nic.publish();
            c.take(64, &mut beside);
            if std::mem::replace(&mut last, next) != next {
                quiet = Instant::now();
            }
            a.nic.on_their_way() == usize::from(RING)
                && quiet.elapsed() > Duration::from_millis(100)
        });
        host.end(signal);
        host.start(settings.clone(), ports.clone());
        [&mut *a, &mut *b, &mut *c].into_iter().for_each(Machine::plug);
        until(|| {
            b.take(64, &mut came);
            c.take(64, &mut beside);
            a.nic.on_their_way() == 0
        });
    }
    until(|| {
        b.take(64, &mut came);
        came.len() + beside.len() >= next as usize
    });
    let every = |parity| (0..next).filter(move |number| number % 2 == parity);
    assert!(came.into_iter().eq(every(0)), "all that was stuck, once, in order");
    assert!(beside.into_iter().eq(every(1)), "all that went around it, once, in order");
}

#[test]
fn frames_survive_an_agent_that_is_stopped() {
    frames_survive(Signal::TERM);
}

#[test]
fn frames_survive_an_agent_that_is_killed() {
    frames_survive(Signal::KILL);
}

#[test]
fn a_stalled_guest_holds_nobody_but_its_own_senders_and_comes_back() {
    let mut host = Host::new();
    let (mut vms, ports) = machines(&host, 4);
    let settings = AgentSettings { stall_after: Span::from_secs(4), ..AgentSettings::default() };
    let client = host.start(settings, ports);
    vms.iter_mut().for_each(Machine::plug);
    let [a, b, c, d] = &mut vms[..] else { unreachable!() };
    a.sends_to(b.mac);
    c.sends_to(d.mac);
    let (mut stuck, mut next, mut came) = (0, 0, Vec::new());
    until(|| {
        a.send(&mut stuck, u64::MAX);
        c.send(&mut next, u64::MAX);
        d.take(64, &mut came);
        let port = client.port(&name(2)).unwrap();
        port.state == PortState::Stalled
            && port.egress.total.refused.get("stalled_receiver").is_some_and(|n| *n > 0)
    });
    assert!(
        came.iter().copied().eq(0..came.len() as u64),
        "the others lose nothing: {}",
        came.len()
    );
    let mut late = Vec::new();
    until(|| {
        b.take(64, &mut late);
        a.send(&mut stuck, u64::MAX);
        client.port(&name(2)).unwrap().state == PortState::Up
    });
    assert!(!late.is_empty() && late.is_sorted(), "{late:?}");
    assert!(client.status().unwrap().balanced);
}

#[test]
fn a_port_without_a_guest_is_down_and_says_that_it_is_stalled() {
    let mut host = Host::new();
    let (mut vms, ports) = machines(&host, 2);
    let settings =
        AgentSettings { stall_after: Span::from_millis(200), ..AgentSettings::default() };
    let client = host.start(settings, ports);
    let [a, b] = &mut vms[..] else { unreachable!() };
    a.plug();
    a.sends_to(b.mac);
    let mut next = 0;
    until(|| {
        a.send(&mut next, u64::MAX);
        let PortStatus { state, notes, .. } = client.port(&name(2)).unwrap();
        assert_eq!(state, PortState::Down);
        notes.iter().any(|note| note.starts_with("it is stalled as well"))
    });
}

#[test]
fn a_guest_whose_rings_contradict_themselves_is_quarantined_and_nobody_else_notices() {
    let mut host = Host::new();
    let (mut vms, mut ports) = machines(&host, 2);
    ports.push(host.machine("hostile", SocketMode::Listen, None));
    let client = host.start(AgentSettings::default(), ports);
    vms.iter_mut().for_each(Machine::plug);
    let [a, b] = &mut vms[..] else { unreachable!() };
    a.sends_to(b.mac);
    let config = FrontConfig {
        features: Features::of(&[Features::VERSION_1, Features::PROTOCOL_FEATURES]),
        protocol: ProtocolFeatures::REPLY_ACK,
        queue_pairs: 1,
        queue_size: RING,
        buffers: 4096,
        huge: false,
        timeout: CARD.timeout,
    };
    let mut front = FrontEnd::new(config).unwrap();
    let hostile = |client: &api::Client| client.port(&PortName("hostile".into())).unwrap();
    let plug = |front: &mut FrontEnd| {
        until(|| {
            // While it is quarantined, nobody lets it in, and its request is never answered.
            let connection = connect(&host.path("hostile")).unwrap();
            front.connect(connection).is_ok() && front.start(&[Base::Split(0); 2]).is_ok()
        });
    };
    plug(&mut front);
    assert_eq!(hostile(&client).state, PortState::Up);
    let (mut next, mut came) = (0, Vec::new());
    for times in 1..=2 {
        let (available, _) = front.memory(front.rings()[1].offsets[2]).unwrap();
        // SAFETY: the front-end has its rings mapped; the index is the second word of the available
        // ring.
        #[expect(unsafe_code, reason = "a guest writes to its rings by pointer")]
        unsafe {
            available.start.cast::<u16>().add(1).write_volatile(40_000);
        }
        rustix::io::write(&front.rings()[1].kick, &1_u64.to_ne_bytes()).unwrap();
        until(|| {
            a.send(&mut next, u64::MAX);
            b.take(64, &mut came);
            let PortStatus { state, notes, .. } = hostile(&client);
            let told = format!("its guest was quarantined, {times} times by now");
            state == PortState::Down
                && notes.iter().any(|note| note.starts_with(&told) && note.contains("40000"))
        });
        // A driver that begins anew is believed again.
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        unsafe {
            available.start.cast::<u16>().add(1).write_volatile(0);
        }
        plug(&mut front);
        assert_eq!(hostile(&client).state, PortState::Up);
    }
    assert!(came.iter().copied().eq(0..came.len() as u64), "the others lose nothing");
    assert!(client.status().unwrap().balanced);
}

#[test]
fn an_idle_agent_with_32_machines_costs_less_than_a_tenth_of_a_core() {
    let mut host = Host::new();
    let (mut vms, ports) = machines(&host, 32);
    let client = host.start(AgentSettings::default(), ports);
    vms.iter_mut().for_each(Machine::plug);
    assert!(client.status().unwrap().ports.iter().all(|port| port.state == PortState::Up));
    let (began, used) = (Instant::now(), cpu_ns(host.pid()));
    // Not for anything to happen: this is the time over which the agent's share is taken.
    std::thread::sleep(Duration::from_secs(3));
    let share = (cpu_ns(host.pid()) - used) as f64 / began.elapsed().as_nanos() as f64;
    // It is less than a hundredth where system calls are fast. Who polls would use all of it.
    assert!(share < 0.1, "an idle agent uses {:.2} % of a core", share * 100.0);
}
