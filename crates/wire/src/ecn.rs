//! Explicit congestion notification through tunnels (RFC 6040).
//!
//! ```text
//! ┌─────── inner ───────┐ Ecn::outer  ┌ outer ┬─ inner ─┐  congestion  ┌ outer ┬─ inner ─┐ Ecn::inner  ┌─ inner ─┐
//! │ what its sender set │────────────▶│ copy  │         │─────────────▶│  CE   │         │────────────▶│   CE    │
//! └─────────────────────┘             └───────┴─────────┘              └───────┴─────────┘             └─────────┘
//! ```

/// The two lowest bits of a traffic class (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not react to marks: congestion is told to it by a drop.
    NotEct = 0b00,
    /// The transport reacts to marks, as RFC 9331 says.
    Ect1 = 0b01,
    /// The transport reacts to marks, as RFC 3168 says.
    Ect0 = 0b10,
    /// Congestion was experienced.
    Ce = 0b11,
}

/// What becomes of two ECN fields where a tunnel ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decapsulated {
    /// The field that goes on; `None`: the packet is to be dropped, as its transport understands
    /// nothing else.
    pub ecn: Option<Ecn>,
    /// The two fields are not what the network makes of what a tunnel begins with.
    pub alarm: Option<Alarm>,
}

/// How odd a combination of fields is (RFC 6040 §4.2, the marks in figure 4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Alarm {
    /// Unused by any standard, and not dangerous: "(!)".
    Unused,
    /// Unused by any standard, and potentially dangerous; worth telling the operator: "(!!!)".
    Dangerous,
}

impl Ecn {
    /// The field of a traffic class.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The same traffic class with this field: the differentiated services code point stays (RFC
    /// 2474 §3).
    pub const fn within(self, traffic_class: u8) -> u8 {
        traffic_class & !0b11 | self as u8
    }

    /// The outer field of a packet with this inner one, where a tunnel begins that ends as
    /// [`inner`](Self::inner) says: the normal mode (RFC 6040 §4.1).
    pub const fn outer(self) -> Self {
        self
    }

    /// What becomes of this inner field where a tunnel ends and `outer` arrived (RFC 6040 §4.2,
    /// figure 4).
    pub const fn inner(self, outer: Self) -> Decapsulated {
        let (ecn, alarm) = match (self, outer) {
            (Self::NotEct, Self::NotEct) => (Some(Self::NotEct), None),
            (Self::NotEct, Self::Ect0 | Self::Ect1) => (Some(Self::NotEct), Some(Alarm::Dangerous)),
            (Self::NotEct, Self::Ce) => (None, Some(Alarm::Dangerous)),
            (Self::Ce, Self::Ect1) => (Some(Self::Ce), Some(Alarm::Dangerous)),
            (Self::Ect1, Self::Ect0) => (Some(Self::Ect1), Some(Alarm::Unused)),
            (Self::Ect0, Self::Ect1) => (Some(Self::Ect1), None),
            (_, Self::Ce) => (Some(Self::Ce), None),
            (Self::Ect0 | Self::Ect1 | Self::Ce, _) => (Some(self), None),
        };
        Decapsulated { ecn, alarm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use crate::ethernet::{self, ethertype};
    use crate::ip::protocol;
    use crate::{Layout, ipv4, ipv6};
    use core::net::{Ipv4Addr, Ipv6Addr};
    use units::Mac;
    use zerocopy::IntoBytes;

    const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

    #[test]
    fn decapsulation_is_figure_4() {
        const SAFE: Option<Alarm> = None;
        const UNUSED: Option<Alarm> = Some(Alarm::Unused);
        const DANGEROUS: Option<Alarm> = Some(Alarm::Dangerous);
        let [not_ect, ect0, ect1, ce] = ALL.map(Some);
        // A row for each inner field, a column for each outer one, both in the order of `ALL`.
        let figure = [
            [(not_ect, SAFE), (not_ect, DANGEROUS), (not_ect, DANGEROUS), (None, DANGEROUS)],
            [(ect0, SAFE), (ect0, SAFE), (ect1, SAFE), (ce, SAFE)],
            [(ect1, SAFE), (ect1, UNUSED), (ect1, SAFE), (ce, SAFE)],
            [(ce, SAFE), (ce, SAFE), (ce, DANGEROUS), (ce, SAFE)],
        ];
        let table = ALL.map(|inner| ALL.map(|outer| inner.inner(outer)));
        assert_eq!(table, figure.map(|row| row.map(|(ecn, alarm)| Decapsulated { ecn, alarm })));
    }

    #[test]
    fn a_tunnel_without_congestion_changes_nothing() {
        for ecn in ALL {
            assert_eq!(ecn.inner(ecn.outer()), Decapsulated { ecn: Some(ecn), alarm: None });
        }
    }

    #[test]
    fn the_field_is_the_two_lowest_bits() {
        for class in 0..=u8::MAX {
            assert_eq!(Ecn::of(class).within(class), class);
            for ecn in ALL {
                let set = ecn.within(class);
                assert_eq!((Ecn::of(set), set >> 2), (ecn, class >> 2));
            }
        }
    }

    #[test]
    fn a_class_is_set_in_place_in_both_versions() {
        let v4 =
            ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, protocol::UDP, 0).unwrap();
        let v6 =
            ipv6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, protocol::UDP, 0).unwrap();
        for (ethertype, packet) in
            [(ethertype::IPV4, v4.as_bytes()), (ethertype::IPV6, v6.as_bytes())]
        {
            let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype);
            let mut frame = [ethernet.as_bytes(), packet].concat();
            let layout = Layout::of(&frame).unwrap();
            for class in [0xb9, 0xff, 0x00, 0x2e] {
                assert_eq!(layout.set_traffic_class(&mut frame, class), Some(()));
                assert_eq!(layout.traffic_class(&frame), Some(class));
                assert_eq!(Layout::of(&frame), Some(layout));
                assert!(ethertype == ethertype::IPV6 || Sum::of(&frame[14..]).checksum() == 0);
            }
            assert_eq!(layout.set_traffic_class(&mut frame[..20], 0), None);
        }
    }
}
