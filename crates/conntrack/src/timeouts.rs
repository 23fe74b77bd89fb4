//! How long connections are remembered.

use units::{Instant, Span};

/// How long a connection is remembered without a packet, by what it is and how far.
///
/// The defaults are Linux's (`Documentation/networking/nf_conntrack-sysctl.rst`), where a line does
/// not name another source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// TCP: asked for, nothing has come back.
    pub tcp_opening: Span,
    /// TCP: answered, the handshake is not complete.
    pub tcp_accepting: Span,
    /// TCP: established. At least 2 h 4 min, so that keep-alives keep it (RFC 5382, REQ-5).
    pub tcp_established: Span,
    /// TCP: an end has sent its last. At least 4 min (RFC 5382, REQ-5).
    pub tcp_closing: Span,
    /// TCP: both ends have sent their last and know it of each other: twice how long a segment may
    /// live (RFC 9293 §3.4.2), for which hosts take a minute.
    pub tcp_time_wait: Span,
    /// TCP: reset. What is still underway is known.
    pub tcp_closed: Span,
    /// UDP, asked.
    pub udp: Span,
    /// UDP, once it was answered. At least 2 min (RFC 4787, REQ-5).
    pub udp_answered: Span,
    /// UDP from or to port 53: one question, one answer, which RFC 4787 lets be short.
    pub names: Span,
    /// ICMP's echo.
    pub echo: Span,
    /// Any other protocol, asked.
    pub other: Span,
    /// Any other protocol, once it was answered.
    pub other_answered: Span,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tcp_opening: Span::from_secs(120),
            tcp_accepting: Span::from_secs(60),
            tcp_established: Span::from_secs(432_000),
            tcp_closing: Span::from_secs(240),
            tcp_time_wait: Span::from_secs(120),
            tcp_closed: Span::from_secs(10),
            udp: Span::from_secs(30),
            udp_answered: Span::from_secs(180),
            names: Span::from_secs(30),
            echo: Span::from_secs(30),
            other: Span::from_secs(30),
            other_answered: Span::from_secs(180),
        }
    }
}

/// Which of the timeouts holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Age {
    TcpOpening,
    TcpAccepting,
    TcpEstablished,
    TcpClosing,
    TcpTimeWait,
    TcpClosed,
    Udp,
    UdpAnswered,
    Names,
    Echo,
    Other,
    OtherAnswered,
}

/// A tick: 2²⁸ ns, a good quarter of a second.
const TICK_BITS: u32 = 28;

/// Timeouts in ticks, and when the first tick was.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    ages: [u32; 12],
}

/// A span in ticks, at least.
fn ticks(span: Span) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(1 << TICK_BITS)).unwrap_or(u32::MAX)
}

impl Clock {
    pub fn new(timeouts: &Timeouts, origin: Instant) -> Self {
        let it = timeouts;
        let ages = [
            it.tcp_opening,
            it.tcp_accepting,
            it.tcp_established,
            it.tcp_closing,
            it.tcp_time_wait,
            it.tcp_closed,
            it.udp,
            it.udp_answered,
            it.names,
            it.echo,
            it.other,
            it.other_answered,
        ];
        Self { origin, ages: ages.map(ticks) }
    }

    /// The tick of an instant: 36 years have one each.
    #[inline]
    pub fn tick(&self, now: Instant) -> u32 {
        let ticks = now.since(self.origin).as_nanos() >> TICK_BITS;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// When a tick begins.
    pub fn begin_of(&self, tick: u32) -> Instant {
        self.origin + Span::from_nanos(u64::from(tick) << TICK_BITS)
    }

    /// The tick by which what has a packet now is forgotten: so late that no timeout is cut short.
    #[inline]
    pub fn deadline(&self, tick: u32, age: Age) -> u32 {
        tick.saturating_add(self.ages[age as usize]).saturating_add(1)
    }

    /// The same of what is to last so long.
    pub fn deadline_in(&self, tick: u32, left: Span) -> u32 {
        tick.saturating_add(ticks(left)).saturating_add(1)
    }

    /// How long it is until a tick.
    pub fn left(&self, deadline: u32, now: Instant) -> Span {
        self.begin_of(deadline).since(now)
    }
}
