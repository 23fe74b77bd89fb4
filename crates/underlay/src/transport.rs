//! The protocols that carry tunnels.

/// The protocol of the packets between hosts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// UDP, with this destination port.
    Udp(u16),
    /// An IP protocol, by its number. Each of its packets is a datagram here.
    Ip(u8),
    /// STT. Sent datagrams are frames of up to [`LONGEST`](super::stt::LONGEST) bytes behind their
    /// STT headers. Received datagrams are segments, from the TCP header on.
    Stt {
        /// The underlay's MTU in bytes. If absent, the path MTU that the kernel knows.
        mtu: Option<u16>,
    },
}

impl Transport {
    /// The destination port, if the protocol has ports.
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Udp(port) => port,
            Self::Ip(_) => 0,
            Self::Stt { .. } => wire::stt::PORT,
        }
    }
}
