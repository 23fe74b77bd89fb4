//! What hosts do where congestion is controlled: frames wait in their [ways](Ways), and reports
//! come and go.

use units::hash;

use super::{Hosts, Surroundings};
use crate::clock::{Burst, Clock, Event, Maker};
use crate::congestion::{Answer, REPORT, Turn, Ways};
use crate::events::EventList;
use crate::fabric::{Filter, Sampled};
use crate::packet::{Handle, Load, Packet, Packets, Queue};

impl Hosts {
    pub(super) fn ways(&mut self) -> &mut Ways {
        self.ways.as_mut().expect("congestion is controlled")
    }

    /// Has a burst that goes to a far host wait in its way, as long as it must. Whether it has one.
    #[inline(never)]
    pub(super) fn hold_back<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
        burst: Burst,
    ) -> bool {
        let from = self.host_of(machine);
        let Packet { host, lane, hash, .. } = with.packets[burst.0];
        if host == from || !self.ways().controls(lane) {
            return false;
        }
        let way = self.ways().number(machine, host, lane, hash);
        let mut next = Some(burst.0);
        while let Some(handle) = next {
            next = Queue::after(with.packets, handle);
            self.ways().push(with.packets, from, way, handle);
        }
        self.let_go(with, from, lane);
        true
    }

    /// Has frames of a host leave in turn, as many as windows and its NIC allow.
    fn let_go<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        lane: u8,
    ) {
        let nic = self.hosts[number as usize].nic;
        loop {
            // One frame behind the one that is sent keeps a link busy. Another could not be
            // overtaken by a way whose turn it is.
            if with.fabric.queued(nic, lane) > 0 {
                self.hosts[number as usize].nic_full |= 1 << lane;
                return;
            }
            let now = with.clock.now();
            match self.ways().next(with.packets, now, number, lane) {
                None => return,
                Some(Turn::Wake { way, at }) => {
                    with.clock.at(at, Maker(number), Event::Allow { way });
                }
                Some(Turn::Look { way, at }) => {
                    with.clock.at(at, Maker(number), Event::Ask { way });
                }
                Some(Turn::Send { way, machine, handle, has_room }) => {
                    self.go(with, machine, handle);
                    if has_room {
                        self.wake_way(with.clock, number, way);
                    }
                    self.ways().forget_if_idle(way);
                }
            }
        }
    }

    /// Has a frame go from its way into its host's switch.
    fn go<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        machine: u32,
        handle: Handle,
    ) {
        let from = self.target(machine);
        let lane = with.packets[handle].lane;
        if self.has_backlog(machine, lane) || !self.enter(with, from, handle) {
            let place = self.place(machine, lane);
            self.hosts[from.host as usize].blocked += u32::from(self.backlogs[place].is_empty());
            self.backlogs[place].push(with.packets, handle);
        }
        self.pump(with, from.host);
    }

    fn wake_way<L: EventList<Event>>(&mut self, clock: &mut Clock<L>, number: u32, way: u32) {
        for flow in self.ways().wake(way) {
            clock.at(clock.now(), Maker(number), Event::Pace { flow });
        }
    }

    /// A NIC has sent a frame of these lanes, or was let go.
    #[inline(never)]
    pub(super) fn let_go_all<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        lanes: u8,
    ) {
        for lane in (0..8).filter(|lane| lanes & 1 << lane != 0) {
            self.let_go(with, number, lane);
        }
    }

    /// A way that is paced may send.
    pub(crate) fn allow<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, way: u32) {
        let now = with.clock.now();
        if self.ways().is_due(way, now) {
            self.resume(with, way);
        }
    }

    /// A host's switch tells of paused flows.
    pub(crate) fn obey<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        lane: u8,
        told: Filter,
    ) {
        self.ways().obey(number, lane, told);
        self.let_go(with, number, lane);
    }

    /// A way's window may have room.
    fn resume<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, way: u32) {
        let (machine, lane) = self.ways().sender(way);
        let number = self.host_of(machine);
        self.ways().line_up(number, way);
        self.let_go(with, number, lane);
    }

    /// A frame has come to a host by its link. Whether it was a report, which goes no further.
    #[inline(never)]
    pub(super) fn note<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        handle: Handle,
    ) -> bool {
        let now = with.clock.now();
        let Packet { load, lane, bytes, marked, .. } = with.packets[handle];
        if let Some(downlinks) = &mut self.downlinks {
            downlinks.arrived(with.clock.instant(), number, bytes, marked);
        }
        if let Load::Report { report, .. } = load {
            with.packets.remove(handle);
            self.ways().handle_report(now, report);
            self.resume(with, report.way);
            return true;
        }
        if let Load::Notice { way, feedback, .. } = load {
            with.packets.remove(handle);
            self.ways().handle_notice(now, way, feedback);
            return true;
        }
        if let Load::Ask { way, sent, .. } = load {
            with.packets.remove(handle);
            self.hear_ask(with, number, way, sent);
            return true;
        }
        if self.ways().controls(lane) {
            let finds_room = self.hosts[number as usize].waiting & 1 << lane == 0;
            let ways = self.ways.as_mut().expect("congestion is controlled");
            let (way, answer) = ways.arrive(with.packets, now, handle, finds_room);
            if self.downlinks.is_some() {
                self.charge(with, number, way, bytes);
            }
            match answer {
                // A grant may have told of it.
                Answer::Now if self.ways().has_news(way) => self.report(with, number, way),
                Answer::By(due) => {
                    with.clock.at(due, Maker(number), Event::Report { host: number, way });
                }
                Answer::Now | Answer::Nothing => {}
            }
        }
        false
    }

    /// What a switch tells the sender of a frame that it has sampled.
    #[cold]
    pub(crate) fn notice(&mut self, packets: &mut Packets, sampled: Sampled) -> Handle {
        let ways = self.ways.as_ref().expect("congestion is controlled");
        let Sampled { handle, feedback } = sampled;
        let way = ways.owner(handle);
        let (machine, _) = ways.sender(way);
        let met = packets[handle].target();
        let from = self.hosts[met.host as usize].machines.start + u32::from(met.slot);
        let load = Load::Notice { from, way, feedback };
        let (to, lane) = (self.machines[machine as usize], ways.report_lane());
        packets.insert(Packet::new(REPORT, to, hash::murmur32(way), lane, false, load))
    }

    /// A report is due, unless it was sent with a later frame.
    pub(crate) fn report_if_due<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        way: u32,
    ) {
        let now = with.clock.now();
        if self.ways().owes(way, now) {
            self.report(with, number, way);
        }
    }

    /// A host tells the sender of a way what has arrived, and how far it may be sent.
    pub(super) fn report<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        way: u32,
    ) {
        let Self { ways, hosts, machines, .. } = self;
        let ways = ways.as_mut().expect("congestion is controlled");
        let host = &hosts[number as usize];
        let (nic, from) = (host.nic, host.machines.start);
        let (machine, _) = ways.sender(way);
        let load = Load::Report { from, report: ways.take_report(way) };
        let (to, lane) = (machines[machine as usize], ways.report_lane());
        let packet = Packet::new(REPORT, to, hash::murmur32(way), lane, false, load);
        let handle = with.packets.insert(packet);
        with.fabric.send(with.clock, with.packets, nic, handle);
    }
}
