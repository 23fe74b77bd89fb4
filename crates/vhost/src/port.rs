//! A virtual machine's port: its front door and its card.
//!
//! ```text
//!   door ─connection─▶ Backend ─starts, stops─▶ Device: the card's rings ◀─ frames ─▶ switch
//!     ▲                   │
//!     └── a second later ─┴─ it ends, or the guest's rings contradict themselves
//! ```
//!
//! The port outlives its front-end. While nobody is connected, what is meant for the guest waits in
//! the switch, and what the guest has sent goes on: it was copied when its rings stopped. A guest
//! whose rings cannot be believed is quarantined: its connection is closed, and nothing of its
//! memory is touched until it has set up its rings anew, a second later at the earliest.

mod left;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use units::Mac;
use wire::{arp, rarp};
use zerocopy::IntoBytes;

use super::backend::Backend;
use super::device::Device;
use super::handover::{Handover, Inheritance};
use super::inflight::{OwnRecords, RecordsError};
use super::session::{News, Offer, Shared};
use super::socket::{Access, Connection, Listener, RETRY, SocketError, connect};
use super::vring::heard;
use crate::virtio::Corrupt;
use port::cut::Cutter;
use port::{FrameView, Left, Port, PortError, Slot, Taken};

/// The most bytes that are copied into the guest's memory in one visit, but for the frame that
/// crosses the bound: a full burst of ordinary frames, and some tens of microseconds.
const BURST_BYTES: usize = 256 << 10;

/// How often a guest is looked at in vain before it is asked to tell of what it sends.
const LOOKS: u32 = 256;

const NO_EVENT: epoll::Event =
    epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };

/// Where the announcement of a guest that has moved here lies.
const ANNOUNCEMENT: Slot = Slot(u32::MAX);

/// What the port's events are about.
const DOOR: u64 = 0;
const CONNECTION: u64 = 1;
const TIMER: u64 = 2;
/// And from here on, each descriptor that is kicked, by its number.
const KICK: u64 = 3;

/// After what its front-end said last, how soon a connection is left anew to the next switch.
const QUIET: Duration = Duration::from_millis(20);

/// Who makes the socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// The front-end. We connect, and try again every second.
    Connect,
    /// We do. A front-end that comes while another is connected is turned away.
    Listen(Access),
}

/// What a port is made of.
#[derive(Clone, Debug)]
pub struct VhostConfig {
    /// The socket's path.
    pub socket: PathBuf,
    /// Who makes it.
    pub mode: Mode,
    /// How many queue pairs the card has at most: 1 to 128.
    pub queue_pairs: u8,
    /// The largest packet that the guest is told of.
    pub mtu: u16,
    /// The most frames that can be held.
    pub frames: u32,
    /// The file, on tmpfs, where what is taken from the guest is recorded, so that a switch that is
    /// killed loses none of it. Its directory must be there.
    pub records: PathBuf,
    /// The guest is never asked to tell of anything: whoever owns the port looks without end.
    pub polled: bool,
}

/// Why there is no port.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No socket to listen on.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Somebody else's records.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The kernel does not give what a port waits with.
    #[error("cannot wait for a virtual machine: {0}; raise the limit on open files")]
    Events(#[from] io::Error),
}

/// Whether frames flow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Link {
    /// Its guest takes and sends frames.
    Up,
    /// It does not, and this is why.
    Down(String),
}

/// A virtual machine's port.
#[derive(Debug)]
pub struct VhostPort {
    config: VhostConfig,
    listener: Option<Listener>,
    backend: Backend<Device>,
    cutter: Cutter,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The kicks that are waited for.
    kicks: Vec<Arc<OwnedFd>>,
    /// Where the session is left to the next switch, if anybody keeps it.
    handover: Option<Handover>,
    /// Whose that is.
    owner: String,
    /// Why it is not left, if so.
    unkept: Option<String>,
    /// Why nothing that is taken from the guest is recorded, if so.
    unrecorded: Option<String>,
    /// Why nobody is connected, while that is so.
    why: String,
    /// How often the guest was quarantined, and why it was last.
    quarantined: Option<(u64, String)>,
    looks: u32,
    /// The guest with this address has moved here, which the network has to be told.
    moved: Option<Mac>,
    /// What tells it, while that is in the switch.
    announcement: Option<arp::Frame>,
}

impl VhostPort {
    /// Makes a port, and listens or tries to connect; or goes on where the one before was, if
    /// `handover` is inherited. There it leaves the like to the next one, as long as somebody keeps
    /// that.
    ///
    /// # Errors
    ///
    /// [`AttachError`]; that a front-end does not listen yet is none.
    pub fn attach(
        config: VhostConfig,
        mut handover: Option<Handover>,
    ) -> Result<Self, AttachError> {
        let inherited = handover.as_mut().and_then(Handover::inherited);
        let Inheritance { fds, requests } = inherited.unwrap_or_default();
        let mut fds = fds.into_iter();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(io::Error::from)?;
        let listener = match config.mode {
            Mode::Listen(access) => Some(match fds.next() {
                Some(socket) => Listener::inherited(socket, &config.socket)?,
                None => Listener::bind(&config.socket, access)?,
            }),
            Mode::Connect => None,
        };
        let offer = Offer { max_mtu: config.mtu, ..Offer::net(config.queue_pairs) };
        let device = Device::new(config.queue_pairs, config.frames);
        let (device, unrecorded) =
            match OwnRecords::open(&config.records, 2 * u16::from(config.queue_pairs)) {
                Ok(records) => (device.recorded(records), None),
                // They would write over each other's.
                Err(taken @ RecordsError::Taken { .. }) => return Err(taken.into()),
                Err(error) => (device, Some(error.to_string())),
            };
        let mut port = Self {
            owner: config.owner(),
            handover,
            unkept: None,
            config,
            listener,
            backend: Backend::new(offer, device),
            cutter: Cutter::default(),
            epoll,
            timer,
            kicks: Vec::new(),
            unrecorded,
            why: "no front-end has connected yet".into(),
            quarantined: None,
            looks: 0,
            moved: None,
            announcement: None,
        };
        watch(&port.epoll, &port.timer, TIMER)?;
        match fds.next() {
            Some(connection) => port.resume(Connection::new(connection), requests),
            None => port.knock(),
        }
        port.deposit();
        Ok(port)
    }

    /// Before its switch ends: nothing more that is recorded is given back to the guest, so that
    /// the next switch takes again what this one holds. What somebody keeps stays: its front-end
    /// sees no end.
    pub fn leave(&mut self) {
        self.deposit();
        self.device().card_mut().leave();
        if let Some(handover) = self.handover.take() {
            handover.leave();
            if let Some(listener) = self.listener.take() {
                listener.leave();
            }
        }
        self.disconnect("the switch ends".into());
    }

    /// Ends it for good: the guest has everything back, and nothing is remembered of it.
    pub fn detach(mut self) {
        // As long as something is taken, it is recorded.
        self.backend.disconnect();
        // Whoever has removed it already is welcome.
        let _ = std::fs::remove_file(&self.config.records);
    }

    /// Whether a guest takes and sends frames. As few as one pair of rings may run: the driver's
    /// choice.
    fn is_up(&self) -> bool {
        self.backend.connection().is_some() && self.backend.session().rings().card().has_pair()
    }

    /// Whether frames flow.
    pub fn link(&self) -> Link {
        let session = self.backend.session();
        if self.backend.connection().is_none() {
            return Link::Down(self.why.clone());
        }
        if self.is_up() {
            return Link::Up;
        }
        let has_to = match [0, 1].map(|ring| session.waits_for(ring)) {
            [None, None] => "enable its rings".into(),
            [Some(need), _] | [None, Some(need)] => format!("set {need}"),
        };
        Link::Down(format!(
            "a front-end is connected, and its guest's driver still has to {has_to}"
        ))
    }

    /// Why not all that is taken from the guest is recorded, if so.
    fn unrecorded(&self) -> Option<&str> {
        self.unrecorded.as_deref().or(self.backend.session().rings().unrecorded())
    }

    /// How often its guest was quarantined.
    pub fn quarantines(&self) -> u64 {
        self.quarantined.as_ref().map_or(0, |(times, _)| *times)
    }

    /// What its operator ought to know, in sentences; nothing if all is well.
    pub fn notes(&self) -> Vec<String> {
        let down = match self.link() {
            Link::Up => None,
            Link::Down(why) => Some(why),
        };
        let quarantined = self.quarantined.as_ref().map(|(times, why)| {
            format!("its guest was quarantined, {times} times by now, the last time because {why}")
        });
        let unrecorded = self.unrecorded().map(|why| {
            format!("should the switch be killed, what it holds of this guest is lost: {why}")
        });
        let unkept = self.unkept.as_ref().map(|why| {
            format!("should the switch end, its front-end sees its connection end: {why}")
        });
        down.into_iter().chain(quarantined).chain(unrecorded).chain(unkept).collect()
    }

    /// Serves its front-end, after its events were readable.
    pub fn wake(&mut self) {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut buffer = [NO_EVENT; 16];
        let count = match epoll::wait(&self.epoll, &mut buffer, Some(&AT_ONCE)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => return,
            Err(error) => panic!("epoll_wait(2) on a port's own descriptor: {error}"),
        };
        let events = &buffer[..count];
        let about = |what| events.iter().any(|event| event.data.u64() == what);
        // The connection goes first: one that has ended makes room for the next.
        if about(CONNECTION) {
            self.serve();
        }
        for event in events {
            let its_event = |kick: &&Arc<OwnedFd>| event.data.u64() == about_kick(kick);
            self.kicks.iter().find(its_event).into_iter().for_each(|kick| heard(kick));
        }
        if about(TIMER) {
            // The only failure is a timer that is silent already.
            let _ = rustix::io::read(&self.timer, &mut [0_u8; 8]);
            if self.backend.connection().is_some() {
                self.deposit();
            }
            self.knock();
        }
        if about(DOOR) {
            self.open();
        }
    }

    /// Looks for a front-end.
    fn knock(&mut self) {
        if let Some(listener) = &self.listener {
            match watch(&self.epoll, listener, DOOR) {
                Ok(()) => {}
                Err(error) => self.wait(format!("no front-end can be waited for: {error}")),
            }
            return;
        }
        if self.backend.connection().is_some() {
            return;
        }
        match connect(&self.config.socket) {
            Ok(connection) => self.connected(connection),
            Err(error) => self.wait(error.to_string()),
        }
    }

    /// Lets in who has connected, unless somebody is there.
    fn open(&mut self) {
        let Some(listener) = &self.listener else { return };
        let came = match self.backend.connection() {
            Some(_) => listener.turn_away().map(|_| None),
            None => listener.accept(),
        };
        match came {
            Ok(Some(connection)) => self.connected(connection),
            Ok(None) => {}
            Err(error) => {
                let _ = epoll::delete(&self.epoll, listener);
                self.wait(error.to_string());
            }
        }
    }

    fn connected(&mut self, connection: Connection) {
        match watch(&self.epoll, &connection, CONNECTION) {
            Ok(()) => {
                self.backend.connect(connection);
                self.serve();
            }
            Err(error) => self.wait(format!("no front-end can be waited for: {error}")),
        }
    }

    fn serve(&mut self) {
        let Self { backend, moved, handover, .. } = self;
        if let Some(handover) = handover {
            handover.withdraw();
        }
        let served = backend.serve(|news| match news {
            News::Announce(mac) => *moved = Some(mac),
            News::Features(_) | News::Mtu(_) => {}
        });
        self.looks = 0;
        match served {
            Err(ended) => self.disconnect(ended.to_string()),
            Ok(_) => match self.watch_front_end() {
                // A front-end that says many things is not left anew after each.
                Ok(()) => self.wake_in(QUIET),
                Err(error) => self.disconnect(format!(
                    "its events cannot be waited for: {error}; raise the limit on open files"
                )),
            },
        }
    }

    /// Waits for requests, or for room for a reply, and for the kicks of those rings that run now.
    fn watch_front_end(&mut self) -> io::Result<()> {
        let Self { backend, kicks, epoll, .. } = self;
        if let Some(connection) = backend.connection() {
            let flags =
                if backend.is_replying() { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            epoll::modify(&*epoll, connection, epoll::EventData::new_u64(CONNECTION), flags)?;
        }
        let device = backend.session().rings();
        kicks.retain(|kick| {
            let runs = device.kicks().any(|running| Arc::ptr_eq(running, kick));
            if !runs {
                heard(kick);
                let _ = epoll::delete(&*epoll, kick);
            }
            runs
        });
        for kick in device.kicks() {
            if !kicks.iter().any(|waited_for| Arc::ptr_eq(waited_for, kick)) {
                // Each write is an edge: an eventfd that cannot be read does not wake us without
                // end.
                let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
                epoll::add(&*epoll, kick, epoll::EventData::new_u64(about_kick(kick)), flags)?;
                kicks.push(kick.clone());
            }
        }
        Ok(())
    }

    /// Ends the connection, and looks for the next.
    fn disconnect(&mut self, why: String) {
        self.backend.disconnect();
        for kick in self.kicks.drain(..) {
            heard(&kick);
            // It is in there: the only failure would be that it is not.
            let _ = epoll::delete(&self.epoll, &kick);
        }
        self.deposit();
        self.wait(why);
    }

    /// Looks for a front-end a little later: where we listen, one that comes is let in at once, if
    /// the door is open.
    fn wait(&mut self, why: String) {
        self.why = why;
        self.wake_in(RETRY);
    }

    fn wake_in(&mut self, pause: Duration) {
        let later = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: pause.try_into().expect("a second is a time"),
        };
        let set = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &later);
        set.expect("timerfd_settime(2) on our own timer, for a second at the most");
    }

    /// The guest's rings are not to be believed.
    #[cold]
    fn quarantine(&mut self, corrupt: Option<Corrupt>) {
        let lost = self.backend.session().shared().lost();
        let lost = lost.map(|lost| format!("{lost} was taken away while it was in use"));
        let why = lost.or(corrupt.map(|corrupt| corrupt.to_string())).unwrap_or_default();
        let times = self.quarantined.as_ref().map_or(0, |(times, _)| *times);
        if let Some(listener) = &self.listener {
            let _ = epoll::delete(&self.epoll, listener);
        }
        self.disconnect(format!("its guest is quarantined: {why}"));
        self.quarantined = Some((times + 1, why));
    }

    fn device(&mut self) -> &mut Device {
        self.backend.session_mut().parts().0
    }

    /// Says for a guest that has moved here that it is here. Whether it did: not while it says so
    /// of another.
    #[cold]
    fn announce(&mut self, arrived: &mut dyn FnMut(Slot, &FrameView<'_>)) -> bool {
        if self.announcement.is_none()
            && let Some(mac) = self.moved.take()
        {
            let announcement = self.announcement.insert(rarp::request(mac));
            arrived(ANNOUNCEMENT, &FrameView::plain(announcement.as_bytes()));
            return true;
        }
        false
    }

    /// The guest is asked to tell of what comes next, if its rings are to be believed.
    fn armed(&mut self, ready: Result<bool, Corrupt>) -> bool {
        ready.unwrap_or_else(|corrupt| {
            self.quarantine(Some(corrupt));
            false
        })
    }

    /// The guest had nothing.
    fn seen_empty(&mut self) -> Left {
        if self.device().running() == 0 {
            return Left::Nothing;
        }
        self.looks += 1;
        if self.config.polled || self.looks < LOOKS {
            return Left::Silence;
        }
        match self.arm_ingress() {
            Ok(true) => Left::More,
            Ok(false) => Left::Armed,
            Err(_) => Left::Nothing,
        }
    }
}

impl Port for VhostPort {
    #[inline]
    fn burst_shift(&self) -> u32 {
        (BURST_BYTES / port::BURST).ilog2()
    }

    #[inline(always)]
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        let mut lifted = self.moved.is_some() && most > 0 && self.announce(&mut arrived);
        let most = most - usize::from(lifted);
        let card = self.device().card_mut();
        let received = card.receive(most, |slot, frame| {
            lifted = true;
            arrived(slot, frame);
        });
        Ok(match received {
            Ok(true) if !lifted && card.is_full() => Left::Full,
            Ok(true) => Left::More,
            Ok(false) if lifted => {
                self.looks = 0;
                Left::Silence
            }
            Ok(false) => self.seen_empty(),
            Err(corrupt) => {
                self.quarantine(Some(corrupt));
                Left::Nothing
            }
        })
    }

    #[inline(always)]
    fn frame(&self, slot: Slot) -> FrameView<'_> {
        if slot == ANNOUNCEMENT
            && let Some(announcement) = &self.announcement
        {
            return FrameView::plain(announcement.as_bytes());
        }
        self.backend.session().rings().card().frame(slot)
    }

    fn rewrite(&mut self, slot: Slot, at: usize, bytes: &[u8]) -> bool {
        // An announcement is as its machine is known to its network.
        slot != ANNOUNCEMENT && self.device().card_mut().rewrite(slot, at, bytes)
    }

    fn show_headers(&mut self) {
        self.device().card_mut().show_headers();
    }

    #[inline(always)]
    fn release(&mut self, slot: Slot) {
        if slot == ANNOUNCEMENT {
            self.announcement = None;
            return;
        }
        self.device().card_mut().release(slot);
    }

    fn keep(&mut self, most: usize) {
        self.device().card_mut().keep(most);
    }

    #[inline(always)]
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        let Self { backend, cutter, .. } = self;
        let (device, shared) = backend.session_mut().parts();
        let taken = if frame.note.is_none() || device.takes(frame.offload()) {
            device.transmit(frame, shared)
        } else {
            cut(cutter, device, frame, shared)
        };
        match taken {
            Ok(taken) => Ok(taken),
            Err(corrupt) => {
                self.quarantine(Some(corrupt));
                Ok(Taken::Busy)
            }
        }
    }

    fn is_absent(&self) -> bool {
        !self.is_up()
    }

    #[inline]
    fn deliver(&mut self) -> Result<(), PortError> {
        let (device, shared) = self.backend.session_mut().parts();
        device.deliver(shared);
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, PortError> {
        let (device, shared) = self.backend.session_mut().parts();
        device.publish(shared);
        if self.backend.session().shared().is_lost() {
            self.quarantine(None);
        }
        Ok(true)
    }

    fn arm_ingress(&mut self) -> Result<bool, PortError> {
        let armed = self.device().card_mut().arm_ingress();
        Ok(self.armed(armed))
    }

    fn arm_egress(&mut self) -> Result<Option<bool>, PortError> {
        let armed = self.device().card_mut().arm_egress();
        Ok(Some(self.armed(armed)))
    }
}

/// What the events of a descriptor that is kicked are about.
fn about_kick(kick: &OwnedFd) -> u64 {
    KICK + u64::from(kick.as_raw_fd().cast_unsigned())
}

/// Hands a frame over in as many pieces as a wire would carry.
#[inline(never)]
fn cut(
    cutter: &mut Cutter,
    device: &mut Device,
    frame: &FrameView<'_>,
    shared: &Shared,
) -> Result<Taken, Corrupt> {
    cutter.write(frame, |bytes| device.transmit(&FrameView::plain(bytes), shared))
}

/// Has the port's events tell of this as long as it is readable.
fn watch(epoll: &OwnedFd, source: impl AsFd, about: u64) -> io::Result<()> {
    match epoll::add(epoll, source, epoll::EventData::new_u64(about), epoll::EventFlags::IN) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Readable, and told of as long as that is so, when it is worth to [`wake`](VhostPort::wake) the
/// port.
impl AsFd for VhostPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
