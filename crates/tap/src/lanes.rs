//! Lanes: a slow receiver does not stand before others.
//!
//! The bucket of a container's interface holds everything back alike, in one queue. What is for a
//! receiver that takes frames more slowly than the container sends them would fill that queue, and
//! all else wait behind it. So it is *diverted* into a lane: a queue of its own before that bucket,
//! behind a bucket of its own.
//!
//! ```text
//!                ┌──── bucket of lane 1 ◀── queue ◀──┐
//!   read ◀─ ring ◀─ bucket ◀─ first, what a lane lets pass ─ steering ◀─ sockets
//!     (`credit`) └───────── common queue ◀───────────┘
//! ```
//!
//! **The rule.** A lane's bucket is filled when the ring was seen empty, something of the lane was
//! read since it was filled last, and the switch holds less of it than its part. So the switch
//! holds little of what is in a lane, and the sockets that send into it block; no socket that sends
//! elsewhere notices. It never stalls: a packet is held back only where tokens were spent, what was
//! spent is read before the ring is empty, and what the switch holds is delivered, or refused, in
//! the end.
//!
//! **Order.** When something is diverted, earlier frames of it may still wait in the common queue.
//! So a lane *opens* behind a gate, a frame of ours that uses up the lane's tokens before anything
//! diverted comes; and it is filled only when a mark has been read, a frame of ours that was sent
//! into the common queue after the last of those. (After it: a millisecond later, in which whoever
//! was sending at that moment has found its queue.) A lane *closes*, and what it was for is common
//! again, when the switch has held little of it for a while. Frames may wait in it even then: its
//! bucket lets all of them pass, and whatever a lane lets pass goes before what is common. It is
//! closed, and may open again, once an end has been read, a frame of ours behind the last of those.
//! Marks and ends that are not read are sent again: an interface that goes down loses what waits at
//! it.

mod key;
mod steering;

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use kernel::netlink::{
    Handle, Netlink, POSTED, Qdisc, QdiscClass, QdiscKind, QdiscStatus, encode, set_request,
};
use kernel::netns::Namespace;
use port::Like;

use self::key::Key;
use self::steering::{CLASSES, Failure, Loading, Steering};
use super::credit::{self, Kick, Own, Sent};

/// How many lanes there are at most. Where more receivers are slow, some share one. Each costs a
/// look before each packet that is common.
const LANES: usize = 8;

/// How many keys are diverted at most.
const MOST_KEYS: usize = 1024;

/// How many keys are diverted at once, and how long until more are: each takes several requests to
/// the kernel, and whoever opens many sockets must not keep the switch busy with them.
const AT_ONCE: usize = 2;
const PAUSE: Duration = Duration::from_millis(1);

/// How long nothing is diverted after something could not be.
const TRIES_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How long the switch holds little of a lane before it closes.
const CLOSES_AFTER: Duration = Duration::from_secs(1);

/// What counts of that at most between two looks at it.
const LOOKS_AFTER: Duration = Duration::from_millis(100);

/// The least part of a lane, in small frames. Its receiver has buffers of its own.
const LEAST_PART: u32 = 16;

/// How long until a mark or an end is sent again that was not read. Any one of a lane's turn does.
const SENT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A lane that is filled again sooner has a larger part the next time, one later a smaller part.
const OFTEN: Duration = Duration::from_millis(1);
const SELDOM: Duration = Duration::from_millis(10);

/// What a lane's bucket is filled to: any packet passes.
const BURST: u32 = credit::LARGEST;

/// What a packet costs at least where only one may pass.
const DEAR: u16 = u16::MAX;
const _: () = assert!(BURST < 2 * DEAR as u32);

/// What the bucket of a lane that closes is filled to: all that may wait in it passes.
const ALL: u32 = credit::LIMIT;

/// Where a discipline hangs that is inside the bucket.
const INSIDE: Handle = Handle(credit::BUCKET.0, 1);

/// The class of what is in no lane. It is minor number 1; lane `n` is `n + 1`.
const COMMON: Handle = Handle(CLASSES.0, 1);

/// The numbers of a lane's gate and of its end, whose addresses are diverted to it, are `GATE | n`
/// and `END | n`; its mark's is `n`.
const GATE: u8 = 0x80;
const END: u8 = 0x40;

/// Whether our queues hang in the bucket as [`Lanes::new`] has left them.
pub fn are_there(queues: &[QdiscStatus]) -> bool {
    let is_there = |parent, handle, kind| {
        queues
            .iter()
            .any(|queue| (queue.parent, queue.handle, &*queue.kind) == (parent, handle, kind))
    };
    is_there(INSIDE, CLASSES, "htb") && is_there(COMMON, queue(0), "pfifo")
}

/// How many packets may wait where their bytes are not counted: those that fill the bucket.
const PACKETS: u32 = credit::LIMIT / 64;

/// Puts the discipline that lanes hang in where it belongs. Without lanes, it is a plain queue.
fn install(at: &mut Interface<'_>, is_adopted: bool) -> Result<(), Failure> {
    let (netlink, link) = (&mut *at.netlink, at.link);
    let queues = netlink.qdiscs(link)?;
    if queues.iter().any(|queue| queue.handle == CLASSES && queue.kind == "htb") {
        // An earlier switch has left it. What waits in its lanes goes before all that is sent now.
        steering::remove(at.namespace, at.name)?;
        let lanes = (1..=LANES as u8).map(|number| lane_queue(number, ALL, 0));
        let is_there = |lane: &Qdisc| queues.iter().any(|queue| queue.handle == lane.handle);
        return Ok(lanes.filter(is_there).try_for_each(|lane| netlink.set_qdisc(link, lane))?);
    }
    if is_adopted {
        // To replace the queue would lose what waits in it.
        return Err("the interface was left by an agent that had none".into());
    }
    let kind = QdiscKind::Classes { default: COMMON.1, packets: PACKETS };
    netlink.set_qdisc(link, Qdisc { parent: INSIDE, handle: CLASSES, kind })?;
    netlink.set_class(link, class(0))?;
    let kind = QdiscKind::Fifo { packets: PACKETS };
    Ok(netlink.set_qdisc(link, Qdisc { parent: COMMON, handle: queue(0), kind })?)
}

/// The lanes of one interface.
#[derive(Debug)]
pub struct Lanes {
    /// What the switch may hold of all lanes together, in small frames.
    room: u32,
    keys: HashMap<Key, u8>,
    lanes: Vec<Lane>,
    program: Program,
    /// What is to be diverted, and when again something may be.
    wanted: Vec<Key>,
    opens_at: Option<Instant>,
    /// When lanes were looked at last.
    settled_at: Instant,
    /// Whether the ring was seen empty, and nothing was read from it since.
    seen_empty: bool,
    /// Why nothing is diverted, if so.
    fault: Option<Fault>,
}

/// The program that diverts: there from the time that something is to be diverted.
#[derive(Debug)]
enum Program {
    Absent,
    Loading(Loading),
    There(Steering),
}

#[derive(Debug)]
struct Fault {
    why: String,
    /// When it is worth another try; `None` if never.
    until: Option<Instant>,
}

/// What came of a [`settle`](Lanes::settle).
#[derive(Clone, Copy, Debug, Default)]
pub struct Settled {
    /// A kick is due.
    pub is_filled: bool,
    /// Nothing tells when the rest can be done.
    pub is_unfinished: bool,
}

#[derive(Debug)]
struct Lane {
    state: State,
    /// How often it has opened and closed: what its mark or end says that is waited for.
    turn: u16,
    /// When that is to be sent, or to be sent again.
    sends_at: Instant,
    /// Whether its class and queue are there, and its gate and end take them.
    is_made: bool,
    /// What the switch holds of it, in small frames, and how much that may be for it to be filled.
    held: u32,
    part: u32,
    /// Whether a packet passed since it was filled.
    is_spent: bool,
    filled_at: Instant,
    /// When the switch last held so much of it that it could not be filled.
    busy_at: Instant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Nothing is in it.
    Closed,
    /// What was diverted to it may have frames in the common queue, until its mark is read.
    Opening,
    /// It is filled when it is due.
    Open,
    /// Nothing is diverted to it any more, but it has frames until its end is read.
    Closing,
}

/// Where lanes hang.
pub struct Interface<'a> {
    pub netlink: &'a mut Netlink,
    pub namespace: &'a Namespace,
    pub name: &'a str,
    pub link: u32,
    pub kick: &'a Kick,
}

impl Lanes {
    /// Prepares an interface for lanes, which together may have so many small frames in the
    /// switch. Where the kernel lacks what that takes, there are none.
    pub fn new(mut at: Interface<'_>, is_adopted: bool, room: u32) -> Self {
        let prepared = install(&mut at, is_adopted).and_then(|()| steering::check());
        Self {
            room,
            keys: HashMap::new(),
            lanes: Vec::new(),
            program: Program::Absent,
            wanted: Vec::new(),
            opens_at: None,
            settled_at: Instant::now(),
            seen_empty: false,
            fault: prepared.err().map(|error| Fault { why: error.to_string(), until: None }),
        }
    }

    /// Whether nothing is diverted, or waits in a lane.
    #[inline]
    pub fn are_closed(&self) -> bool {
        self.wanted.is_empty() && self.lanes.iter().all(|lane| lane.state == State::Closed)
    }

    /// Whether frames may still come that were sent before what they are for was diverted.
    #[inline]
    pub fn are_opening(&self) -> bool {
        self.lanes.iter().any(|lane| lane.state == State::Opening)
    }

    /// Why there are no lanes, if so.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_ref().map(|fault| &*fault.why)
    }

    /// Whether something more may be diverted now.
    pub fn may_divert(&self) -> bool {
        let has_room = self.wanted.len() < AT_ONCE && self.keys.len() < MOST_KEYS;
        let until = self.fault.as_ref().map(|fault| fault.until);
        // Whatever was wrong may be mended.
        let is_due = |until: Option<Instant>| until.is_some_and(|until| Instant::now() >= until);
        has_room && until.is_none_or(is_due)
    }

    /// Has all that is like this frame diverted, at a [`settle`](Self::settle) soon. Whether it can
    /// be, and was not before.
    pub fn divert(&mut self, frame: &[u8], like: Like) -> bool {
        let Some(receiver) = key::receiver(frame) else { return false };
        // What waits in its receiver's lane must not be overtaken. Of a datagram that is not whole,
        // no more than its receiver is known.
        let socket = (like == Like::Socket).then(|| key::socket(frame)).flatten();
        let is_known = |key| self.keys.contains_key(key) || self.wanted.contains(key);
        let key = socket.unwrap_or(receiver);
        let is_new = !is_known(&key) && !is_known(&receiver) && self.may_divert();
        if is_new {
            self.wanted.push(key);
        }
        is_new
    }

    /// A frame was read that counts as so many small ones. By which lane it came, from 1; 0 if by
    /// none.
    pub fn read(&mut self, frame: &[u8], weight: u32) -> u8 {
        self.seen_empty = false;
        let socket = key::socket(frame).and_then(|key| self.keys.get(&key));
        let receiver = || key::receiver(frame).and_then(|key| self.keys.get(&key));
        let Some(number) = socket.or_else(receiver) else { return 0 };
        let lane = &mut self.lanes[usize::from(*number) - 1];
        lane.is_spent = true;
        lane.held += weight;
        *number
    }

    /// A frame that came by this lane is not held any more.
    pub fn released(&mut self, number: u8, weight: u32) {
        self.lanes[usize::from(number) - 1].held -= weight;
    }

    /// A frame of ours was read, which may be a lane's gate, mark or end.
    pub fn read_own(&mut self, own: Own) {
        let place = usize::from(own.number & !(GATE | END)).wrapping_sub(1);
        let Some(lane) = self.lanes.get_mut(place) else { return };
        lane.is_spent = true;
        let is_awaited = own.turn == lane.turn;
        lane.state = match (lane.state, own.number & (GATE | END)) {
            (State::Opening, 0) if is_awaited => State::Open,
            (State::Closing, END) if is_awaited => State::Closed,
            (state, _) => state,
        };
    }

    /// A frame was read of which nobody knows by which lane it came.
    pub fn read_unknown(&mut self) {
        self.seen_empty = false;
        self.lanes.iter_mut().for_each(|lane| lane.is_spent = true);
    }

    /// The ring was seen empty.
    #[inline]
    pub fn seen_empty(&mut self) {
        self.seen_empty = true;
    }

    /// Diverts what is to be, fills lanes, and closes those that are not needed any more.
    pub fn settle(&mut self, at: &mut Interface<'_>) -> Settled {
        let now = Instant::now();
        match self.try_settle(at, now) {
            Ok(settled) => settled,
            Err(error) => {
                // As a rule the container has changed its queues, of which the port's notes tell.
                self.fault =
                    Some(Fault { why: error.to_string(), until: Some(now + TRIES_AGAIN_AFTER) });
                self.let_all_pass(at);
                Settled { is_filled: true, is_unfinished: false }
            }
        }
    }

    fn try_settle(&mut self, at: &mut Interface<'_>, now: Instant) -> Result<Settled, Failure> {
        let mut settled = Settled::default();
        let may_open = self.opens_at.is_none_or(|at| now >= at);
        if !self.wanted.is_empty() && may_open && self.has_program(at)? {
            self.opens_at = Some(now + PAUSE);
            for key in std::mem::take(&mut self.wanted) {
                self.open(at, key, now)?;
            }
            self.fault = None;
        }
        // Nobody has held anything while the switch did not run.
        let unseen = now.saturating_duration_since(self.settled_at).saturating_sub(LOOKS_AFTER);
        self.settled_at = now;
        self.lanes.iter_mut().for_each(|lane| lane.forgive(unseen, now));
        let open = self.lanes.iter().filter(|lane| lane.state != State::Closed).count() as u32;
        let most = self.room / open.max(1) / 2;
        for (place, number) in (0..self.lanes.len()).zip(1..) {
            let lane = &mut self.lanes[place];
            // While it cannot be filled, nobody knows whether its receiver is still slow.
            if lane.held > lane.part || lane.is_spent && !self.seen_empty {
                lane.busy_at = now;
            }
            let is_idle = lane.state == State::Open && lane.is_idle(now);
            let closes = is_idle && !self.is_behind_another(number);
            let lane = &mut self.lanes[place];
            match lane.state {
                State::Opening => settled.is_unfinished |= !lane.send(at, number, now)?,
                State::Closing => settled.is_unfinished |= !lane.send(at, number | END, now)?,
                State::Open if closes => {
                    self.close(at, number, now)?;
                    settled.is_filled = true;
                }
                State::Open if self.seen_empty && lane.is_spent && lane.held <= lane.part => {
                    let is_filled = lane.fill(at, number, most, now)?;
                    settled.is_filled |= is_filled;
                    settled.is_unfinished |= !is_filled;
                }
                State::Closed | State::Open => {}
            }
        }
        settled.is_unfinished |= !self.wanted.is_empty();
        Ok(settled)
    }

    /// Whether the program is there. It is loaded when it is needed first.
    fn has_program(&mut self, at: &Interface<'_>) -> Result<bool, Failure> {
        match &self.program {
            Program::There(_) => return Ok(true),
            Program::Absent => {
                self.program = Program::Loading(Steering::load(at.namespace, at.name)?);
            }
            Program::Loading(loading) => {
                if let Some(steering) = loading.poll()? {
                    self.program = Program::There(steering);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Diverts what has this key from now on, if that can be done now.
    fn open(&mut self, at: &mut Interface<'_>, key: Key, now: Instant) -> Result<(), Failure> {
        let closed = self.lanes.iter().position(|lane| lane.state == State::Closed);
        let place = match closed {
            Some(closed) => closed,
            None if self.lanes.len() < LANES => {
                self.lanes.push(Lane::new(now));
                self.lanes.len() - 1
            }
            None => match self.least_shared() {
                Some(shared) => shared,
                None => return Ok(()),
            },
        };
        let number = place as u8 + 1;
        if !self.lanes[place].is_made {
            self.make(at, number)?;
        }
        // While it opens for others already, it has no tokens, and must get none.
        if self.lanes[place].state != State::Opening {
            // After what is in the lane already, the gate takes what tokens are left.
            at.netlink.set_qdisc(at.link, lane_queue(number, BURST, DEAR))?;
            if at.kick.send(Own { number: GATE | number, turn: 0 })? != Sent::Yes {
                return Ok(());
            }
        }
        self.steering()?.insert(&key, class(number).handle)?;
        self.keys.insert(key, number);
        let lane = &mut self.lanes[place];
        lane.begin(State::Opening, now + PAUSE);
        lane.busy_at = now;
        Ok(())
    }

    /// Makes a lane's class and queue, where its gate and end go.
    fn make(&mut self, at: &mut Interface<'_>, number: u8) -> Result<(), Failure> {
        at.netlink.set_class(at.link, class(number))?;
        at.netlink.set_qdisc(at.link, lane_queue(number, BURST, DEAR))?;
        let steering = self.steering()?;
        for own in [GATE | number, END | number] {
            let key = key::receiver(&at.kick.address(own).0).ok_or("it is a group")?;
            steering.insert(&key, class(number).handle)?;
        }
        self.lanes[usize::from(number) - 1].is_made = true;
        Ok(())
    }

    fn steering(&mut self) -> Result<&mut Steering, Failure> {
        match &mut self.program {
            Program::There(steering) => Ok(steering),
            Program::Absent | Program::Loading(_) => Err("its program is not loaded".into()),
        }
    }

    /// The place of the lane that the fewest keys share, of those that do not close.
    fn least_shared(&self) -> Option<usize> {
        let shared = |place: &usize| {
            self.keys.values().filter(|number| usize::from(**number) == place + 1).count()
        };
        let places =
            (0..self.lanes.len()).filter(|place| self.lanes[*place].state != State::Closing);
        places.min_by_key(shared)
    }

    /// Whether what this lane is for would, once it closes, not be common but in another lane: it
    /// could overtake what is still in this one.
    fn is_behind_another(&self, number: u8) -> bool {
        let mut sockets = self.keys.iter().filter(|(_, lane)| **lane == number);
        sockets.any(|(key, _)| {
            let receiver = self.keys.get(&key::receiver_of(key));
            receiver.is_some_and(|lane| *lane != number)
        })
    }

    /// Diverts nothing any more, and lets what waits in lanes pass.
    fn let_all_pass(&mut self, at: &mut Interface<'_>) {
        for (lane, number) in self.lanes.iter_mut().zip(1..) {
            // Nothing is diverted so soon that something could still be in it.
            (lane.state, lane.is_made) = (State::Closed, false);
            // It fails where the lane is gone.
            let _ = at.netlink.set_qdisc(at.link, lane_queue(number, ALL, 0));
        }
        // After that: what is sent now is common, and goes behind what waits.
        self.program = Program::Absent;
        self.keys.clear();
        self.wanted.clear();
    }

    /// What a lane was for is common again.
    fn close(&mut self, at: &mut Interface<'_>, number: u8, now: Instant) -> Result<(), Failure> {
        at.netlink.set_qdisc(at.link, lane_queue(number, ALL, 0))?;
        let gone: Vec<_> =
            self.keys.extract_if(|_, lane| *lane == number).map(|(key, _)| key).collect();
        let steering = self.steering()?;
        gone.iter().try_for_each(|key| steering.remove(key))?;
        self.lanes[usize::from(number) - 1].begin(State::Closing, now + PAUSE);
        Ok(())
    }
}

impl Lane {
    fn new(now: Instant) -> Self {
        Self {
            state: State::Closed,
            turn: 0,
            sends_at: now,
            is_made: false,
            held: 0,
            part: LEAST_PART,
            is_spent: false,
            filled_at: now,
            busy_at: now,
        }
    }

    /// Begins a state that ends when a frame of ours has been read, which is to be sent then.
    fn begin(&mut self, state: State, sends_at: Instant) {
        (self.state, self.sends_at) = (state, sends_at);
        self.turn = self.turn.wrapping_add(1);
    }

    /// Sends the frame that ends this state if it is due. Whether nothing of it is to be done soon.
    fn send(&mut self, at: &Interface<'_>, number: u8, now: Instant) -> io::Result<bool> {
        if now < self.sends_at {
            return Ok(self.sends_at - now > PAUSE);
        }
        let is_sent = at.kick.send(Own { number, turn: self.turn })? != Sent::Later;
        if is_sent {
            self.sends_at = now + SENT_AGAIN_AFTER;
        }
        Ok(is_sent)
    }

    /// For so long nobody has looked at it: that does not count.
    fn forgive(&mut self, unseen: Duration, now: Instant) {
        self.busy_at = (self.busy_at + unseen).min(now);
    }

    /// Whether the switch has held little of it for a while.
    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.busy_at) >= CLOSES_AFTER
    }

    /// Fills the bucket for its part. `false`: the kernel had no memory.
    fn fill(
        &mut self,
        at: &mut Interface<'_>,
        number: u8,
        most: u32,
        now: Instant,
    ) -> io::Result<bool> {
        let since = now.saturating_duration_since(self.filled_at);
        if since < OFTEN {
            self.part *= 2;
        } else if since > SELDOM {
            self.part /= 2;
        }
        self.part = self.part.min(most).max(LEAST_PART);
        let least = (BURST / self.part) as u16;
        let request = encode(0, POSTED, set_request(at.link, lane_queue(number, BURST, least)));
        match at.netlink.post(&request) {
            Ok(()) => {
                (self.is_spent, self.filled_at) = (false, now);
                Ok(true)
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM)) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// A lane's class; of number 0 the common one, which goes where no lane lets anything pass.
fn class(number: u8) -> QdiscClass {
    let handle = Handle(COMMON.0, COMMON.1 + u16::from(number));
    // In turn among lanes: a full frame each.
    QdiscClass { handle, priority: u32::from(number == 0), quantum: 1514 }
}

/// The handle of a lane's queue; of number 0 that of the common one.
fn queue(number: u8) -> Handle {
    Handle(CLASSES.0 + 1 + u16::from(number), 0)
}

/// A lane's bucket, with so many tokens, in which a packet costs so many at least.
fn lane_queue(number: u8, burst: u32, least: u16) -> Qdisc {
    let bucket = credit::bucket(burst, least);
    Qdisc { parent: class(number).handle, handle: queue(number), kind: bucket }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nobody_looked_is_no_idle_time() {
        let begun = Instant::now();
        let later = begun + Duration::from_secs(3600);
        // It was idle for 900 ms, then nobody looked for an hour.
        let mut lane = Lane::new(begun);
        let unseen = later - begun - Duration::from_millis(900);
        lane.forgive(unseen, later);
        assert!(!lane.is_idle(later));
        assert!(lane.is_idle(later + Duration::from_millis(100)));
        // Before this one opened, there was nothing to look at.
        let mut lane = Lane::new(later);
        lane.forgive(unseen, later);
        assert!(lane.is_idle(later + CLOSES_AFTER));
    }
}
