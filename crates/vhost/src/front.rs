//! A small front-end: the driver's side of the protocol, for traffic generators and for tests.
//!
//! It has memory of its own in place of a guest's, with the rings at its beginning, and waits for
//! the back-end where the protocol does. What goes on in the rings is the caller's business.
//!
//! ```text
//!   │ ring 0: descriptors, available, used │ ring 1 │ … │ room for buffers … │
//! ```
//!
//! Memory, rings and what is in flight outlive a connection: [`FrontEnd::connect`] and
//! [`FrontEnd::start`] again, and the next back-end goes on where the one before was.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{FallocateFlags, MemfdFlags};

use super::features::{Features, ProtocolFeatures};
use super::mapping::Mapping;
use super::memory::Span;
use super::message::{
    Addresses, Code, Inflight, Message, MessageError, Region, Reply, Request, Table,
};
use super::socket::{Connection, ConnectionError, Received};
use super::vring::Base;

/// Where its memory begins for the "guest": elsewhere than for the front-end, so that nobody
/// mistakes one for the other.
const GUEST: u64 = 0x4000_0000;

/// A ring's parts, and the room for buffers, begin at multiples of this.
const PAGE: u64 = 4096;

/// What a front-end is to be.
#[derive(Clone, Copy, Debug)]
pub struct FrontConfig {
    /// What to agree on, as far as it is offered.
    pub features: Features,
    /// The same of the protocol.
    pub protocol: ProtocolFeatures,
    /// How many pairs of rings.
    pub queue_pairs: u8,
    /// How many descriptors each has.
    pub queue_size: u16,
    /// How many bytes of room for buffers.
    pub buffers: u64,
    /// Memory in huge pages, of the machine's default size.
    pub huge: bool,
    /// How long to wait for the back-end at most.
    pub timeout: Duration,
}

/// Why a front-end cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// Memory or descriptors are missing.
    #[error("cannot {operation}: {source}; free some, or ask for less")]
    Resource {
        /// What was tried, as a verb phrase.
        operation: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The connection is of no use any more.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// Something comes before this.
    #[error("cannot ask for {0:?}: there is no connection; connect first")]
    Unconnected(Code),
    /// The back-end is gone.
    #[error("cannot finish {0:?}: the back-end closed the connection; look at its log")]
    Closed(Code),
    /// The back-end does not answer.
    #[error("cannot finish {0:?}: no answer within {1:?}; look whether the back-end is stuck")]
    Late(Code, Duration),
    /// The back-end said no.
    #[error("cannot finish {0:?}: the back-end answered {1}; look at its log")]
    Refused(Code, u64),
    /// The back-end cannot do what is needed.
    #[error(
        "cannot go on without features {0}: the back-end does not offer them; configure it so that it does"
    )]
    Features(Features),
    /// The back-end has fewer rings.
    #[error("cannot use {wanted} queue pairs: the back-end has {given}; ask for fewer")]
    Pairs {
        /// How many are wanted.
        wanted: u8,
        /// How many there are.
        given: u64,
    },
}

/// One of a front-end's rings.
#[derive(Debug)]
pub struct FrontRing {
    /// Where its parts lie in the memory, by offset from its start: descriptors, used and
    /// available.
    pub offsets: [u64; 3],
    /// The driver writes to it when there are new buffers.
    pub kick: OwnedFd,
    /// The back-end writes to it when buffers were used.
    pub call: OwnedFd,
}

/// A front-end.
#[derive(Debug)]
pub struct FrontEnd {
    config: FrontConfig,
    connection: Option<Connection>,
    features: Features,
    protocol: ProtocolFeatures,
    file: OwnedFd,
    memory: Mapping,
    rings: Vec<FrontRing>,
    buffers: u64,
    inflight: Option<(Inflight, OwnedFd)>,
}

impl FrontEnd {
    /// Makes memory and rings, connected to nobody.
    ///
    /// # Errors
    ///
    /// [`FrontError::Resource`].
    pub fn new(config: FrontConfig) -> Result<Self, FrontError> {
        let packed = config.features.contains(Features::RING_PACKED);
        let mut end = 0;
        let mut place = |len: u64| {
            let start = end;
            end = (start + len).next_multiple_of(PAGE);
            start
        };
        // Only the lengths matter here.
        let nowhere = Addresses { descriptors: 0, used: 0, available: 0, log: None };
        let rings: Result<Vec<_>, rustix::io::Errno> = (0..2 * u16::from(config.queue_pairs))
            .map(|_| {
                let offsets = nowhere.parts(config.queue_size, packed).map(|part| place(part.len));
                let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
                Ok(FrontRing { offsets, kick: event()?, call: event()? })
            })
            .collect();
        let rings = rings.map_err(because("make eventfds"))?;
        let buffers = place(config.buffers);
        let file = memfd(end, config.huge).map_err(because("make memory"))?;
        let memory = Mapping::new(&file, 0, end).map_err(because("map memory"))?;
        Ok(Self {
            config,
            connection: None,
            features: Features::default(),
            protocol: ProtocolFeatures::default(),
            file,
            memory,
            rings,
            buffers,
            inflight: None,
        })
    }

    /// Agrees with a back-end on features. A connection that there was is closed.
    ///
    /// # Errors
    ///
    /// [`FrontError`]: there is no connection then.
    pub fn connect(&mut self, connection: Connection) -> Result<(), FrontError> {
        self.connection = Some(connection);
        self.protocol = ProtocolFeatures::default();
        self.negotiate().inspect_err(|_| self.connection = None)
    }

    /// Closes the connection, if there is one: what a back-end sees when its front-end dies.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    fn negotiate(&mut self) -> Result<(), FrontError> {
        let config = self.config;
        self.ask(Request::SetOwner)?;
        let offered = Features(self.ask_number(Request::GetFeatures)?);
        if offered.contains(Features::PROTOCOL_FEATURES) {
            let offered = ProtocolFeatures(self.ask_number(Request::GetProtocolFeatures)?);
            let protocol = config.protocol.and(offered);
            self.ask(Request::SetProtocolFeatures(protocol.0))?;
            self.protocol = protocol;
        }
        if self.protocol.contains(ProtocolFeatures::MQ) {
            let given = self.ask_number(Request::GetQueueNum)?;
            if given < config.queue_pairs.into() {
                return Err(FrontError::Pairs { wanted: config.queue_pairs, given });
            }
        }
        self.features = config.features.and(offered);
        self.ask(Request::SetFeatures(self.features.0)).map(drop)
    }

    /// Shares the memory and starts every ring where `bases` has it, enabled.
    ///
    /// # Errors
    ///
    /// [`FrontError`].
    pub fn start(&mut self, bases: &[Base]) -> Result<(), FrontError> {
        let user = self.memory.start().as_ptr() as u64;
        let region = Region { guest: GUEST, size: self.memory.len() as u64, user, offset: 0 };
        let share = match Table::new(&[region]) {
            Some(table) if !self.protocol.contains(ProtocolFeatures::CONFIGURE_MEM_SLOTS) => {
                Request::SetMemTable(table)
            }
            _ => Request::AddMemReg(region),
        };
        let file = duplicate(&self.file)?;
        self.ask_with(share, vec![file])?;
        self.share_inflight()?;

        for (index, base) in self.indices().zip(bases) {
            let ring = &self.rings[usize::from(index)];
            let [descriptors, used, available] = ring.offsets.map(|offset| user + offset);
            let addresses = Addresses { descriptors, used, available, log: None };
            let (kick, call) = (duplicate(&ring.kick)?, duplicate(&ring.call)?);
            self.ask(Request::SetVringNum { index, size: self.config.queue_size })?;
            self.ask(Request::SetVringBase { index, base: base.emit() })?;
            self.ask(Request::SetVringAddr { index, addresses })?;
            self.ask_with(Request::SetVringCall { index, has_fd: true }, vec![call])?;
            self.ask_with(Request::SetVringKick { index, has_fd: true }, vec![kick])?;
        }
        if self.features.contains(Features::PROTOCOL_FEATURES) {
            self.enable(true)?;
        }
        Ok(())
    }

    /// Gives the back-end what tracks descriptors in flight: that of the back-end before, or a new
    /// one of its own.
    fn share_inflight(&mut self) -> Result<(), FrontError> {
        if !self.protocol.contains(ProtocolFeatures::INFLIGHT_SHMFD) {
            return Ok(());
        }
        if self.inflight.is_none() {
            let (queues, queue_size) = (self.rings.len() as u16, self.config.queue_size);
            let wanted =
                Request::GetInflightFd(Inflight { size: 0, offset: 0, queues, queue_size });
            self.inflight = match self.ask(wanted)? {
                Some((Reply::Inflight(made), fds)) => fds.into_iter().next().map(|fd| (made, fd)),
                _ => None,
            };
        }
        let Some((given, file)) = &self.inflight else { return Ok(()) };
        let (given, file) = (*given, duplicate(file)?);
        self.ask_with(Request::SetInflightFd(given), vec![file]).map(drop)
    }

    /// Enables or disables every ring.
    ///
    /// # Errors
    ///
    /// [`FrontError`].
    pub fn enable(&mut self, enable: bool) -> Result<(), FrontError> {
        self.indices()
            .try_for_each(|index| self.ask(Request::SetVringEnable { index, enable }).map(drop))
    }

    /// Stops every ring. Returns where each stands.
    ///
    /// # Errors
    ///
    /// [`FrontError`].
    pub fn stop(&mut self) -> Result<Vec<Base>, FrontError> {
        let packed = self.features.contains(Features::RING_PACKED);
        let code = Code::GetVringBase;
        self.indices()
            .map(|index| match self.ask(Request::GetVringBase { index })? {
                Some((Reply::Base { index: answered, base }, _)) if answered == index => {
                    Base::parse(base, packed).ok_or(FrontError::Refused(code, base.into()))
                }
                _ => Err(FrontError::Refused(code, index.into())),
            })
            .collect()
    }

    /// Asks for anything, and waits for the outcome where there will be one.
    ///
    /// # Errors
    ///
    /// [`FrontError`]; the back-end's saying no is one too.
    pub fn ask(&mut self, request: Request) -> Result<Option<(Reply, Vec<OwnedFd>)>, FrontError> {
        self.ask_with(request, Vec::new())
    }

    /// The same with descriptors.
    ///
    /// # Errors
    ///
    /// [`FrontError`]; the back-end's saying no is one too.
    pub fn ask_with(
        &mut self,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> Result<Option<(Reply, Vec<OwnedFd>)>, FrontError> {
        let code = request.code();
        let need_reply = self.protocol.contains(ProtocolFeatures::REPLY_ACK) && !code.is_answered();
        let connection = self.connection.as_mut().ok_or(FrontError::Unconnected(code))?;
        let deadline = Deadline { code, timeout: self.config.timeout, begun: Instant::now() };
        connection.send(Message { request, need_reply }.emit(), fds)?;
        while !connection.flush()? {
            deadline.wait(connection.as_fd(), PollFlags::OUT)?;
        }
        if !need_reply && !code.is_answered() {
            return Ok(None);
        }
        loop {
            match connection.receive()? {
                Received::Message(frame) => {
                    let reply = Reply::parse(code, &frame.header, frame.payload, frame.fds.len());
                    return match reply.map_err(ConnectionError::from)? {
                        Reply::Number(_, outcome) if need_reply && outcome != 0 => {
                            Err(FrontError::Refused(code, outcome))
                        }
                        reply => Ok(Some((reply, frame.fds))),
                    };
                }
                Received::Closed => return Err(FrontError::Closed(code)),
                Received::Nothing => {}
            }
            deadline.wait(connection.as_fd(), PollFlags::IN)?;
        }
    }

    fn indices(&self) -> impl Iterator<Item = u8> + use<> {
        (0..self.rings.len()).map(|index| index as u8)
    }

    fn ask_number(&mut self, request: Request) -> Result<u64, FrontError> {
        let code = request.code();
        match self.ask(request)? {
            Some((Reply::Number(_, number), _)) => Ok(number),
            _ => Err(ConnectionError::from(MessageError::Astray(code, code as u32)).into()),
        }
    }

    /// What was agreed on.
    pub fn features(&self) -> (Features, ProtocolFeatures) {
        (self.features, self.protocol)
    }

    /// The rings: even ones to receive by, odd ones to transmit by.
    pub fn rings(&self) -> &[FrontRing] {
        &self.rings
    }

    /// The memory from an offset on, and the guest-physical address there: what a descriptor holds.
    pub fn memory(&self, offset: u64) -> Option<(Span, u64)> {
        let len = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.memory.len().checked_sub(offset))?;
        // SAFETY: the offset is at most the mapping's length.
        #[expect(unsafe_code, reason = "an offset is a place in the mapping")]
        let start = unsafe { self.memory.start().add(offset as usize) };
        Some((Span { start, len }, GUEST + offset))
    }

    /// Where in the memory the room for buffers begins.
    pub fn buffers(&self) -> u64 {
        self.buffers
    }

    /// The file that holds the memory.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn memfd(len: u64, huge: bool) -> io::Result<OwnedFd> {
    let kind = if huge { MemfdFlags::HUGETLB } else { MemfdFlags::empty() };
    let file = rustix::fs::memfd_create("zovn-front-end", MemfdFlags::CLOEXEC | kind)?;
    let page = u64::try_from(rustix::fs::fstatfs(&file)?.f_bsize).map_err(io::Error::other)?;
    // All of it now: a huge page that is missing later would be a SIGBUS.
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len.next_multiple_of(page))?;
    Ok(file)
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, FrontError> {
    fd.try_clone().map_err(because("pass a descriptor on"))
}

fn because<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> FrontError {
    move |source| FrontError::Resource { operation, source: source.into() }
}

/// Until when an answer must be there.
struct Deadline {
    code: Code,
    timeout: Duration,
    begun: Instant,
}

impl Deadline {
    fn wait(&self, fd: BorrowedFd<'_>, event: PollFlags) -> Result<(), FrontError> {
        let left = self.timeout.saturating_sub(self.begun.elapsed());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&fd, event)], timeout.as_ref()) {
            Ok(0) => Err(FrontError::Late(self.code, self.timeout)),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(because("wait for the back-end")(error)),
        }
    }
}
