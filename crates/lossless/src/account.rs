//! The law, kept in numbers: accepted = delivered + refused + held.

use crate::config::LossyClass;

/// Why a frame is refused. Policy, never congestion of a lossless class.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Reason {
    /// The egress was full and the frame's class is lossy.
    Full,
    /// The receiver has taken nothing for the stall time.
    StalledReceiver,
    /// One of the frame's two ports was detached.
    Detached,
    /// The destination sits at the port that the frame came from (802.1Q §8.6.1).
    SamePort,
    /// It is for no one port, and no other port of its network may have it.
    NoEgress,
    /// A group address that never crosses a bridge: PAUSE, spanning tree, link-layer discovery
    /// (802.1Q table 8-1).
    LinkLocal,
    /// Not an Ethernet frame, or one that no machine may send: from a group or from nobody, of VLAN
    /// 4095, or MAC control for somebody beyond the link.
    Malformed,
    /// Its receiver cannot take a frame this long or of this kind.
    Unfit,
    /// The memory that it lay in was taken away.
    Withdrawn,
    /// Of its network, the port that it came by is no member, or the port where its destination was
    /// pinned (802.1Q §8.6.2, §8.6.4).
    NotMember,
    /// It came by a trunk, and its destination is behind another (RFC 4762 §4.4).
    SplitHorizon,
    /// The socket that it is for has taken nothing for the socket's stall time.
    SocketStalled,
    /// A copy for a bystander that does not keep up: such copies hold no sender.
    SlowReceiver,
    /// Its port has had as many broadcasts flooded as it may for now.
    BroadcastLimit,
    /// The same of frames to groups that nobody has asked for.
    MulticastLimit,
    /// The same of frames to addresses of which nobody knows where they are.
    UnknownLimit,
    /// Its sender speaks from, or for, an address that is declared to be another's.
    Spoofed,
    /// A port is not in its VLAN: the one that it came by, or the one where its destination was
    /// pinned (802.1Q §8.6.2, §8.6.4).
    NotInVlan,
    /// The logical network that its port is in has nowhere for it to go, or forbids it. The network
    /// says why.
    LogicalNetwork,
    /// A rule of its logical network rejects it: its sender is told.
    Rejected,
    /// Its receiver is at another host by now: its sender has it again.
    Moved,
    /// The interface that it leaves by has dropped it, though nothing is in its way there: a rule
    /// of the host's.
    InterfaceDropped,
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every reason, in the order of its number.
    pub const ALL: [Self; 22] = [
        Self::Full,
        Self::StalledReceiver,
        Self::Detached,
        Self::SamePort,
        Self::NoEgress,
        Self::LinkLocal,
        Self::Malformed,
        Self::Unfit,
        Self::Withdrawn,
        Self::NotMember,
        Self::SplitHorizon,
        Self::SocketStalled,
        Self::SlowReceiver,
        Self::BroadcastLimit,
        Self::MulticastLimit,
        Self::UnknownLimit,
        Self::Spoofed,
        Self::NotInVlan,
        Self::LogicalNetwork,
        Self::Rejected,
        Self::Moved,
        Self::InterfaceDropped,
    ];

    /// The reason in metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::StalledReceiver => "stalled_receiver",
            Self::Detached => "detached",
            Self::SamePort => "same_port",
            Self::NoEgress => "no_egress",
            Self::LinkLocal => "link_local",
            Self::Malformed => "malformed",
            Self::Unfit => "unfit",
            Self::Withdrawn => "withdrawn",
            Self::NotMember => "not_member",
            Self::SplitHorizon => "split_horizon",
            Self::SocketStalled => "socket_stalled",
            Self::SlowReceiver => "slow_receiver",
            Self::BroadcastLimit => "broadcast_limit",
            Self::MulticastLimit => "multicast_limit",
            Self::UnknownLimit => "unknown_limit",
            Self::Spoofed => "spoofed",
            Self::NotInVlan => "not_in_vlan",
            Self::LogicalNetwork => "logical_network",
            Self::Rejected => "rejected",
            Self::Moved => "moved",
            Self::InterfaceDropped => "interface_dropped",
        }
    }
}

const _: () = {
    let mut number = 0;
    while number < Reason::COUNT {
        assert!(
            Reason::ALL[number] as usize == number,
            "a reason's account is found by its number"
        );
        number += 1;
    }
};

/// A refusal that may be made: whoever holds one has shown why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal(Reason);

impl Refusal {
    /// For want of room: only for a class that is lossy.
    #[inline]
    pub(crate) const fn full(_: LossyClass) -> Self {
        Self(Reason::Full)
    }

    /// Of a copy for a bystander, for want of room: the copies of one sender may take up its
    /// [share](crate::Audience::bystanders) of what it may have held, and no more.
    pub(crate) const SLOW: Self = Self(Reason::SlowReceiver);

    /// Nothing was heard of its receiver for the stall time.
    pub const STALLED: Self = Self(Reason::StalledReceiver);
    /// Its sender or its receiver is gone.
    pub const DETACHED: Self = Self(Reason::Detached);
    /// Of its ports, the one that it came by is the one that it is for.
    pub const SAME_PORT: Self = Self(Reason::SamePort);
    /// Nobody is to have it.
    pub const NO_EGRESS: Self = Self(Reason::NoEgress);
    /// Its address never crosses a bridge.
    pub const LINK_LOCAL: Self = Self(Reason::LinkLocal);
    /// A port is no member of its network.
    pub const NOT_MEMBER: Self = Self(Reason::NotMember);
    /// It came from another host and would go to another.
    pub const SPLIT_HORIZON: Self = Self(Reason::SplitHorizon);
    /// Its socket has taken nothing for the socket's stall time.
    pub const SOCKET_STALLED: Self = Self(Reason::SocketStalled);
    /// It is no Ethernet frame, or one that no machine may send.
    pub const MALFORMED: Self = Self(Reason::Malformed);
    /// Its port broadcasts more than it may.
    pub const BROADCAST_LIMIT: Self = Self(Reason::BroadcastLimit);
    /// Its port sends more than it may to groups that nobody has asked for.
    pub const MULTICAST_LIMIT: Self = Self(Reason::MulticastLimit);
    /// Its port sends more than it may to addresses that nobody knows.
    pub const UNKNOWN_LIMIT: Self = Self(Reason::UnknownLimit);
    /// It speaks from, or for, an address that is another's.
    pub const SPOOFED: Self = Self(Reason::Spoofed);
    /// A port is not in its VLAN.
    pub const NOT_IN_VLAN: Self = Self(Reason::NotInVlan);
    /// Its logical network does not let it pass.
    pub const LOGICAL_NETWORK: Self = Self(Reason::LogicalNetwork);
    /// A rule of its logical network rejects it.
    pub const REJECTED: Self = Self(Reason::Rejected);
    /// Its receiver is at another host.
    pub const MOVED: Self = Self(Reason::Moved);

    /// The receiver's device drops it.
    pub const INTERFACE_DROPPED: Self = Self(Reason::InterfaceDropped);
    /// The receiver's device will never take this frame.
    pub const UNFIT: Self = Self(Reason::Unfit);
    /// The frame's bytes are gone: whoever owned the memory that they lay in has taken it away.
    pub const WITHDRAWN: Self = Self(Reason::Withdrawn);

    /// Why.
    pub const fn reason(self) -> Reason {
        self.0
    }
}

/// How a frame's stay at one egress ended.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Delivered,
    /// Its owner has taken it back from the receiver: see [`Redirected::Taken`](crate::Redirected).
    Taken,
    Refused(Refusal),
}

/// Frames and bytes that lie in a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Load {
    /// Frames; a large segment counts as those it stands for.
    pub frames: u32,
    /// Bytes on a wire.
    pub bytes: u64,
}

impl Load {
    pub(crate) const NONE: Self = Self { frames: 0, bytes: 0 };
    /// More than there can be.
    pub(crate) const ANY: Self = Self { frames: u32::MAX, bytes: u64::MAX };

    /// So many frames, each of which counts as `each`, and their bytes together.
    #[inline]
    pub(crate) fn of(frames: u32, each: u16, bytes: u64) -> Self {
        Self { frames: frames * u32::from(each), bytes }
    }

    #[inline]
    pub(crate) fn add(&mut self, more: Self) {
        self.frames += more.frames;
        self.bytes += more.bytes;
    }

    #[inline]
    pub(crate) fn remove(&mut self, less: Self) {
        self.frames -= less.frames;
        self.bytes -= less.bytes;
    }
}

/// One class of one direction of one port, in frames as they were handed over.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Account {
    /// Taken over from a sender (ingress), or meant for this receiver (egress).
    pub accepted: u64,
    /// Handed to a receiver. An ingress counts a flooded frame once, when its last receiver is done
    /// with it.
    pub delivered: u64,
    /// Waiting now.
    pub held: u64,
    /// Bytes of the frames that were accepted (ingress) or delivered (egress), as on a wire.
    pub bytes: u64,
    /// Refused, by reason.
    pub refused: [u64; Reason::COUNT],
}

impl Account {
    /// Refused for whatever reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Whether every accepted frame is accounted for.
    pub fn balances(&self) -> bool {
        self.accepted == self.delivered + self.refused_total() + self.held
    }

    /// Each reason that refused a frame, and how many it refused.
    pub fn refusals(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.refused).filter(|(_, frames)| *frames > 0)
    }

    /// Adds another account to this one.
    pub fn merge(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.held += other.held;
        self.bytes += other.bytes;
        for (mine, theirs) in self.refused.iter_mut().zip(other.refused) {
            *mine += theirs;
        }
    }

    #[inline]
    pub(crate) fn accept(&mut self, frames: u32) {
        self.accepted += u64::from(frames);
        self.held += u64::from(frames);
    }

    /// A frame that waits is not meant for this receiver any more: its sender has it again. One
    /// that `stays` is about to be accepted anew.
    pub(crate) fn hand_back(&mut self, stays: bool) {
        if stays {
            self.accepted -= 1;
            self.held -= 1;
        } else {
            self.refuse(Refusal::MOVED);
        }
    }

    /// Books the end of a frame's stay at an egress.
    #[inline]
    pub(crate) fn end(&mut self, end: End, bytes: u32) {
        match end {
            End::Delivered => {
                self.deliver(1);
                self.bytes += u64::from(bytes);
            }
            End::Taken => self.hand_back(false),
            End::Refused(refusal) => self.refuse(refusal),
        }
    }

    /// Books a frame that is accepted and delivered in one.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u32) {
        self.accepted += 1;
        self.delivered += 1;
        self.bytes += u64::from(bytes);
    }

    /// Books a frame that is accepted and refused in one.
    #[inline]
    pub(crate) fn turn_away(&mut self, bytes: u32, refusal: Refusal) {
        self.accept(1);
        self.bytes += u64::from(bytes);
        self.refuse(refusal);
    }

    #[inline]
    pub(crate) fn deliver(&mut self, frames: u32) {
        self.held -= u64::from(frames);
        self.delivered += u64::from(frames);
    }

    #[inline]
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.held -= 1;
        self.refused[refusal.reason() as usize] += 1;
    }
}
