//! What would become of a frame that leaves by a trunk. Changes nothing.

use std::iter;
use std::num::NonZeroU16;

use datapath::Remote;
use lossless::Flow;
use plane::Leaving;
use tunnel::{Admission, PathMetrics};
use units::{Instant, Span};
use wire::Offload;

use super::config::{lane_of, stream_of};
use super::liveness::Liveness;
use super::out::Going;
use super::state::Trunk;
use crate::shared::Shared;

/// What would become of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The network's VNI.
    pub vni: u32,
    /// The far port's label, if the frame is for one.
    pub label: Option<u32>,
    /// What the session would do, if there is one.
    pub session: Option<SessionOutlook>,
    /// In which form it is sent.
    pub form: Form,
    /// The far host takes nothing: frames for it are refused.
    pub is_stalled: bool,
    /// Why nothing is sent for now, whatever the session says.
    pub waits_for: Option<&'static str>,
}

/// In which form a frame is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// In one datagram.
    Whole,
    /// In so many parts, which the far host joins.
    Parts(usize),
    /// In so many fragments of its packet (RFC 791), which its receiver joins.
    Fragments(usize),
    /// Not at all: it exceeds the path MTU, the far host joins no parts, and its packet must not be
    /// fragmented or is none of IPv4.
    TooLong,
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
    /// What would become of a frame of this flow, without offload. `None` if tunnels do not carry
    /// its network.
    pub fn outlook(
        &self,
        now: Instant,
        shared: &Shared,
        flow: Flow,
        leaving: &Leaving<'_>,
    ) -> Option<Outlook> {
        let vni = shared.networks.vni(leaving.network)?;
        let (lane, len) = (lane_of(leaving.network), leaving.view.len());
        let session = self.session.as_ref().and_then(|session| {
            let len = NonZeroU16::new(u16::try_from(len).ok()?)?;
            let (admission, credit) = session.outlook(lane, stream_of(flow), len);
            let PathMetrics { rtt, in_flight, congestion_window } = session.path();
            Some(SessionOutlook { flow, admission, credit, rtt, in_flight, congestion_window })
        });
        let (remote, _) = Remote::of_flow(flow);
        let label = (!remote.is_flood()).then_some(remote.label);
        let form = self.form(leaving.view.bytes);
        let is_stalled = self.is_stalled_for(now, shared.patience, lane);
        let waits_for = match () {
            () if self.is_paused(flow) => Some("the link pauses its class"),
            () if self.liveness == Liveness::Down => Some("no path to the other host works"),
            () if !self.is_channel_open() => Some("there are no keys for the other host yet"),
            () if self.waits_for_rest(lane).is_some() => {
                Some("the rest of a large segment goes first")
            }
            () if !self.is_link_ready() => Some("the link has to send what it was given first"),
            () if !self.can_transmit() => Some("the kernel has no room"),
            () => None,
        };
        Some(Outlook { vni, label, session, form, is_stalled, waits_for })
    }

    /// In which form a frame is sent for which nothing is left to do.
    fn form(&self, bytes: &[u8]) -> Form {
        let most = self.config.most;
        if self.session.is_none() {
            let longest = most.saturating_sub(self.config.plain_len());
            return match wire::fragments(bytes, longest) {
                _ if bytes.len() <= longest => Form::Whole,
                Some(fragments) => Form::Fragments(fragments.count()),
                None => Form::TooLong,
            };
        }
        let Some(going) = Going::new(bytes, Offload::NONE, most) else { return Form::TooLong };
        let mut begin = 0;
        let parts = iter::from_fn(|| {
            let (len, _) = going.part(begin)?;
            begin += usize::from(len.get());
            Some(())
        });
        match parts.count() {
            1 => Form::Whole,
            count => Form::Parts(count),
        }
    }
}
