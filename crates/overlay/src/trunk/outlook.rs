//! What would become of a frame that leaves by a trunk. Changes nothing.

use std::num::NonZeroU16;

use lossless::Flow;
use plane::{Leaving, Peer};
use tunnel::outer::Encapsulation;
use tunnel::{Admission, PathMetrics};
use units::Span;
use wire::{geneve, stt};

use super::config::{FLOOD, stream_of};
use super::out::DATA_LEN;
use super::state::Trunk;

/// What would become of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The network's VNI.
    pub vni: u32,
    /// The far port's label, if the frame is for one.
    pub label: Option<u32>,
    /// What the session would do, if there is one.
    pub session: Option<SessionOutlook>,
    /// It exceeds the path MTU.
    pub is_too_long: bool,
}

/// What a session would do with a frame.
#[derive(Clone, Copy, Debug)]
pub struct SessionOutlook {
    /// Its flow.
    pub flow: Flow,
    /// Whether it may be sent.
    pub admission: Admission,
    /// The credit that is left, in bytes.
    pub credit: u64,
    /// The smoothed round-trip time.
    pub rtt: Option<Span>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The congestion window, in bytes.
    pub congestion_window: u64,
}

impl Trunk {
    /// What would become of a frame without offload. `None` if no machine there has its address.
    pub fn outlook(&self, leaving: &Leaving<'_>) -> Option<Outlook> {
        let vni = *self.networks.vnis.get(&leaving.network)?;
        let flow = self.flow(leaving).ok()?;
        let len = leaving.view.len();
        let header_len = match self.config.encapsulation {
            Encapsulation::Stt => stt::Header::LEN,
            _ if flow.is_some() => DATA_LEN,
            // The other encapsulations' headers are as long.
            _ => geneve::Header::LEN,
        };
        let session = flow.zip(self.session.as_ref()).and_then(|(flow, session)| {
            let len = NonZeroU16::new(u16::try_from(len).ok()?)?;
            let (admission, credit) = session.outlook(stream_of(flow), len);
            let PathMetrics { rtt, in_flight, congestion_window } = session.path();
            Some(SessionOutlook { flow, admission, credit, rtt, in_flight, congestion_window })
        });
        let label = flow.map(|flow| stream_of(flow).label).filter(|label| label & FLOOD == 0);
        Some(Outlook { vni, label, session, is_too_long: header_len + len > self.config.most })
    }
}
