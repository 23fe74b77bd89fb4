//! Requests: what front-ends ask for.

use units::Mac;
use zerocopy::{FromBytes, IntoBytes};

use super::code::Code;
use super::error::MessageError;
use super::header::{Bytes, Header, NEED_REPLY, REPLY, VERSION};
use super::payload::{
    Addresses, Inflight, MAX_PAYLOAD, MAX_RING, MAX_TABLE, RawAddresses, RawInflight, Region,
    State, Table,
};

/// VHOST_VRING_F_LOG.
const LOGGED: u32 = 1;

/// "Bit 8 is the invalid FD flag."
const NO_FD: u64 = 1 << 8;

/// A request of a front-end.
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

/// A request, and whether the front-end waits for its outcome.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message {
    /// The request.
    pub request: Request,
    /// Whether to reply even if the request has no reply of its own ("REPLY_ACK").
    pub need_reply: bool,
}

impl Message {
    /// Parses a message from its header, its payload and the number of its descriptors.
    ///
    /// # Errors
    ///
    /// [`MessageError`]: a network back-end does not serve it, or it is invalid.
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

    /// Writes the message.
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
            Request::SetMemTable(table) => {
                let regions = table.regions();
                bytes.with(&[regions.len() as u32, 0]).with(regions)
            }
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
    /// Parses a request. Returns it and the number of its descriptors.
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
                (Self::SetMemTable(table), table.regions().len())
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

    /// The kind of request.
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
        // Either only the used regions, or the specification's whole table, of which only `len`
        // regions count.
        match rest.len() {
            given if given == size_of_val(used) => used.as_mut_bytes().copy_from_slice(rest),
            given if given == MAX_PAYLOAD - 8 => {
                let (first, _) = rest.split_at(size_of_val(used));
                used.as_mut_bytes().copy_from_slice(first);
            }
            _ => return Err(code.misfit(payload, 8 + size_of_val(used))),
        }
        Ok(Self::new(&regions[..len]).expect("a table holds as many"))
    }
}

impl Region {
    /// "Single memory region description": padding, then the region.
    fn parse(code: Code, payload: &[u8]) -> Result<Self, MessageError> {
        let [_, guest, size, user, offset] = code.read::<[u64; 5]>(payload)?;
        Ok(Self { guest, size, user, offset })
    }
}
