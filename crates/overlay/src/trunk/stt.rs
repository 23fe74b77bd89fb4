//! STT: frames travel whole with their offload, in as many segments as it takes.

use std::mem;

use tunnel::outer::{Encapsulation, Received, Refusal, Vteps, segment};
use units::Instant;
use wire::Offload;
use wire::ecn::Ecn;
use wire::ethernet;
use wire::stt::{self, Header, Joined};

use super::config::TrunkConfig;
use super::state::Trunk;
use crate::shared::Shared;

/// The longest inner packet that STT carries, in bytes.
pub const STT_MTU: u16 = (underlay::stt::LONGEST - Header::LEN - ethernet::Header::LEN) as u16;

/// The STT header of a frame that leaves, and the offload to do before: none if the header can tell
/// the receiver of all of it.
pub fn begin(config: &TrunkConfig, vni: u32, frame: &[u8], offload: Offload) -> (Header, Offload) {
    let is_whole =
        config.encapsulation == Encapsulation::Stt && Header::LEN + frame.len() <= config.most;
    let header = is_whole.then(|| Header::new(vni.into(), None, frame, offload)).flatten();
    let plain =
        || Header::new(vni.into(), None, &[], Offload::NONE).expect("nothing is left to do");
    header.map_or_else(|| (plain(), offload), |header| (header, Offload::NONE))
}

impl Trunk {
    /// Handles a segment from the far host, in a packet of this traffic class. Returns what
    /// [`Self::handle`] does.
    ///
    /// # Errors
    ///
    /// [`Refusal`]: the segment is refused, or the frame of which it was the last.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        vteps: Vteps,
        traffic_class: u8,
        bytes: &[u8],
    ) -> Result<bool, Refusal> {
        let segment = segment(vteps, bytes)?;
        let is_marked = Ecn::of(traffic_class) == Ecn::Ce;
        if segment.is_whole() {
            return self.handle_whole(now, shared, vteps, traffic_class, segment.payload);
        }
        let mut segments = mem::take(&mut self.segments);
        self.refused.unfinished += segments.expire(now) as u64;
        let outcome = match segments.take(now, (vteps, None), &segment, is_marked) {
            Ok(None) => Ok(false),
            Ok(Some(Joined { bytes, is_marked })) => {
                let ecn = if is_marked { Ecn::Ce } else { Ecn::of(traffic_class) };
                self.handle_whole(now, shared, vteps, ecn.within(traffic_class), bytes)
            }
            Err(stt::Refusal::Full(_)) => {
                self.refused.no_memory += 1;
                Ok(false)
            }
            Err(stt::Refusal::OtherLength(..)) => Err(Refusal::Malformed),
        };
        self.segments = segments;
        outcome
    }

    /// Handles a whole frame.
    fn handle_whole(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        vteps: Vteps,
        traffic_class: u8,
        bytes: &[u8],
    ) -> Result<bool, Refusal> {
        let received = Received::of_datagram(Encapsulation::Stt, vteps, traffic_class, bytes)?;
        // A frame's own tag is in its bytes; a tag in the header can only tell its class.
        if received.tag.is_some_and(|tag| tag.vlan != 0) {
            return Err(Refusal::NotEthernet);
        }
        Ok(self.handle(now, shared, &received, bytes))
    }
}
