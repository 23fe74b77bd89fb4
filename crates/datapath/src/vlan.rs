//! Which VLANs a port is in, and how their frames look there (802.1Q §6.9, §8.6.2, §8.6.4).
//!
//! | a port | frames from it | frames to it |
//! |---|---|---|
//! | of all VLANs | are in the one that their tag names; without one, in none (0) | with the tag that they had, or got |
//! | of VLAN 7 alone (`access`) | are in it, without a tag or with its own | without a tag |
//! | of some (`trunk`) | are in the one that their tag names, if that is one of these; without one, in the native VLAN, if there is one | with a tag; those of the native VLAN without |
//!
//! What is of no VLAN reaches ports of all VLANs alone.

use alloc::sync::Arc;

use wire::ethernet::Tag;

/// The VLANs that there may be: 1 to this (802.1Q table 9-2).
const LAST: u16 = 4094;

/// Which VLANs a port is in.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Vlans {
    /// All, as tags say. Nothing is done to a frame.
    #[default]
    All,
    /// Some.
    Some(Arc<Membership>),
}

/// The VLANs of a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Membership {
    /// By number, a bit each.
    set: [u64; 64],
    /// That of frames without a tag.
    native: Option<u16>,
}

/// What is to be done to a frame's tag before its receiver has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retag {
    /// Nothing.
    Keep,
    /// It has none any more.
    Strip,
    /// It has this one, in place of its own if it had one.
    Put(Tag),
}

impl Vlans {
    /// One VLAN, whose frames have no tag.
    pub fn access(vlan: u16) -> Self {
        Self::trunk([], Some(vlan))
    }

    /// These VLANs, whose frames have a tag, and the native one, whose frames have none.
    pub fn trunk(tagged: impl IntoIterator<Item = u16>, native: Option<u16>) -> Self {
        let mut set = [0; 64];
        for vlan in tagged.into_iter().chain(native).filter(|vlan| (1..=LAST).contains(vlan)) {
            set[usize::from(vlan / 64)] |= 1 << (vlan % 64);
        }
        Self::Some(Arc::new(Membership { set, native }))
    }

    /// The VLAN of a frame that comes by the port with this tag, 0 if it is in none; `None` if the
    /// port is not in it.
    #[inline]
    pub(crate) fn of(&self, tag: Option<Tag>) -> Option<u16> {
        let named = tag.map_or(0, |tag| tag.vlan);
        match self {
            Self::All => Some(named),
            Self::Some(some) if named == 0 => some.native,
            Self::Some(_) => Some(named).filter(|vlan| self.carries(*vlan)),
        }
    }

    /// Whether frames of a VLAN go to the port.
    pub(crate) fn carries(&self, vlan: u16) -> bool {
        match self {
            Self::All => true,
            Self::Some(some) => some.set[usize::from(vlan / 64) & 63] & 1 << (vlan % 64) != 0,
        }
    }

    /// What is to be done to a frame of a VLAN before the port has it. `own` is its tag, and `new`
    /// one that it may get.
    pub(crate) fn retag(&self, vlan: u16, own: Option<Tag>, new: Tag) -> Retag {
        let has_it = own.is_some_and(|own| own.vlan == vlan);
        match (self, own) {
            (Self::All, _) if vlan == 0 || has_it => Retag::Keep,
            (Self::Some(some), Some(_)) if some.native == Some(vlan) => Retag::Strip,
            (Self::Some(some), None) if some.native == Some(vlan) => Retag::Keep,
            _ if has_it => Retag::Keep,
            (_, Some(own)) => Retag::Put(Tag { vlan, ..own }),
            (_, None) => Retag::Put(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Class;

    use super::*;

    fn tag(vlan: u16) -> Tag {
        Tag { class: Class::from_low_bits(5), vlan }
    }

    /// What a frame looks like that was sent with `tag`, at another port; `None` if it is not to
    /// have it.
    fn seen(from: &Vlans, sent: Option<u16>, to: &Vlans) -> Option<Option<u16>> {
        let own = sent.map(tag);
        let vlan = from.of(own)?;
        to.carries(vlan).then(|| match to.retag(vlan, own, tag(vlan)) {
            Retag::Keep => sent,
            Retag::Strip => None,
            Retag::Put(tag) => Some(tag.vlan),
        })
    }

    /// Of ports that are in some VLANs, as a Linux bridge with `vlan_filtering` has it.
    #[test]
    fn each_frame_looks_at_each_port_as_the_standard_has_it() {
        let all = Vlans::All;
        let access = Vlans::access(7);
        let trunk = Vlans::trunk([7, 8], None);
        let hybrid = Vlans::trunk([8], Some(7));
        let [none, priority, seven, eight, nine] = [None, Some(0), Some(7), Some(8), Some(9)];
        let no = None;
        let plain = Some(None);
        let tagged = |vlan| Some(Some(vlan));
        // From, sent with, and what is seen at a port of all, at 7's, at both's, at both's of which
        // 7 is native.
        for (from, sent, expected) in [
            (&all, none, [plain, no, no, no]),
            (&all, priority, [tagged(0), no, no, no]),
            (&all, seven, [tagged(7), plain, tagged(7), plain]),
            (&all, eight, [tagged(8), no, tagged(8), tagged(8)]),
            (&all, nine, [tagged(9), no, no, no]),
            (&access, none, [tagged(7), plain, tagged(7), plain]),
            (&access, priority, [tagged(7), plain, tagged(7), plain]),
            (&access, seven, [tagged(7), plain, tagged(7), plain]),
            (&access, eight, [no; 4]),
            (&trunk, none, [no; 4]),
            (&trunk, priority, [no; 4]),
            (&trunk, seven, [tagged(7), plain, tagged(7), plain]),
            (&trunk, eight, [tagged(8), no, tagged(8), tagged(8)]),
            (&trunk, nine, [no; 4]),
            (&hybrid, none, [tagged(7), plain, tagged(7), plain]),
            (&hybrid, seven, [tagged(7), plain, tagged(7), plain]),
            (&hybrid, eight, [tagged(8), no, tagged(8), tagged(8)]),
        ] {
            let found = [&all, &access, &trunk, &hybrid].map(|to| seen(from, sent, to));
            assert_eq!(found, expected, "{from:?} sends {sent:?}");
        }
    }

    #[test]
    fn a_frame_keeps_its_priority_with_its_tag() {
        let (own, trunk) =
            (Tag { class: Class::from_low_bits(3), vlan: 0 }, Vlans::trunk([7], None));
        assert_eq!(trunk.retag(7, Some(own), tag(7)), Retag::Put(Tag { vlan: 7, ..own }));
        assert_eq!(trunk.retag(7, None, tag(7)), Retag::Put(tag(7)));
    }

    #[test]
    fn reserved_numbers_are_no_vlans() {
        let odd = Vlans::trunk([0, 4095, 4094], None);
        assert_eq!([0, 4094, 4095].map(|vlan| odd.carries(vlan)), [false, true, false]);
    }
}
