//! What is negotiated: bits of the device (VIRTIO 1.2 §5.1.3, §6) and of the protocol ("Protocol
//! features").

use std::fmt;

/// A set of named bits out of 64.
macro_rules! bit_set {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $bit:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct $name(pub u64);

        impl $name {
            $($(#[$doc])* pub const $bit: Self = Self(1 << $number);)*

            const NAMES: &[(u32, &str)] = &[$(($number, stringify!($bit))),*];

            /// All of several sets.
            pub const fn of(sets: &[Self]) -> Self {
                let (mut all, mut at) = (0, 0);
                while at < sets.len() {
                    all |= sets[at].0;
                    at += 1;
                }
                Self(all)
            }

            /// Whether every bit of `other` is in this.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// What is in this and not in `other`.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// What is in both.
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        /// The bits' names, and the numbers of those that have none here.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                for number in (0..64).filter(|number| self.0 >> number & 1 == 1) {
                    f.write_str(separator)?;
                    separator = ", ";
                    match Self::NAMES.iter().find(|(bit, _)| *bit == number) {
                        Some((_, name)) => f.write_str(name)?,
                        None => write!(f, "bit {number}")?,
                    }
                }
                if self.0 == 0 { f.write_str("none") } else { Ok(()) }
            }
        }
    };
}

bit_set! {
    /// What driver and device agree on.
    Features {
        /// The device completes the checksums of frames that the driver sends.
        CSUM = 0,
        /// The driver takes frames with unfinished checksums.
        GUEST_CSUM = 1,
        /// The driver is told its MTU.
        MTU = 3,
        /// The driver takes large TCP segments over IPv4.
        GUEST_TSO4 = 7,
        /// The driver takes large TCP segments over IPv6.
        GUEST_TSO6 = 8,
        /// The driver takes large TCP segments with congestion marks.
        GUEST_ECN = 9,
        /// The device takes large TCP segments over IPv4.
        HOST_TSO4 = 11,
        /// The device takes large TCP segments over IPv6.
        HOST_TSO6 = 12,
        /// The device takes large TCP segments with congestion marks.
        HOST_ECN = 13,
        /// A frame for the driver may lie in several of its buffers.
        MRG_RXBUF = 15,
        /// The driver is told whether its link is up.
        STATUS = 16,
        /// There is a control ring; the front-end serves it, and the back-end never sees it.
        CTRL_VQ = 17,
        /// The driver announces itself after a migration.
        GUEST_ANNOUNCE = 21,
        /// Several pairs of rings.
        MQ = 22,
        /// The back-end logs what it writes ("Migration").
        LOG_ALL = 26,
        /// Descriptors may lie in a table of their own.
        RING_INDIRECT_DESC = 28,
        /// Notifications are asked for by index.
        RING_EVENT_IDX = 29,
        /// There are protocol features ("Communication"): nothing that a driver knows of.
        PROTOCOL_FEATURES = 30,
        /// VIRTIO 1.0 or later.
        VERSION_1 = 32,
        /// Packed rings.
        RING_PACKED = 34,
    }
}

bit_set! {
    /// What front-end and back-end agree on beyond the first version of the protocol.
    ProtocolFeatures {
        /// GET_QUEUE_NUM.
        MQ = 0,
        /// SET_LOG_BASE passes the log as a descriptor.
        LOG_SHMFD = 1,
        /// SEND_RARP.
        RARP = 2,
        /// Every request may ask for a reply.
        REPLY_ACK = 3,
        /// NET_SET_MTU.
        NET_MTU = 4,
        /// GET_INFLIGHT_FD and SET_INFLIGHT_FD.
        INFLIGHT_SHMFD = 12,
        /// RESET_DEVICE.
        RESET_DEVICE = 13,
        /// GET_MAX_MEM_SLOTS, ADD_MEM_REG and REM_MEM_REG.
        CONFIGURE_MEM_SLOTS = 15,
        /// SET_STATUS and GET_STATUS.
        STATUS = 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_tells_its_bits_by_name_and_those_without_one_by_number() {
        let set = Features::of(&[Features::CSUM, Features::RING_PACKED, Features(1 << 55)]);
        assert_eq!(set.to_string(), "CSUM, RING_PACKED, bit 55");
        assert_eq!(set.without(set).to_string(), "none");
        assert!(set.contains(Features::CSUM) && !Features::CSUM.contains(set));
        assert_eq!(ProtocolFeatures(1 << 3).to_string(), "REPLY_ACK");
    }
}
