//! BFD's thread: receives, sends, then rests briefly so that packets can be handled in batches.

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver as Inbox, TryRecvError};

use kernel::thread::schedule;
use rustix::event::{PollFd, PollFlags, poll};
use underlay::single_hop::{Datagram, Receiver, Sender, Sent};
use units::{Instant, Span};

use super::shared::Order;
use super::table::Table;
use kernel::clock::{Watched, now, thread_time, timespec};

/// How long the thread rests after it has done something. Packets are late by at most this.
const REST: Span = Span::from_millis(1);

/// The most batches that are received before sending: as many as a full socket buffer holds. So a
/// flood of packets cannot keep the thread from sending.
const BATCHES: usize = 256;

/// The thread's priority, the same as the switch's: a host that does not receive our packets in
/// time declares the path down.
const NICE: i32 = -10;

/// How long it runs before other waiting threads get their turn.
const SLICE: Span = Span::from_micros(100);

/// Runs until the sender of orders is dropped, then notifies the far ends.
pub(super) fn run(receiver: Receiver, sender: Sender, table: Table, orders: &Inbox<Order>) {
    if let Err(error) = schedule(NICE, SLICE).or_else(|_| schedule(0, SLICE)) {
        tracing::debug!(%error, "BFD's thread may have to wait for others");
    }
    let mut end = End { receiver, sender, table, clock: Watched::new(now()) };
    let mut sleep = Some(Span::ZERO);
    while end.obey_all(orders) {
        let began = end.clock.look(now(), sleep, thread_time);
        let heard = end.hear(began);
        let spoke = end.speak(began);
        end.table.shared.counters.busy_ns.set(thread_time().as_nanos());
        sleep = if heard || spoke {
            std::thread::sleep(REST.into());
            Some(REST)
        } else {
            end.sleep(began)
        };
    }
    end.table.hold_all_down();
    end.speak(end.clock.now());
}

struct End {
    receiver: Receiver,
    sender: Sender,
    table: Table,
    /// The time by which far ends are judged.
    clock: Watched,
}

impl End {
    /// Executes waiting orders. Returns `false` if the sender of orders was dropped.
    fn obey_all(&mut self, orders: &Inbox<Order>) -> bool {
        loop {
            match orders.try_recv() {
                Ok(Order::Open(path, watch)) => self.table.open(path, watch),
                Ok(Order::Close(path)) => {
                    self.table.hold_down(path);
                    self.speak(self.clock.now());
                    self.table.forget(path);
                }
                Ok(Order::SetKeys(keys)) => self.table.set_keys(keys),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Receives waiting packets. Returns whether there were any.
    fn hear(&mut self, now: Instant) -> bool {
        let mut heard = false;
        for _ in 0..BATCHES {
            let more = self.receiver.receive(|received| {
                heard = true;
                self.table.take(now, received);
            });
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(%error, "BFD cannot hear");
                    return true;
                }
            }
        }
        heard
    }

    /// Sends packets that are due. Returns whether there were any.
    fn speak(&mut self, now: Instant) -> bool {
        let mut spoke = false;
        while let Some(due) = self.table.due(now) {
            spoke = true;
            if self.sender.is_full() {
                self.flush();
            }
            let (source, destination) = (due.source, due.destination);
            self.sender.push(Datagram { source, destination, payload: due.payload() });
        }
        if spoke {
            self.flush();
        }
        spoke
    }

    fn flush(&mut self) {
        let Sent { taken, refused } = self.sender.flush();
        let counters = &self.table.shared.counters;
        counters.sent.add(taken as u64);
        counters.unsent.add(refused as u64);
    }

    /// Sleeps until a packet or an order arrives, or a timer expires. Returns how long it meant to
    /// at the most.
    fn sleep(&self, now: Instant) -> Option<Span> {
        let sleep = self.table.deadline().map(|due| due.since(now));
        let wait = sleep.map(timespec);
        let shared = &self.table.shared;
        let mut sources = [
            PollFd::from_borrowed_fd(self.receiver.as_fd(), PollFlags::IN),
            PollFd::new(&shared.ordered, PollFlags::IN),
        ];
        match poll(&mut sources, wait.as_ref()) {
            Ok(_) if sources[1].revents().contains(PollFlags::IN) => shared.ordered.silence(),
            // A signal interrupted the sleep. The next turn finds out whether there is work.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll(2) on our own two descriptors: {error}"),
        }
        sleep
    }
}
