//! Queueing disciplines: tbf, pfifo and htb with its classes, and what any of them has dropped.

use netlink_packet_core::{DefaultNla, Emitable, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use units::Rate;

use super::{Netlink, NetlinkError};

/// A queueing discipline's number on its device, `major:minor`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Handle(pub u16, pub u16);

impl Handle {
    /// Where a device's first discipline hangs.
    pub const ROOT: Self = Self(u16::MAX, u16::MAX);
}

/// A queueing discipline to install.
#[derive(Clone, Copy, Debug)]
pub struct Qdisc {
    /// Where it hangs: [`Handle::ROOT`], `major:1` under a token bucket, or a class.
    pub parent: Handle,
    /// Its own number; its minor part is 0.
    pub handle: Handle,
    /// What it does.
    pub kind: QdiscKind,
}

/// What a queueing discipline does.
#[derive(Clone, Copy, Debug)]
pub enum QdiscKind {
    /// Lets frames pass at a rate; `tbf`.
    TokenBucket(TokenBucket),
    /// Holds so many packets in order and drops the rest; `pfifo`.
    Fifo {
        /// The most packets.
        packets: u32,
    },
    /// Has [classes](Netlink::set_class) that each hold packets apart; `htb`. A packet's priority
    /// names its class.
    Classes {
        /// The minor number of the class of packets that name none.
        default: u16,
        /// While there is no such class, so many packets wait in order and the rest is dropped.
        packets: u32,
    },
}

/// A class of a discipline with [classes](QdiscKind::Classes). It passes packets as fast as they
/// are taken.
#[derive(Clone, Copy, Debug)]
pub struct QdiscClass {
    /// Its number: the discipline's with a minor part.
    pub handle: Handle,
    /// Classes with a lower number go first.
    pub priority: u32,
    /// How many bytes it may send in its turn among classes of one priority.
    pub quantum: u32,
}

/// A token bucket filter's settings. To install it again resets its tokens to a full burst.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// How fast tokens come.
    pub rate: Rate,
    /// The most tokens, in bytes. A packet of more can never pass: it is segmented if it can be, or
    /// dropped.
    pub burst_bytes: u32,
    /// How much may wait for tokens; the rest is dropped.
    pub limit_bytes: u32,
    /// What each packet costs besides its bytes.
    pub overhead_bytes: u16,
    /// What the smallest packet costs, in bytes and with its overhead.
    pub smallest_bytes: u16,
    /// A larger packet is segmented before it is queued, if it can be; `None` leaves that to the
    /// burst.
    pub largest_bytes: Option<u32>,
}

/// A queueing discipline as the kernel describes it.
#[derive(Clone, Debug)]
pub struct QdiscStatus {
    /// What it is: `tbf`, `pfifo`, `noqueue`.
    pub kind: String,
    /// Where it hangs.
    pub parent: Handle,
    /// Its own number.
    pub handle: Handle,
    /// Bytes that it has passed on.
    pub bytes: u64,
    /// Packets that it has dropped.
    pub drops: u32,
    /// Packets that wait in it now.
    pub queued_packets: u32,
    /// Bytes that wait in it now.
    pub backlog_bytes: u32,
}

impl Netlink {
    /// Installs a queueing discipline, or changes the one that is there already.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if the kernel lacks that kind.
    pub fn set_qdisc(&mut self, link: u32, qdisc: Qdisc) -> Result<(), NetlinkError> {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.ask("set qdisc of", &format!("link {link}"), flags, set_request(link, qdisc))
    }

    /// Adds a class to a queueing discipline, or changes the one that is there already.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if there is no such discipline.
    pub fn set_class(&mut self, link: u32, class: QdiscClass) -> Result<(), NetlinkError> {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.ask("set a qdisc's class of", &format!("link {link}"), flags, class.request(link))
    }

    /// The queueing disciplines of a device.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if the kernel will not list them.
    pub fn qdiscs(&mut self, link: u32) -> Result<Vec<QdiscStatus>, NetlinkError> {
        let mut found = Vec::new();
        let everything =
            RouteNetlinkMessage::GetQueueDiscipline(TcMessage::with_index(link as i32));
        self.list("list qdiscs of", &format!("link {link}"), NLM_F_DUMP, everything, |answer| {
            // The kernel lists all devices', whichever one is asked for.
            if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer
                && message.header.index == link as i32
            {
                found.push(status_of(message));
            }
        })?;
        Ok(found)
    }
}

/// Where the settings of a discipline or class are in a message (linux/rtnetlink.h).
const TCA_OPTIONS: u16 = 2;

const LINKLAYER_ETHERNET: u8 = 1;

/// The request that installs `qdisc` on a device, or changes it.
pub fn set_request(link: u32, qdisc: Qdisc) -> RouteNetlinkMessage {
    let (kind, options) = match qdisc.kind {
        QdiscKind::TokenBucket(bucket) => ("tbf", bucket.options()),
        QdiscKind::Fifo { packets } => ("pfifo", packets.to_ne_bytes().to_vec()),
        QdiscKind::Classes { default, packets } => ("htb", classes_options(default, packets)),
    };
    let mut message = TcMessage::with_index(link as i32);
    message.header.parent = qdisc.parent.into();
    message.header.handle = qdisc.handle.into();
    message.attributes = vec![
        TcAttribute::Kind(kind.into()),
        TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)),
    ];
    RouteNetlinkMessage::NewQueueDiscipline(message)
}

/// The rate of a second bucket that only bounds the size of a packet, in bytes a second: a terabit.
const PEAK: u64 = 125_000_000_000;

impl TokenBucket {
    /// The attributes of `tbf` (linux/pkt_sched.h), which the message library does not know.
    fn options(self) -> Vec<u8> {
        const TCA_TBF_PARMS: u16 = 1;
        const TCA_TBF_RATE64: u16 = 4;
        const TCA_TBF_PRATE64: u16 = 5;
        const TCA_TBF_BURST: u16 = 6;
        const TCA_TBF_PBURST: u16 = 7;
        let rate = (self.rate.bits_per_sec() / 8).max(1);

        // struct tc_tbf_qopt: two struct tc_ratespec (rate and peak), limit, buffer, mtu.
        let mut params = Vec::with_capacity(36);
        params.extend([0, LINKLAYER_ETHERNET]);
        params.extend(self.overhead_bytes.to_ne_bytes());
        params.extend([0, 0]);
        params.extend(self.smallest_bytes.to_ne_bytes());
        params.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
        match self.largest_bytes {
            // A second bucket as large as one packet, filled so fast that it never holds one back.
            Some(_) => {
                params.extend([0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
                params.extend(u32::MAX.to_ne_bytes());
            }
            None => params.extend([0; 12]),
        }
        params.extend(self.limit_bytes.to_ne_bytes());
        // Overruled by TCA_TBF_BURST, but not allowed to be 0.
        params.extend(1u32.to_ne_bytes());
        params.extend(0u32.to_ne_bytes());

        let mut attributes = vec![
            DefaultNla::new(TCA_TBF_PARMS, params),
            DefaultNla::new(TCA_TBF_RATE64, rate.to_ne_bytes().to_vec()),
            DefaultNla::new(TCA_TBF_BURST, self.burst_bytes.to_ne_bytes().to_vec()),
        ];
        if let Some(largest) = self.largest_bytes {
            attributes.push(DefaultNla::new(TCA_TBF_PRATE64, PEAK.to_ne_bytes().to_vec()));
            attributes.push(DefaultNla::new(TCA_TBF_PBURST, largest.to_ne_bytes().to_vec()));
        }
        emitted(&attributes)
    }
}

/// The attributes of `htb` (linux/pkt_sched.h).
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_DIRECT_QLEN: u16 = 5;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;

fn classes_options(default: u16, packets: u32) -> Vec<u8> {
    // struct tc_htb_glob: version, rate to quantum, default class, debugging, packets.
    let init = [3, 10, u32::from(default), 0, 0].map(u32::to_ne_bytes).concat();
    emitted(&[
        DefaultNla::new(TCA_HTB_INIT, init),
        DefaultNla::new(TCA_HTB_DIRECT_QLEN, packets.to_ne_bytes().to_vec()),
    ])
}

impl QdiscClass {
    fn request(self, link: u32) -> RouteNetlinkMessage {
        // So fast that it never holds a packet back, in bytes a second: a petabyte.
        const RATE: u64 = 1_000_000_000_000_000;
        // struct tc_htb_opt: two struct tc_ratespec (rate and ceiling), both bursts, quantum, level
        // and priority.
        let rate = [[0, LINKLAYER_ETHERNET, 0, 0], [0; 4], u32::MAX.to_ne_bytes()].concat();
        let rest = [u32::MAX / 2, u32::MAX / 2, self.quantum, 0, self.priority];
        let params = [rate.clone(), rate, rest.map(u32::to_ne_bytes).concat()].concat();
        let options = emitted(&[
            DefaultNla::new(TCA_HTB_PARMS, params),
            DefaultNla::new(TCA_HTB_RATE64, RATE.to_ne_bytes().to_vec()),
            DefaultNla::new(TCA_HTB_CEIL64, RATE.to_ne_bytes().to_vec()),
        ]);
        let mut message = TcMessage::with_index(link as i32);
        message.header.parent = Handle(self.handle.0, 0).into();
        message.header.handle = self.handle.into();
        message.attributes = vec![
            TcAttribute::Kind("htb".into()),
            TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)),
        ];
        RouteNetlinkMessage::NewTrafficClass(message)
    }
}

fn emitted(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

fn status_of(message: TcMessage) -> QdiscStatus {
    let mut status = QdiscStatus {
        kind: String::new(),
        parent: message.header.parent.into(),
        handle: message.header.handle.into(),
        bytes: 0,
        drops: 0,
        queued_packets: 0,
        backlog_bytes: 0,
    };
    for attribute in message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => status.kind = kind,
            TcAttribute::Stats2(parts) => {
                for part in parts {
                    match part {
                        TcStats2::Basic(basic) => status.bytes = basic.bytes,
                        TcStats2::Queue(queue) => {
                            status.drops = queue.drops;
                            status.queued_packets = queue.qlen;
                            status.backlog_bytes = queue.backlog;
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    status
}

impl From<Handle> for TcHandle {
    fn from(Handle(major, minor): Handle) -> Self {
        Self { major, minor }
    }
}

impl From<TcHandle> for Handle {
    fn from(handle: TcHandle) -> Self {
        Self(handle.major, handle.minor)
    }
}
