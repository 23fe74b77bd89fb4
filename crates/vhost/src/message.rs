//! The messages ("Message Specification"): bytes to requests and replies, and back.
//!
//! ```text
//!   │ request │ flags │ size │ payload … │      header: 12 bytes; payload: at most MAX_PAYLOAD
//! ```
//!
//! Nothing here reads a socket or holds a descriptor: a message is told how many came with it, and
//! refuses any other number. Nothing is allocated, so a peer's numbers cannot make it. Parsing
//! undoes emitting, both ways, since our own front-end speaks this too. Numbers are in the
//! machine's own byte order.

use units::Mac;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use super::code::Code;
use super::code::name;

/// How many bytes a header has.
pub const HEADER_LEN: usize = size_of::<RawHeader>();

/// How many bytes a payload has at most: those of a full memory table, the longest that a network
/// device needs.
pub const MAX_PAYLOAD: usize = 8 + MAX_TABLE * size_of::<Region>();

/// How many regions a memory table has at most ("Memory regions description").
pub const MAX_TABLE: usize = 8;

/// How many descriptors come with a message at most: one for each region of a table.
pub const MAX_FDS: usize = MAX_TABLE;

/// How many descriptors a ring has at most (VIRTIO 1.2 §2.7, §2.8.10.1).
pub const MAX_RING: u16 = 32_768;

const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Why bytes are no message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The flags name another version, or say something that we do not know.
    #[error(
        "cannot read request {request}: its flags are {flags:#x}, not those of version 1; use another front-end"
    )]
    Flags {
        /// The request's number.
        request: u32,
        /// Its flags.
        flags: u32,
    },
    /// The payload would be longer than any we know.
    #[error(
        "cannot read request {request}: its payload of {size} bytes exceeds {MAX_PAYLOAD}; use another front-end"
    )]
    Oversized {
        /// The request's number.
        request: u32,
        /// What its header says.
        size: u32,
    },
    /// A request that we do not serve.
    #[error("cannot serve {}: no network back-end of ours offers it; use another front-end", name(*.0))]
    Unknown(u32),
    /// Another reply than the one that was asked for.
    #[error(
        "cannot read a reply to {0:?}: the back-end answered request {1}; use another back-end"
    )]
    Astray(Code, u32),
    /// A payload of another length.
    #[error(
        "cannot read {request:?}: its payload has {size} bytes, not {wanted}; use another peer"
    )]
    Payload {
        /// The request.
        request: Code,
        /// How many bytes there are.
        size: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// Another number of descriptors.
    #[error(
        "cannot read {request:?}: {given} descriptors came with it, not {wanted}; use another peer"
    )]
    Descriptors {
        /// The request.
        request: Code,
        /// How many there are.
        given: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// A number that is out of its range.
    #[error("cannot read {request:?}: its {field} is {value}, out of range; use another peer")]
    Field {
        /// The request.
        request: Code,
        /// Which of its fields.
        field: &'static str,
        /// What that says.
        value: u64,
    },
}

impl Code {
    /// The bytes of its payload as a wire form that has one length.
    fn read<T: FromBytes>(self, payload: &[u8]) -> Result<T, MessageError> {
        T::read_from_bytes(payload).map_err(|_| self.misfit(payload, size_of::<T>()))
    }

    fn misfit(self, payload: &[u8], wanted: usize) -> MessageError {
        MessageError::Payload { request: self, size: payload.len(), wanted }
    }

    fn field<T: TryFrom<u64>>(
        self,
        field: &'static str,
        value: impl Into<u64>,
    ) -> Result<T, MessageError> {
        let value = value.into();
        T::try_from(value).map_err(|_| MessageError::Field { request: self, field, value })
    }

    fn expect(self, given: usize, wanted: usize) -> Result<(), MessageError> {
        let right = given == wanted;
        if right { Ok(()) } else { Err(MessageError::Descriptors { request: self, given, wanted }) }
    }
}

/// A piece of guest memory: where the guest and the front-end see it, and where it begins in its
/// descriptor ("Memory regions description").
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Region {
    /// The first guest-physical address.
    pub guest: u64,
    /// How many bytes.
    pub size: u64,
    /// The first address in the front-end's own address space.
    pub user: u64,
    /// Where the region begins in what its descriptor maps.
    pub offset: u64,
}

/// A memory table: at most [`MAX_TABLE`] regions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Table {
    len: usize,
    regions: [Region; MAX_TABLE],
}

impl Table {
    /// `None` if there are too many.
    pub fn new(regions: &[Region]) -> Option<Self> {
        let mut all = [Region { guest: 0, size: 0, user: 0, offset: 0 }; MAX_TABLE];
        all.get_mut(..regions.len())?.copy_from_slice(regions);
        Some(Self { len: regions.len(), regions: all })
    }

    /// The regions, in the order of their descriptors.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.len]
    }
}

/// Where a ring's three parts lie, as the front-end sees them ("A vring address description").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Addresses {
    /// The descriptor table, or the descriptor ring.
    pub descriptors: u64,
    /// The used ring, or the device's event suppression.
    pub used: u64,
    /// The available ring, or the driver's event suppression.
    pub available: u64,
    /// Where in the log a write to the first byte of the used part is marked, if it is to be marked
    /// at all.
    pub log: Option<u64>,
}

/// What tracks descriptors in flight ("Inflight description").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Inflight {
    /// How many bytes are tracked in.
    pub size: u64,
    /// Where in the descriptor they begin.
    pub offset: u64,
    /// How many rings are tracked.
    pub queues: u16,
    /// How many descriptors each has.
    pub queue_size: u16,
}

/// What a front-end asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the specification tells what each one is, by its name")]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and nothing is to be allocated for it"
)]
pub enum Request {
    GetFeatures,
    SetFeatures(u64),
    SetOwner,
    ResetOwner,
    SetMemTable(Table),
    SetLogBase { size: u64, offset: u64 },
    SetLogFd,
    SetVringNum { index: u8, size: u16 },
    SetVringAddr { index: u8, addresses: Addresses },
    SetVringBase { index: u8, base: u32 },
    GetVringBase { index: u8 },
    SetVringKick { index: u8, has_fd: bool },
    SetVringCall { index: u8, has_fd: bool },
    SetVringErr { index: u8, has_fd: bool },
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNum,
    SetVringEnable { index: u8, enable: bool },
    SendRarp(Mac),
    NetSetMtu(u64),
    SetBackendReqFd,
    GetInflightFd(Inflight),
    SetInflightFd(Inflight),
    ResetDevice,
    GetMaxMemSlots,
    AddMemReg(Region),
    RemMemReg(Region),
    SetStatus(u8),
    GetStatus,
}

/// A request, and whether the front-end waits for the outcome.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message {
    /// What is asked for.
    pub request: Request,
    /// A reply is due even where the request has none of its own ("REPLY_ACK").
    pub need_reply: bool,
}

/// What a back-end answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply {
    /// A number that was asked for, or an outcome: 0 is success.
    Number(Code, u64),
    /// To [`Request::GetVringBase`].
    Base {
        /// The ring.
        index: u8,
        /// Where it stands.
        base: u32,
    },
    /// To [`Request::GetInflightFd`]; one descriptor goes with it.
    Inflight(Inflight),
}

/// A message's first 12 bytes, checked as far as they go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    request: u32,
    flags: u32,
    size: usize,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct RawHeader {
    request: u32,
    flags: u32,
    size: u32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct State {
    index: u32,
    num: u32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct RawAddresses {
    index: u32,
    flags: u32,
    descriptors: u64,
    used: u64,
    available: u64,
    log: u64,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct RawInflight {
    size: u64,
    offset: u64,
    queues: u16,
    queue_size: u16,
    // Not drawn in the specification, but there as soon as a C compiler lays the struct out.
    padding: u32,
}

/// VHOST_VRING_F_LOG.
const LOGGED: u32 = 1;

/// "Bit 8 is the invalid FD flag."
const NO_FD: u64 = 1 << 8;

impl Header {
    /// Reads a header and checks version and size.
    ///
    /// # Errors
    ///
    /// [`MessageError::Flags`] or [`MessageError::Oversized`].
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, MessageError> {
        let RawHeader { request, flags, size } = zerocopy::transmute!(*bytes);
        if flags & 3 != VERSION || flags & !(3 | REPLY | NEED_REPLY) != 0 {
            return Err(MessageError::Flags { request, flags });
        }
        match usize::try_from(size) {
            Ok(len) if len <= MAX_PAYLOAD => Ok(Self { request, flags, size: len }),
            _ => Err(MessageError::Oversized { request, size }),
        }
    }

    /// How many bytes follow.
    pub fn payload_len(&self) -> usize {
        self.size
    }
}

impl Message {
    /// Reads what follows a header, with so many descriptors.
    ///
    /// # Errors
    ///
    /// [`MessageError`]: it is none that a network back-end serves, or contradicts itself.
    pub fn parse(header: &Header, payload: &[u8], fds: usize) -> Result<Self, MessageError> {
        let Header { request: number, flags, size } = *header;
        if flags & REPLY != 0 {
            return Err(MessageError::Flags { request: number, flags });
        }
        let code = Code::of(number).ok_or(MessageError::Unknown(number))?;
        if size != payload.len() {
            return Err(code.misfit(payload, size));
        }
        let (request, wanted) = Request::parse(code, payload, fds)?;
        code.expect(fds, wanted)?;
        Ok(Self { request, need_reply: flags & NEED_REPLY != 0 })
    }

    /// The message's bytes.
    pub fn emit(&self) -> Bytes {
        let flags = if self.need_reply { VERSION | NEED_REPLY } else { VERSION };
        let bytes = Bytes::new(self.request.code(), flags);
        let state = |index: u8, num: u32| State { index: index.into(), num };
        let file = |index: u8, has_fd: bool| u64::from(index) | if has_fd { 0 } else { NO_FD };
        match self.request {
            Request::GetFeatures
            | Request::SetOwner
            | Request::ResetOwner
            | Request::SetLogFd
            | Request::GetProtocolFeatures
            | Request::GetQueueNum
            | Request::SetBackendReqFd
            | Request::ResetDevice
            | Request::GetMaxMemSlots
            | Request::GetStatus => bytes,
            Request::SetFeatures(bits) | Request::SetProtocolFeatures(bits) => bytes.with(&bits),
            Request::SetMemTable(table) => bytes.with(&[table.len as u32, 0]).with(table.regions()),
            Request::SetLogBase { size, offset } => bytes.with(&[size, offset]),
            Request::SetVringNum { index, size } => bytes.with(&state(index, size.into())),
            Request::SetVringAddr { index, addresses } => bytes.with(&RawAddresses {
                index: index.into(),
                flags: if addresses.log.is_some() { LOGGED } else { 0 },
                descriptors: addresses.descriptors,
                used: addresses.used,
                available: addresses.available,
                log: addresses.log.unwrap_or(0),
            }),
            Request::SetVringBase { index, base } => bytes.with(&state(index, base)),
            Request::GetVringBase { index } => bytes.with(&state(index, 0)),
            Request::SetVringKick { index, has_fd }
            | Request::SetVringCall { index, has_fd }
            | Request::SetVringErr { index, has_fd } => bytes.with(&file(index, has_fd)),
            Request::SetVringEnable { index, enable } => bytes.with(&state(index, enable.into())),
            Request::SendRarp(Mac(mac)) => bytes.with(&mac).with(&[0u8; 2]),
            Request::NetSetMtu(mtu) => bytes.with(&mtu),
            Request::GetInflightFd(inflight) | Request::SetInflightFd(inflight) => {
                bytes.with(&RawInflight::from(inflight))
            }
            Request::AddMemReg(region) | Request::RemMemReg(region) => {
                bytes.with(&0u64).with(&region)
            }
            Request::SetStatus(status) => bytes.with(&u64::from(status)),
        }
    }
}

impl Request {
    /// The request, and how many descriptors come with it.
    fn parse(code: Code, payload: &[u8], fds: usize) -> Result<(Self, usize), MessageError> {
        let nothing = || code.read::<[u8; 0]>(payload);
        let number = || code.read::<u64>(payload);
        let state = || -> Result<(u8, u32), MessageError> {
            let State { index, num } = code.read(payload)?;
            Ok((code.field("ring", index)?, num))
        };
        let file = || -> Result<(u8, bool), MessageError> {
            let number = number()?;
            Ok((code.field("ring", number & !NO_FD)?, number & NO_FD == 0))
        };
        Ok(match code {
            Code::GetFeatures => (nothing().map(|_| Self::GetFeatures)?, 0),
            Code::SetFeatures => (Self::SetFeatures(number()?), 0),
            Code::SetOwner => (nothing().map(|_| Self::SetOwner)?, 0),
            Code::ResetOwner => (nothing().map(|_| Self::ResetOwner)?, 0),
            Code::SetMemTable => {
                let table = Table::parse(payload)?;
                (Self::SetMemTable(table), table.len)
            }
            Code::SetLogBase => {
                let [size, offset] = code.read(payload)?;
                (Self::SetLogBase { size, offset }, 1)
            }
            Code::SetLogFd => (nothing().map(|_| Self::SetLogFd)?, 1),
            Code::SetVringNum => {
                let (index, num) = state()?;
                let size = code.field("size", num)?;
                if !(1..=MAX_RING).contains(&size) {
                    return Err(MessageError::Field {
                        request: code,
                        field: "size",
                        value: size.into(),
                    });
                }
                (Self::SetVringNum { index, size }, 0)
            }
            Code::SetVringAddr => {
                let RawAddresses { index, flags, descriptors, used, available, log } =
                    code.read(payload)?;
                let log = match flags {
                    0 => None,
                    LOGGED => Some(log),
                    _ => {
                        return Err(MessageError::Field {
                            request: code,
                            field: "flags",
                            value: flags.into(),
                        });
                    }
                };
                let addresses = Addresses { descriptors, used, available, log };
                (Self::SetVringAddr { index: code.field("ring", index)?, addresses }, 0)
            }
            Code::SetVringBase => {
                let (index, base) = state()?;
                (Self::SetVringBase { index, base }, 0)
            }
            Code::GetVringBase => (Self::GetVringBase { index: state()?.0 }, 0),
            Code::SetVringKick => {
                let (index, has_fd) = file()?;
                (Self::SetVringKick { index, has_fd }, has_fd.into())
            }
            Code::SetVringCall => {
                let (index, has_fd) = file()?;
                (Self::SetVringCall { index, has_fd }, has_fd.into())
            }
            Code::SetVringErr => {
                let (index, has_fd) = file()?;
                (Self::SetVringErr { index, has_fd }, has_fd.into())
            }
            Code::GetProtocolFeatures => (nothing().map(|_| Self::GetProtocolFeatures)?, 0),
            Code::SetProtocolFeatures => (Self::SetProtocolFeatures(number()?), 0),
            Code::GetQueueNum => (nothing().map(|_| Self::GetQueueNum)?, 0),
            Code::SetVringEnable => {
                let (index, num) = state()?;
                let enable = match num {
                    0 => false,
                    1 => true,
                    _ => {
                        return Err(MessageError::Field {
                            request: code,
                            field: "state",
                            value: num.into(),
                        });
                    }
                };
                (Self::SetVringEnable { index, enable }, 0)
            }
            Code::SendRarp => {
                // "The first 6 bytes of the payload contain the mac address."
                let [a, b, c, d, e, f, _, _] = code.read::<[u8; 8]>(payload)?;
                (Self::SendRarp(Mac([a, b, c, d, e, f])), 0)
            }
            Code::NetSetMtu => (Self::NetSetMtu(number()?), 0),
            Code::SetBackendReqFd => (nothing().map(|_| Self::SetBackendReqFd)?, 1),
            Code::GetInflightFd => {
                (Self::GetInflightFd(code.read::<RawInflight>(payload)?.into()), 0)
            }
            Code::SetInflightFd => {
                (Self::SetInflightFd(code.read::<RawInflight>(payload)?.into()), 1)
            }
            Code::ResetDevice => (nothing().map(|_| Self::ResetDevice)?, 0),
            Code::GetMaxMemSlots => (nothing().map(|_| Self::GetMaxMemSlots)?, 0),
            Code::AddMemReg => (Self::AddMemReg(Region::parse(code, payload)?), 1),
            // "For compatibility with existing incorrect implementations, the back-end MAY accept
            // messages with one file descriptor."
            Code::RemMemReg => (Self::RemMemReg(Region::parse(code, payload)?), fds.min(1)),
            Code::SetStatus => (Self::SetStatus(code.field("status", number()?)?), 0),
            Code::GetStatus => (nothing().map(|_| Self::GetStatus)?, 0),
        })
    }

    /// What kind of request it is.
    pub fn code(&self) -> Code {
        match self {
            Self::GetFeatures => Code::GetFeatures,
            Self::SetFeatures(_) => Code::SetFeatures,
            Self::SetOwner => Code::SetOwner,
            Self::ResetOwner => Code::ResetOwner,
            Self::SetMemTable(_) => Code::SetMemTable,
            Self::SetLogBase { .. } => Code::SetLogBase,
            Self::SetLogFd => Code::SetLogFd,
            Self::SetVringNum { .. } => Code::SetVringNum,
            Self::SetVringAddr { .. } => Code::SetVringAddr,
            Self::SetVringBase { .. } => Code::SetVringBase,
            Self::GetVringBase { .. } => Code::GetVringBase,
            Self::SetVringKick { .. } => Code::SetVringKick,
            Self::SetVringCall { .. } => Code::SetVringCall,
            Self::SetVringErr { .. } => Code::SetVringErr,
            Self::GetProtocolFeatures => Code::GetProtocolFeatures,
            Self::SetProtocolFeatures(_) => Code::SetProtocolFeatures,
            Self::GetQueueNum => Code::GetQueueNum,
            Self::SetVringEnable { .. } => Code::SetVringEnable,
            Self::SendRarp(_) => Code::SendRarp,
            Self::NetSetMtu(_) => Code::NetSetMtu,
            Self::SetBackendReqFd => Code::SetBackendReqFd,
            Self::GetInflightFd(_) => Code::GetInflightFd,
            Self::SetInflightFd(_) => Code::SetInflightFd,
            Self::ResetDevice => Code::ResetDevice,
            Self::GetMaxMemSlots => Code::GetMaxMemSlots,
            Self::AddMemReg(_) => Code::AddMemReg,
            Self::RemMemReg(_) => Code::RemMemReg,
            Self::SetStatus(_) => Code::SetStatus,
            Self::GetStatus => Code::GetStatus,
        }
    }
}

impl Table {
    fn parse(payload: &[u8]) -> Result<Self, MessageError> {
        let code = Code::SetMemTable;
        let Ok(([len, _], rest)) = <[u32; 2]>::read_from_prefix(payload) else {
            return Err(code.misfit(payload, 8));
        };
        let len = usize::from(code.field::<u8>("number of regions", len)?);
        let mut regions = [Region { guest: 0, size: 0, user: 0, offset: 0 }; MAX_TABLE];
        let Some(used) = regions.get_mut(..len) else {
            return Err(MessageError::Field {
                request: code,
                field: "number of regions",
                value: len as u64,
            });
        };
        // As many as there are, or the whole table as it is drawn, of which so many count.
        match rest.len() {
            given if given == size_of_val(used) => used.as_mut_bytes().copy_from_slice(rest),
            given if given == MAX_PAYLOAD - 8 => {
                let (first, _) = rest.split_at(size_of_val(used));
                used.as_mut_bytes().copy_from_slice(first);
            }
            _ => return Err(code.misfit(payload, 8 + size_of_val(used))),
        }
        Ok(Self { len, regions })
    }
}

impl Region {
    /// "Single memory region description": padding, then the region.
    fn parse(code: Code, payload: &[u8]) -> Result<Self, MessageError> {
        let [_, guest, size, user, offset] = code.read::<[u64; 5]>(payload)?;
        Ok(Self { guest, size, user, offset })
    }
}

impl From<Inflight> for RawInflight {
    fn from(Inflight { size, offset, queues, queue_size }: Inflight) -> Self {
        Self { size, offset, queues, queue_size, padding: 0 }
    }
}

impl From<RawInflight> for Inflight {
    fn from(RawInflight { size, offset, queues, queue_size, padding: _ }: RawInflight) -> Self {
        Self { size, offset, queues, queue_size }
    }
}

impl Reply {
    /// Reads the reply to `code`.
    ///
    /// # Errors
    ///
    /// [`MessageError`]: it is none, is another request's, or contradicts itself.
    pub fn parse(
        code: Code,
        header: &Header,
        payload: &[u8],
        fds: usize,
    ) -> Result<Self, MessageError> {
        let Header { request, flags, size } = *header;
        if flags & REPLY == 0 {
            return Err(MessageError::Flags { request, flags });
        }
        if request != code as u32 {
            return Err(MessageError::Astray(code, request));
        }
        if size != payload.len() {
            return Err(code.misfit(payload, size));
        }
        code.expect(fds, usize::from(code == Code::GetInflightFd))?;
        Ok(match code {
            Code::GetVringBase => {
                let State { index, num } = code.read(payload)?;
                Self::Base { index: code.field("ring", index)?, base: num }
            }
            Code::GetInflightFd => Self::Inflight(code.read::<RawInflight>(payload)?.into()),
            _ => Self::Number(code, code.read(payload)?),
        })
    }

    /// The reply's bytes.
    pub fn emit(&self) -> Bytes {
        let bytes = |code| Bytes::new(code, VERSION | REPLY);
        match *self {
            Self::Number(code, number) => bytes(code).with(&number),
            Self::Base { index, base } => {
                bytes(Code::GetVringBase).with(&State { index: index.into(), num: base })
            }
            Self::Inflight(inflight) => {
                bytes(Code::GetInflightFd).with(&RawInflight::from(inflight))
            }
        }
    }
}

/// A message as it goes over the socket.
#[derive(Clone, Debug)]
pub struct Bytes {
    len: usize,
    bytes: [u8; HEADER_LEN + MAX_PAYLOAD],
}

impl Bytes {
    fn new(code: Code, flags: u32) -> Self {
        let header = RawHeader { request: code as u32, flags, size: 0 };
        Self { len: 0, bytes: [0; HEADER_LEN + MAX_PAYLOAD] }.append(header.as_bytes())
    }

    /// Appends to the payload. It fits: no message that can be written down exceeds the bound.
    fn with(self, part: &(impl IntoBytes + Immutable + ?Sized)) -> Self {
        let mut longer = self.append(part.as_bytes());
        let size = (longer.len - HEADER_LEN) as u32;
        longer.bytes[8..HEADER_LEN].copy_from_slice(size.as_bytes());
        longer
    }

    fn append(mut self, part: &[u8]) -> Self {
        self.bytes[self.len..][..part.len()].copy_from_slice(part);
        self.len += part.len();
        self
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads bytes as one message and what it must come with.
    fn parse(bytes: &[u8], fds: usize) -> Result<Message, MessageError> {
        let (header, payload) = bytes.split_first_chunk().expect("a header");
        Message::parse(&Header::parse(header)?, payload, fds)
    }

    /// A request of any kind, and how many descriptors go with it.
    fn any_request() -> impl Strategy<Value = (Request, usize)> {
        let region = || {
            any::<[u64; 4]>().prop_map(|[guest, size, user, offset]| Region {
                guest,
                size,
                user,
                offset,
            })
        };
        let inflight =
            || {
                any::<(u64, u64, u16, u16)>().prop_map(|(size, offset, queues, queue_size)| {
                    Inflight { size, offset, queues, queue_size }
                })
            };
        let addresses = any::<(u64, u64, u64, Option<u64>)>().prop_map(
            |(descriptors, used, available, log)| Addresses { descriptors, used, available, log },
        );
        let table = proptest::collection::vec(region(), 0..=MAX_TABLE).prop_map(|regions| {
            (Request::SetMemTable(Table::new(&regions).unwrap()), regions.len())
        });
        let alone = |request: Request| (request, 0);
        let file = |make: fn(u8, bool) -> Request| {
            any::<(u8, bool)>()
                .prop_map(move |(index, has_fd)| (make(index, has_fd), usize::from(has_fd)))
        };
        let plain = prop::sample::select(vec![
            (Request::GetFeatures, 0),
            (Request::SetOwner, 0),
            (Request::ResetOwner, 0),
            (Request::SetLogFd, 1),
            (Request::GetProtocolFeatures, 0),
            (Request::GetQueueNum, 0),
            (Request::SetBackendReqFd, 1),
            (Request::ResetDevice, 0),
            (Request::GetMaxMemSlots, 0),
            (Request::GetStatus, 0),
        ]);
        let simple = prop_oneof![
            any::<u64>().prop_map(Request::SetFeatures),
            any::<u64>().prop_map(Request::SetProtocolFeatures),
            (any::<u8>(), 1..=MAX_RING)
                .prop_map(|(index, size)| Request::SetVringNum { index, size }),
            (any::<u8>(), addresses)
                .prop_map(|(index, addresses)| Request::SetVringAddr { index, addresses }),
            any::<(u8, u32)>().prop_map(|(index, base)| Request::SetVringBase { index, base }),
            any::<u8>().prop_map(|index| Request::GetVringBase { index }),
            any::<(u8, bool)>()
                .prop_map(|(index, enable)| Request::SetVringEnable { index, enable }),
            any::<[u8; 6]>().prop_map(|mac| Request::SendRarp(Mac(mac))),
            any::<u64>().prop_map(Request::NetSetMtu),
            any::<u8>().prop_map(Request::SetStatus),
            inflight().prop_map(Request::GetInflightFd),
        ];
        prop_oneof![
            plain,
            simple.prop_map(alone),
            table,
            any::<(u64, u64)>()
                .prop_map(|(size, offset)| (Request::SetLogBase { size, offset }, 1)),
            file(|index, has_fd| Request::SetVringKick { index, has_fd }),
            file(|index, has_fd| Request::SetVringCall { index, has_fd }),
            file(|index, has_fd| Request::SetVringErr { index, has_fd }),
            inflight().prop_map(|inflight| (Request::SetInflightFd(inflight), 1)),
            region().prop_map(|region| (Request::AddMemReg(region), 1)),
            (region(), 0..2_usize).prop_map(|(region, fds)| (Request::RemMemReg(region), fds)),
        ]
    }

    fn any_reply() -> impl Strategy<Value = (Code, Reply)> {
        let of_numbers: Vec<_> = Code::ALL
            .iter()
            .copied()
            .filter(|c| !matches!(c, Code::GetVringBase | Code::GetInflightFd))
            .collect();
        prop_oneof![
            (prop::sample::select(of_numbers), any::<u64>())
                .prop_map(|(code, n)| (code, Reply::Number(code, n))),
            any::<(u8, u32)>()
                .prop_map(|(index, base)| (Code::GetVringBase, Reply::Base { index, base })),
            any::<(u64, u64, u16, u16)>().prop_map(|(size, offset, queues, queue_size)| {
                (
                    Code::GetInflightFd,
                    Reply::Inflight(Inflight { size, offset, queues, queue_size }),
                )
            }),
        ]
    }

    proptest! {
        #[test]
        fn parsing_a_request_undoes_emitting_it((request, fds) in any_request(), need_reply in any::<bool>()) {
            let message = Message { request, need_reply };
            prop_assert_eq!(parse(message.emit().as_ref(), fds), Ok(message));
            prop_assert_eq!(Code::of(request.code() as u32), Some(request.code()));
        }

        #[test]
        fn a_request_with_more_descriptors_than_it_has_is_refused((request, fds) in any_request(), more in 1..9_usize) {
            let bytes = Message { request, need_reply: false }.emit();
            let fds = if matches!(request, Request::RemMemReg(_)) { 1 } else { fds };
            let refused = matches!(parse(bytes.as_ref(), fds + more), Err(MessageError::Descriptors { .. }));
            prop_assert!(refused);
        }

        #[test]
        fn parsing_a_reply_undoes_emitting_it((code, reply) in any_reply()) {
            let bytes = reply.emit();
            let (header, payload) = bytes.as_ref().split_first_chunk().unwrap();
            let fds = usize::from(code == Code::GetInflightFd);
            let header = Header::parse(header).unwrap();
            prop_assert_eq!(Reply::parse(code, &header, payload, fds), Ok(reply));
            prop_assert!(Reply::parse(code, &header, payload, fds + 1).is_err());
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(
            request in 0..45_u32,
            flags in prop_oneof![Just(1), Just(9), any::<u32>()],
            payload in proptest::collection::vec(any::<u8>(), 0..300),
            fds in 0..10_usize,
        ) {
            let header = RawHeader { request, flags, size: payload.len() as u32 };
            if let Ok(message) = parse(&[header.as_bytes(), &payload].concat(), fds) {
                prop_assert!(payload.len() <= MAX_PAYLOAD);
                prop_assert_eq!(parse(message.emit().as_ref(), fds), Ok(message));
            }
        }
    }

    #[test]
    fn every_request_has_its_number_in_the_specification() {
        let numbers: Vec<_> = Code::ALL.iter().map(|code| *code as u32).collect();
        let served = (1..=21).chain([31, 32, 34]).chain(36..=40);
        assert_eq!(numbers, served.collect::<Vec<_>>());
        assert_eq!(size_of::<RawInflight>(), 24);
        assert_eq!(MAX_PAYLOAD, 264);
    }

    #[test]
    fn what_we_do_not_serve_is_named() {
        let ask = |request: u32, flags: u32, size: u32| {
            let header = RawHeader { request, flags, size };
            parse(header.as_bytes(), 0).unwrap_err().to_string()
        };
        assert!(ask(22, 1, 0).contains("request 22 (IOTLB_MSG)"), "{}", ask(22, 1, 0));
        assert!(ask(1000, 1, 0).contains("request 1000:"));
        assert!(ask(1, 2, 0).contains("version 1"));
        assert!(ask(1, 1 | REPLY, 0).contains("version 1"), "a reply is no request");
        assert!(ask(5, 1, 265).contains("exceeds 264"));
        assert!(ask(5, 1, u32::MAX).contains("exceeds 264"));
        assert!(ask(2, 1, 0).contains("SetFeatures: its payload has 0 bytes, not 8"));
    }

    #[test]
    fn a_table_may_come_whole_although_only_some_of_it_counts() {
        let region = Region { guest: 1, size: 2, user: 3, offset: 4 };
        let short = Message {
            request: Request::SetMemTable(Table::new(&[region]).unwrap()),
            need_reply: false,
        };
        let mut whole = short.emit().as_ref().to_vec();
        whole.resize(HEADER_LEN + MAX_PAYLOAD, 0xee);
        whole[8..12].copy_from_slice(&(MAX_PAYLOAD as u32).to_ne_bytes());
        assert_eq!(parse(&whole, 1), Ok(short));
        whole[12] = 9;
        assert!(parse(&whole, 9).is_err(), "nine regions");
    }

    #[test]
    fn an_answer_to_something_else_is_no_answer() {
        let bytes = Reply::Number(Code::GetFeatures, 1).emit();
        let (header, payload) = bytes.as_ref().split_first_chunk().unwrap();
        let header = Header::parse(header).unwrap();
        assert_eq!(
            Reply::parse(Code::GetQueueNum, &header, payload, 0),
            Err(MessageError::Astray(Code::GetQueueNum, 1))
        );
    }
}
