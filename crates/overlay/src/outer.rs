//! Packets of the underlay, as captures show them.

use plane::taps::{Direction, Taps};
use tunnel::outer::{self, Checksum, Encapsulation, Tunnel, Vni, Vteps};
use units::{Instant, Mac};
use wire::{Offload, PartialChecksum, stt, tcp};

/// A packet in the underlay.
#[derive(Clone, Copy, Debug)]
pub struct Outer<'a> {
    /// Whether it arrives or leaves.
    pub direction: Direction,
    /// Its addresses, as its sender sees them.
    pub vteps: Vteps,
    /// Its UDP ports, source and destination.
    pub ports: [u16; 2],
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// What the datagram carries.
    pub payload: &'a [u8],
}

impl Outer<'_> {
    /// Shows the packet to the captures that want it.
    pub fn show(&self, at: Instant, taps: &mut Taps) {
        if !taps.wants_outer(self.direction) {
            return;
        }
        if let Some(header) = self.header(&mut [0; outer::LONGEST]) {
            taps.pass_outer(at, self.direction, header, self.payload, self.offload(header.len()));
        }
    }

    /// The offload of a packet with so many bytes before its payload: of STT, the checksum, if the
    /// packet is on no wire yet.
    fn offload(&self, start: usize) -> Offload {
        let is_partial = self.is_stt() && outer::is_partial(self.vteps, self.payload);
        let checksum =
            PartialChecksum { start: start as u16, offset: tcp::Header::CHECKSUM_OFFSET };
        Offload { checksum: is_partial.then_some(checksum), ..Offload::NONE }
    }

    fn is_stt(&self) -> bool {
        self.ports[1] == stt::PORT
    }

    /// The headers before the datagram in the underlay, as far as they are known. Addresses on the
    /// link are not.
    fn header<'b>(&self, buffer: &'b mut [u8; outer::LONGEST]) -> Option<&'b [u8]> {
        let nobody = Mac([0; 6]);
        let tunnel = Tunnel {
            encapsulation: match self.ports {
                _ if self.is_stt() => Encapsulation::Stt,
                // All others that have ports are alike so far; of those that have none there is
                // one.
                [0, 0] => Encapsulation::Nvgre,
                _ => Encapsulation::Geneve,
            },
            vteps: self.vteps,
            vni: Vni::new(0).expect("it has 24 bits"),
            source: nobody,
            destination: nobody,
            vlan: None,
            ttl: 64,
            checksum: Checksum::usual(self.vteps.version()),
            underlay_mtu: u16::MAX,
        };
        tunnel.write_around(self.ports, self.traffic_class, self.payload, buffer)
    }
}
