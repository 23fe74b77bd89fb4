//! What carries tunnels.

/// What packets between hosts are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// UDP, to this port.
    Udp(u16),
    /// A protocol of its own over IP, by its number, of which every packet is a datagram here.
    Ip(u8),
    /// STT: what is sent are frames of up to [`LONGEST`](super::stt::LONGEST) bytes behind their
    /// STT headers; what comes are segments, TCP's header first.
    Stt {
        /// The longest packet that the underlay carries, in bytes; what the kernel knows of each
        /// way if absent.
        mtu: Option<u16>,
    },
}

impl Transport {
    /// The port that datagrams are for, if there are ports.
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Udp(port) => port,
            Self::Ip(_) => 0,
            Self::Stt { .. } => wire::stt::PORT,
        }
    }
}
