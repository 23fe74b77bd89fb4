//! What an endpoint is told, and how well-known stacks would be told the same.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use units::Span;

/// How the congestion window grows and shrinks.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Control {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
    /// Brakmo and Peterson 1995, as Linux has it.
    Vegas,
    /// RFC 8257; asks for ECN by itself.
    Dctcp,
}

/// Whether a segment that is not full waits while others are unacknowledged.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Nagle {
    /// It never waits (TCP_NODELAY).
    Off,
    /// It waits until everything is acknowledged (RFC 9293 §3.7.4).
    Classic,
    /// It waits only for another that was not full either (Minshall's variant, as in Linux).
    Minshall,
}

/// The retransmission timeout, RFC 6298 §2: `max(SRTT + max(granularity, 4 RTTVAR), min)`, doubled
/// by each timeout, and `slop` on top; `max` at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rto {
    /// Before there is a sample.
    pub initial: Span,
    /// The least.
    pub min: Span,
    /// The most, backed off or not.
    pub max: Span,
    /// The least that is added to the round trip: a clock's granularity; Linux keeps its minimum
    /// here as well.
    pub granularity: Span,
    /// Added once there is a sample, however often the rest was doubled (FreeBSD's `rexmit_slop`).
    pub slop: Span,
}

/// What an endpoint is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// The largest segment it takes and sends, in bytes of payload and options: 1460 for an MTU of
    /// 1500, of which timestamps take 12 from the payload. 64 or more.
    pub mss: u16,
    /// Segments that may be in flight at the beginning and after a pause.
    pub initial_window: u16,
    /// Congestion control.
    pub control: Control,
    /// Whether CUBIC looks for signs that slow start is about to overflow a queue, as it does in
    /// Linux.
    pub hystart: bool,
    /// The retransmission timeout.
    pub rto: Rto,
    /// What the kernel's tick adds to its short timers, tail loss probes and RACK's: two jiffies in
    /// Linux.
    pub timer_slack: Span,
    /// How long an acknowledgement may wait for company (RFC 9293 §3.8.6.3).
    pub delayed_ack: Span,
    /// How many acknowledgements are sent at once, each for whatever has come, at the beginning,
    /// after a pause and after a gap, unless the application answers what it receives.
    pub quick_acks: u8,
    /// How long acknowledgements of what arrives out of order wait for company, from the fourth on
    /// that expect the same, where there is SACK: a twentieth of the round trip, and no more than
    /// this. Zero is not at all (RFC 5681 §4.2).
    pub sack_delay: Span,
    /// Whether small segments wait.
    pub nagle: Nagle,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps, and their clock's tick.
    pub timestamps: Option<Span>,
    /// Loss detection by time, and tail loss probes; both need SACK.
    pub rack_tlp: bool,
    /// Proportional rate reduction, RFC 6937; without it the window falls at once.
    pub prr: bool,
    /// Whether a reduction is taken back when timestamps or DSACK show that nothing had been lost.
    pub undo: bool,
    /// Classic ECN, RFC 3168.
    pub ecn: bool,
    /// Whether the window shrinks again when it is not used for a timeout (RFC 5681 §4.1; RFC
    /// 2861).
    pub slow_start_after_idle: bool,
    /// The window it offers, in bytes, when the application has read everything.
    pub receive_buffer: u32,
    /// Whether the application reads at once what arrives in order.
    pub auto_read: bool,
    /// The most that is written and unacknowledged, in bytes.
    pub send_buffer: u64,
    /// How long the side that closed first remembers the connection.
    pub time_wait: Span,
}

/// A stack of its time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Profile {
    /// Linux of the 2020s at 250 Hz.
    Linux,
    /// Linux as in 2013: no SACK, no RACK, no tail loss probe, three segments at the beginning.
    Linux2013,
    /// FreeBSD 9.
    FreeBsd9,
}

impl Profile {
    /// What it amounts to.
    pub const fn config(self) -> Config {
        match self {
            Self::Linux => LINUX,
            Self::Linux2013 => Config {
                initial_window: 3,
                sack_delay: Span::ZERO,
                sack: false,
                rack_tlp: false,
                ..LINUX
            },
            Self::FreeBsd9 => FREEBSD_9,
        }
    }
}

impl From<Profile> for Config {
    fn from(profile: Profile) -> Self {
        profile.config()
    }
}

impl Default for Config {
    fn default() -> Self {
        LINUX
    }
}

const LINUX: Config = Config {
    mss: 1460,
    initial_window: 10,
    control: Control::Cubic,
    hystart: true,
    rto: Rto {
        initial: Span::from_secs(1),
        min: Span::from_millis(200),
        max: Span::from_secs(120),
        granularity: Span::from_millis(200),
        slop: Span::ZERO,
    },
    timer_slack: Span::from_millis(8),
    delayed_ack: Span::from_millis(40),
    quick_acks: 16,
    sack_delay: Span::from_millis(1),
    nagle: Nagle::Minshall,
    sack: true,
    timestamps: Some(Span::from_millis(1)),
    rack_tlp: true,
    prr: true,
    undo: true,
    ecn: false,
    slow_start_after_idle: true,
    // tcp_rmem's 6 MiB, half of which are overhead.
    receive_buffer: 3 << 20,
    auto_read: true,
    send_buffer: u64::MAX,
    time_wait: Span::from_secs(60),
};

const FREEBSD_9: Config = Config {
    // RFC 3390: min(4 MSS, max(2 MSS, 4380 bytes)).
    initial_window: 3,
    control: Control::Reno,
    hystart: false,
    rto: Rto {
        initial: Span::from_secs(3),
        min: Span::from_millis(30),
        max: Span::from_secs(64),
        granularity: Span::from_millis(1),
        slop: Span::from_millis(200),
    },
    timer_slack: Span::from_millis(1),
    delayed_ack: Span::from_millis(100),
    quick_acks: 0,
    sack_delay: Span::ZERO,
    nagle: Nagle::Classic,
    rack_tlp: false,
    prr: false,
    undo: false,
    receive_buffer: 2 << 20,
    ..LINUX
};

/// A word that names nothing of its kind.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{word}` is no {kind}: write one of {known}")]
pub struct UnknownName {
    word: String,
    kind: &'static str,
    known: &'static str,
}

impl FromStr for Control {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        Ok(match word {
            "reno" => Self::Reno,
            "cubic" => Self::Cubic,
            "vegas" => Self::Vegas,
            "dctcp" => Self::Dctcp,
            _ => {
                let known = "reno, cubic, vegas, dctcp";
                return Err(UnknownName {
                    word: word.to_owned(),
                    kind: "congestion control",
                    known,
                });
            }
        })
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Vegas => "vegas",
            Self::Dctcp => "dctcp",
        })
    }
}

impl FromStr for Profile {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        Ok(match word {
            "linux" => Self::Linux,
            "linux-2013" => Self::Linux2013,
            "freebsd-9" => Self::FreeBsd9,
            _ => {
                let known = "linux, linux-2013, freebsd-9";
                return Err(UnknownName { word: word.to_owned(), kind: "TCP stack", known });
            }
        })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Linux => "linux",
            Self::Linux2013 => "linux-2013",
            Self::FreeBsd9 => "freebsd-9",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_print_as_they_were_read() {
        for name in ["reno", "cubic", "vegas", "dctcp"] {
            assert_eq!(name.parse::<Control>().unwrap().to_string(), name);
        }
        for name in ["linux", "linux-2013", "freebsd-9"] {
            assert_eq!(name.parse::<Profile>().unwrap().to_string(), name);
        }
        let error = "bbr".parse::<Control>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`bbr` is no congestion control: write one of reno, cubic, vegas, dctcp"
        );
        assert!("Linux".parse::<Profile>().is_err());
    }
}
