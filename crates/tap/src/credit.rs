//! Credit: the reason that no frame is dropped between a container's socket and the TAP device's
//! ring.
//!
//! A TAP device accepts every frame at once, and drops frames if its ring is full. So frames must
//! be held back before it, by a token bucket at the container's end whose rate is practically zero.
//! Installing the bucket again fills it. That is a grant.
//!
//! ```text
//!   socket ──▶ token bucket ──▶ ring ──▶ read
//!     │         │ B tokens       │         │ counts what it reads
//!     │ full:   │ spent: holds   │ holds   │
//!     │ blocks  │                │ ≤ 2 B   ▼
//!     ◀─────────┘◀───── B again, and a kick, once the ring was seen empty ─────
//! ```
//!
//! All amounts are bytes as the bucket counts them: a large packet counts as the frames that it
//! will be cut into.
//!
//! **The rule.** A grant is due when the ring was seen empty and at least B/2 were read since the
//! last grant. Each grant is followed by a kick, a frame of our own through the bucket, because the
//! bucket does not check its new tokens before the next packet arrives.
//!
//! **The ring never overflows.** When the ring was seen empty, the bucket had at most B tokens
//! left, and until the grant only these can fill the ring. The grant makes them B again. So the
//! ring holds at most 2 B, in frames that count at least [`SMALLEST`] each: [`RING`] frames. The
//! bucket's own rate (1 byte a second, up to the burst) never raises the tokens above B.
//!
//! **It never stalls.** The bucket holds a packet back only if it has fewer tokens than the packet
//! counts, which is at most B/2 by the limits below. So more than B/2 were spent since the last
//! grant. All of it went to the ring and is read after that grant. Then the ring is seen empty, and
//! the next grant is due. Its kick makes the bucket check its tokens. Bytes that were spent before
//! a grant and read after it make the next grant earlier, never later.
//!
//! **An idle port is ready.** After its ring was seen empty and it was flushed, at least B/2 tokens
//! are left, so the next frame is sent without a grant.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::sockopt::set_socket_send_buffer_size_force;
use units::{Mac, Rate};

use kernel::netlink::{
    Handle, Netlink, NetlinkError, POSTED, Qdisc, QdiscKind, TokenBucket, encode, set_request,
};
use kernel::packet;

/// B, the credit in bytes. With less credit, fewer bytes wait in the ring, where they do not hold
/// back a socket. With more credit, fewer grants of about 16 µs each are needed. A TCP stream was
/// equally fast with 256 KiB, 512 KiB and 1 MiB.
pub(super) const BURST: u32 = 256 << 10;

/// The least that an entry of the ring counts.
///
/// The bucket counts every packet as at least [`MINIMUM`]. But without segmentation offload a
/// packet becomes several entries behind the bucket, each with headers and at least one byte: 43
/// for UDP over IPv4.
const SMALLEST: u32 = 32;

/// The least that the bucket counts a packet as (tc-tbf(8), `mpu`): the smallest frame of IEEE
/// 802.3 §3.2.7, with its check sequence.
pub(super) const MINIMUM: u16 = 64;

/// The number of packets that the device's ring must hold: its `txqueuelen`.
pub(super) const RING: u32 = 2 * BURST / SMALLEST;

/// The most segments of one packet; `gso_max_segs` of the device. UDP has the same limit
/// (UDP_MAX_SEGMENTS), and 64 KiB of TCP at an MTU of at least 576 need no more.
pub(super) const MOST_SEGMENTS: u32 = 128;

/// The most that one packet counts: 64 KiB, and for each segment an Ethernet header with a tag, an
/// IPv4 or IPv6 header and a TCP header of at most 60 bytes each.
pub(super) const LARGEST: u32 = (64 << 10) + MOST_SEGMENTS * (18 + 60 + 60);
const _: () = assert!(LARGEST <= BURST / 2, "a bucket with half its tokens passes any packet");

/// The most bytes that may wait in the bucket. Further packets would be dropped, so it must exceed
/// what all sockets of the container can send before they block: 5,000 UDP sockets with the usual
/// 212,992 bytes each (net.core.wmem_default; a packet counts no more than it takes from its
/// socket's buffer), or 256 TCP connections with 4 MiB each (net.ipv4.tcp_limit_output_bytes; more
/// connections share net.ipv4.tcp_mem).
pub(super) const LIMIT: u32 = 1 << 30;

/// The handle of our bucket on the device.
pub(super) const BUCKET: Handle = Handle(0x7a6f, 0);

/// Decides when grants are due.
#[derive(Debug, Default)]
struct Account {
    /// Bytes read since the last grant.
    read_bytes: u64,
    /// Whether the ring was seen empty since the last check.
    seen_empty: bool,
}

impl Account {
    /// Whether a grant is due now. If so, the caller must make it.
    fn grant(&mut self) -> bool {
        let due = self.seen_empty && self.read_bytes >= u64::from(BURST / 2);
        self.seen_empty = false;
        if due {
            self.read_bytes = 0;
        }
        due
    }
}

/// The credit of a device.
#[derive(Debug)]
pub(super) struct Credit {
    account: Account,
    /// The netlink request that fills the bucket.
    refill: Vec<u8>,
    refill_due: bool,
    kick: Kick,
    kick_due: bool,
}

impl Credit {
    /// Installs the bucket, full. What hangs in it stays.
    pub fn install(netlink: &mut Netlink, link: u32, kick: Kick) -> Result<Self, NetlinkError> {
        netlink.set_qdisc(link, root())?;
        // Without NLM_F_CREATE: a bucket that was removed is reported, not made again.
        let refill = encode(0, POSTED, set_request(link, root()));
        let account = Account::default();
        Ok(Self { account, refill, refill_due: false, kick, kick_due: false })
    }

    /// A packet was read that the bucket has counted as this many bytes.
    #[inline]
    pub fn read(&mut self, bytes: usize) {
        self.account.read_bytes += bytes.max(usize::from(MINIMUM)) as u64;
    }

    /// The ring was seen empty.
    #[inline]
    pub fn seen_empty(&mut self) {
        self.account.seen_empty = true;
    }

    /// What a frame of ours says.
    #[inline]
    pub fn own(&self, frame: &[u8]) -> Option<Own> {
        self.kick.read(frame)
    }

    /// A kick is due although the bucket was not filled.
    pub fn kick_soon(&mut self) {
        self.kick_due = true;
    }

    /// What sends kicks.
    pub fn kick(&self) -> &Kick {
        &self.kick
    }

    /// Makes a grant if one is due. Returns `false` if the kernel had no memory: then it must be
    /// tried again.
    ///
    /// The kernel changes queueing disciplines under a lock that all namespaces share (RTNL), so
    /// this waits while devices are made or deleted.
    #[inline]
    pub fn settle(&mut self, netlink: &mut Netlink) -> io::Result<bool> {
        self.refill_due |= self.account.grant();
        if self.refill_due {
            match netlink.post(&self.refill) {
                Ok(()) => (self.refill_due, self.kick_due) = (false, true),
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENOBUFS | libc::ENOMEM) => return Ok(false),
                    // The bucket was removed: nothing is held back until it is there again.
                    Some(libc::ENOENT | libc::EINVAL) => self.refill_due = false,
                    _ => return Err(error),
                },
            }
        }
        if self.kick_due {
            self.kick_due = self.kick.send(Own::KICK)? == Sent::Later;
        }
        Ok(!self.kick_due)
    }
}

/// What a frame of ours says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Own {
    /// What it is, and for which lane; 0 of a kick.
    pub number: u8,
    /// The turn of its lane that it belongs to.
    pub turn: u16,
}

impl Own {
    const KICK: Self = Self { number: 0, turn: 0 };
}

/// What became of a frame of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sent {
    /// It waits at the interface.
    Yes,
    /// The interface was down, or its queue full.
    Lost,
    /// It must be tried again.
    Later,
}

/// Sends kicks: frames into the container's end that make the bucket check its tokens.
///
/// A privileged program in the container can see kicks and send frames like them. Those are
/// discarded like ours, and harm only the container.
#[derive(Debug)]
pub(super) struct Kick {
    socket: OwnedFd,
    frame: [u8; Self::LEN],
}

impl Kick {
    const LEN: usize = 60;

    /// Where a frame's number is: the last byte of its destination.
    const NUMBER: usize = 5;

    /// Where its turn is: at its end.
    const TURN: usize = Self::LEN - 2;

    /// An EtherType for local experiments (IEEE 802 §9.2.3): bridges and hosts ignore it.
    const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

    /// Kicks wait in the bucket behind the container's packets. Where something waits, half a
    /// credit was read between two of them: of a grant by its rule, of a filled lane since the ring
    /// was seen empty before it, although the bucket had tokens. So a full bucket has at most
    /// 2 × [`LIMIT`] / [`BURST`] of them, each a socket buffer of less than 1 KiB.
    const SEND_BUFFER: usize = (2 * (LIMIT / BURST) * 1024) as usize;

    /// For a device in the calling thread's network namespace.
    pub fn new(link: u32) -> io::Result<Self> {
        let socket = packet::socket(link, 0)?;
        set_send_buffer(&socket, Self::SEND_BUFFER)?;
        // Destination, source, and a random cookie that identifies our frames.
        let mut frame = [0; Self::LEN];
        io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut frame)?;
        frame[0] = 0x02;
        frame[6] = 0x02;
        frame[12..14].copy_from_slice(&Self::ETHERTYPE);
        Ok(Self { socket, frame })
    }

    /// The Ethernet address that a frame with this number is sent to.
    pub fn address(&self, number: u8) -> Mac {
        let [a, b, c, d, e, ..] = self.frame;
        Mac([a, b, c, d, e, number])
    }

    /// What a frame of ours says.
    #[inline]
    fn read(&self, frame: &[u8]) -> Option<Own> {
        const COOKIE: Range<usize> = Kick::NUMBER + 1..Kick::TURN;
        let is_own = frame.len() == Self::LEN && frame[COOKIE] == self.frame[COOKIE];
        let turn = || u16::from_be_bytes([frame[Self::TURN], frame[Self::TURN + 1]]);
        is_own.then(|| Own { number: frame[Self::NUMBER], turn: turn() })
    }

    /// Sends a frame that says this. A kick does its work even if it is lost: a full bucket that
    /// drops it has checked its tokens, and a device that is down has lost everything it held, and
    /// checks when it comes up.
    pub fn send(&self, own: Own) -> io::Result<Sent> {
        let mut frame = self.frame;
        frame[Self::NUMBER] = own.number;
        frame[Self::TURN..].copy_from_slice(&own.turn.to_be_bytes());
        match rustix::net::send(&self.socket, &frame, SendFlags::DONTWAIT) {
            Ok(_) => Ok(Sent::Yes),
            Err(Errno::NOBUFS | Errno::NETDOWN) => Ok(Sent::Lost),
            Err(Errno::AGAIN) => Ok(Sent::Later),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sets a socket's send buffer to `bytes`, which may exceed the system's limit.
fn set_send_buffer(socket: &OwnedFd, bytes: usize) -> io::Result<()> {
    // The kernel doubles the value (socket(7)).
    Ok(set_socket_send_buffer_size_force(socket, bytes / 2)?)
}

/// The device's bucket, full.
fn root() -> Qdisc {
    Qdisc { parent: Handle::ROOT, handle: BUCKET, kind: bucket(BURST, MINIMUM) }
}

/// A bucket that is filled by being set, to `burst` bytes, and counts a packet as `least` bytes at
/// least.
pub(super) fn bucket(burst: u32, least: u16) -> QdiscKind {
    QdiscKind::TokenBucket(TokenBucket {
        // A byte a second, the lowest possible rate.
        rate: Rate::from_bits_per_sec(8).expect("8 is not 0"),
        burst_bytes: burst,
        limit_bytes: LIMIT,
        overhead_bytes: 0,
        smallest_bytes: least,
        largest_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use units::Rng;

    use super::*;

    /// A model of a container's end, its ring and a switch that reads it.
    #[derive(Default)]
    struct World {
        tokens: u64,
        bucket: VecDeque<Packet>,
        ring: VecDeque<u64>,
        fullest: usize,
        account: Account,
    }

    /// How much the bucket counts a packet as, and how many ring entries it becomes.
    #[derive(Clone, Copy)]
    struct Packet {
        bytes: u64,
        entries: u64,
    }

    impl World {
        fn send(&mut self, packet: Packet) {
            self.bucket.push_back(packet);
            while let Some(head) = self.bucket.front()
                && head.bytes <= self.tokens
            {
                self.tokens -= head.bytes;
                self.ring.extend((0..head.entries).map(|_| head.bytes / head.entries));
                self.bucket.pop_front();
            }
            self.fullest = self.fullest.max(self.ring.len());
        }

        fn read(&mut self, most: u64) {
            for _ in 0..most {
                match self.ring.pop_front() {
                    Some(bytes) => self.account.read_bytes += bytes,
                    None => {
                        self.account.seen_empty = true;
                        return;
                    }
                }
            }
        }

        fn settle(&mut self, meanwhile: impl FnOnce(&mut Self)) {
            if self.account.grant() {
                meanwhile(self);
                self.tokens = u64::from(BURST);
                self.send(Packet { bytes: 64, entries: 1 });
            }
        }
    }

    fn any_packet(rng: &mut Rng) -> Packet {
        match rng.below(4) {
            0 => Packet { bytes: u64::from(LARGEST), entries: 1 },
            // 128 datagrams of one byte, segmented behind the bucket.
            1 => Packet { bytes: 128 * 43, entries: 128 },
            2 => Packet { bytes: u64::from(MINIMUM), entries: 1 },
            _ => Packet { bytes: 64 + rng.below(9000), entries: 1 },
        }
    }

    #[test]
    fn no_order_of_events_overflows_the_ring_or_stalls_the_bucket() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut world = World { tokens: u64::from(BURST), ..World::default() };
            for _ in 0..rng.below(400) {
                match rng.below(3) {
                    0 => (0..rng.below(400)).for_each(|_| world.send(any_packet(&mut rng))),
                    1 => world.read(rng.below(3000)),
                    _ => {
                        let more = rng.below(2000);
                        world.settle(|world| {
                            (0..more).for_each(|_| world.send(any_packet(&mut rng)))
                        });
                    }
                }
                assert!(world.fullest <= RING as usize, "seed {seed}: {} entries", world.fullest);
            }
            // Nothing more is sent: everything that waits must be delivered.
            while !world.bucket.is_empty() {
                let before = world.bucket.len();
                world.read(u64::from(RING) + 1);
                world.settle(|_| {});
                assert!(world.bucket.len() < before, "seed {seed}: stalled with {before} packets");
            }
        }
    }

    #[test]
    fn the_smallest_entries_do_not_overflow_the_ring() {
        let least = Packet { bytes: 128 * 43, entries: 128 };
        let mut world = World { tokens: u64::from(BURST), ..World::default() };
        for _ in 0..20_000 {
            world.send(least);
        }
        world.read(u64::from(RING) + 1);
        world.settle(|_| {});
        assert!(world.fullest <= RING as usize);
        assert!(world.fullest >= RING as usize / 4, "the bound is not idle: {}", world.fullest);
    }
}
