//! How every TCP endpoint is set.

use serde::{Deserialize, Serialize};
use units::{Bytes, Span};

/// TCP's profile, its congestion control, and what differs from the profile. What is absent is as
/// the profile has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Whose timers and habits.
    pub profile: Profile,
    /// The congestion control.
    pub control: Control,
    /// The least retransmission timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Span>,
    /// The retransmission timeout before a round trip has been measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_initial: Option<Span>,
    /// The initial congestion window, in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// How long an acknowledgement may wait for a second segment; `0ns` acknowledges each at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Span>,
    /// Hold a short segment back while data is unacknowledged (RFC 9293 §3.7.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nagle: Option<bool>,
    /// Selective acknowledgements (RFC 2018, 6675).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// Loss detection by time, and tail loss probes (RFC 8985).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack_tlp: Option<bool>,
    /// Explicit congestion notification (RFC 3168); always on with `dctcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Begin anew with the initial window after a pause of a retransmission timeout (RFC 5681
    /// §4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start_after_idle: Option<bool>,
    /// The most that a receiver holds, and so the largest window that it offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
}

/// Whose timers and habits an endpoint has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub enum Profile {
    /// Linux today: 200 ms least timeout, an initial window of 10, SACK, RACK-TLP.
    #[default]
    #[serde(rename = "linux")]
    Linux,
    /// Linux when the paper was written: an initial window of 3, no SACK, no RACK-TLP.
    #[serde(rename = "linux-2013")]
    Linux2013,
    /// FreeBSD 9, which the paper simulated: 230 ms least timeout, an initial window of 3, SACK, no
    /// RACK-TLP.
    #[serde(rename = "freebsd9")]
    FreeBsd9,
}

/// A congestion control.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// NewReno (RFC 5681, 6582).
    Reno,
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// Vegas (Brakmo and Peterson 1995).
    Vegas,
    /// DCTCP (RFC 8257). Some class needs an `ecn` threshold.
    Dctcp,
}
