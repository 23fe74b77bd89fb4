//! Links, and when whoever is at the end of one pauses the other (802.1Qbb).

use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

/// The bytes of the frame that PFC sends (802.3 annex 31D).
pub const PFC_FRAME: u32 = 64;

/// What a link is like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// Its rate, each way.
    pub rate: Rate,
    /// How long a bit takes from end to end.
    pub delay: Span,
    /// What a frame costs on the wire besides its bytes: preamble and gap. The check sequence
    /// belongs to its bytes.
    pub overhead: Bytes,
}

impl Default for Link {
    fn default() -> Self {
        Self { rate: Rate::from_gbit(10), delay: Span::from_nanos(500), overhead: Bytes(20) }
    }
}

/// When a switch pauses the sender of a lossless class (802.1Qbb). What is absent is computed for
/// each link.
///
/// Shared memory has no fixed thresholds: `alpha` moves them, so that `xoff` and `xon` are not
/// given there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pfc {
    /// Pause the sender once so much of an input's class is held; the memory less the headroom if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xoff: Option<Bytes>,
    /// Let it go on once no more than this is held; two longest frames below `xoff` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xon: Option<Bytes>,
    /// Memory for what still arrives after the pause was sent; what the link can carry until it
    /// bites if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Bytes>,
    /// What a paused sender goes on sending, at its link's rate, until it obeys. 802.3 annex 31B:
    /// 30,720 bit times to respond and 8,192 in each of two interfaces.
    pub response: Bytes,
    /// How long a pause lasts that is not renewed; 65,535 quanta of 512 bit times if absent, which
    /// is 3.36 ms at 10 Gb/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Span>,
}

impl Default for Pfc {
    fn default() -> Self {
        Self { xoff: None, xon: None, headroom: None, response: Bytes(5888), expiry: None }
    }
}

/// An input's PFC thresholds for one class, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Thresholds {
    /// Pause from here on.
    pub xoff: u64,
    /// Let go from here down.
    pub xon: u64,
    /// Room above `xoff` for what is still coming.
    pub headroom: u64,
}

impl Pfc {
    /// The headroom of an input at the end of `link`, whose longest frame has `frame` bytes.
    ///
    /// A pause waits for the longest frame that has just begun to leave towards the sender; it
    /// takes its own length and the link's delay to get there, and the sender a while to obey; by
    /// then a longest frame may just have begun, and the link is full of what was sent before.
    pub fn headroom(&self, link: Link, frame: u64) -> u64 {
        if let Some(given) = self.headroom {
            return given.0;
        }
        let on_wire = |bytes: u64| bytes.saturating_add(link.overhead.0);
        let both_ways = link.rate.bytes_in(link.delay + link.delay) + 1;
        [on_wire(frame), on_wire(frame), on_wire(PFC_FRAME.into()), both_ways, self.response.0]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// The thresholds of an input at the end of `link` that may hold `room` bytes of a class,
    /// headroom included.
    ///
    /// `None` if it does not fit: then `xoff` is no two longest frames, `xon` is not below it, or
    /// the headroom does not fit above it.
    pub fn thresholds(&self, link: Link, frame: u64, room: u64) -> Option<Thresholds> {
        let headroom = self.headroom(link, frame);
        let xoff = self.xoff.map_or_else(|| room.saturating_sub(headroom), |given| given.0);
        let xon =
            self.xon.map_or_else(|| xoff.saturating_sub(frame.saturating_mul(2)), |given| given.0);
        let fits = xoff.checked_add(headroom).is_some_and(|sum| sum <= room);
        let sane = xoff >= frame.saturating_mul(2) && xon < xoff;
        (fits && sane).then_some(Thresholds { xoff, xon, headroom })
    }

    /// The same for NICs, whose memory is another: their thresholds are computed.
    pub fn of_nic(&self) -> Self {
        Self { xoff: None, xon: None, ..*self }
    }

    /// How long a pause lasts on `link` that is not renewed.
    pub fn expiry(&self, link: Link) -> Span {
        // 802.3 annex 31B: a quantum is 512 bit times, which are 64 bytes, and 65,535 is the most a
        // frame can say.
        self.expiry.unwrap_or_else(|| link.rate.time_for(65_535 * 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(delay: Span) -> Link {
        Link { rate: Rate::from_gbit(10), delay, overhead: Bytes(20) }
    }

    #[test]
    fn headroom_is_what_is_still_coming() {
        let pfc = Pfc::default();
        // 10 Gb/s and 10 m of cable, then 100 m: two frames, the pause, both ways, the response.
        assert_eq!(pfc.headroom(link(Span::from_nanos(50)), 1518), 2 * 1538 + 84 + 126 + 5888);
        assert_eq!(pfc.headroom(link(Span::from_nanos(500)), 1518), 2 * 1538 + 84 + 1251 + 5888);
    }

    #[test]
    fn thresholds_fill_the_room_or_do_not_exist() {
        let link = link(Span::from_nanos(500));
        let fit = Pfc::default().thresholds(link, 1500, 140_000).unwrap();
        assert_eq!(fit.xoff + fit.headroom, 140_000);
        assert_eq!(fit.xoff - fit.xon, 3000);
        assert_eq!(Pfc::default().thresholds(link, 1500, fit.headroom + 2999), None);
        let given = Pfc { xoff: Some(Bytes(10_000)), xon: Some(Bytes(10_000)), ..Pfc::default() };
        assert_eq!(given.thresholds(link, 1500, 140_000), None);
    }

    #[test]
    fn a_pause_lasts_65535_quanta() {
        assert_eq!(Pfc::default().expiry(link(Span::ZERO)), Span::from_nanos(3_355_392));
    }
}
