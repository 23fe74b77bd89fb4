//! A scenario's TCP as endpoints want it.

use tcp::{Config, Nagle};

use crate::scenario;

/// The configuration of every endpoint, whose machines send packets of up to `mtu` bytes.
pub(crate) fn config(it: &scenario::Tcp, mtu: u32) -> Config {
    let profile = match it.profile {
        scenario::Profile::Linux => tcp::Profile::Linux,
        scenario::Profile::Linux2013 => tcp::Profile::Linux2013,
        scenario::Profile::FreeBsd9 => tcp::Profile::FreeBsd9,
    };
    let mut config: Config = profile.config();
    // IPv4's header and TCP's.
    config.mss = (mtu - 40).min(u16::MAX.into()) as u16;
    config.control = match it.control {
        scenario::Control::Reno => tcp::Control::Reno,
        scenario::Control::Cubic => tcp::Control::Cubic,
        scenario::Control::Vegas => tcp::Control::Vegas,
        scenario::Control::Dctcp => tcp::Control::Dctcp,
    };
    if let Some(min) = it.rto_min {
        config.rto.granularity = config.rto.granularity.min(min);
        (config.rto.min, config.rto.slop) = (min, units::Span::ZERO);
    }
    config.rto.initial = it.rto_initial.unwrap_or(config.rto.initial);
    config.initial_window =
        it.initial_window.map_or(config.initial_window, |window| window.min(1 << 15) as u16);
    config.delayed_ack = it.delayed_ack.unwrap_or(config.delayed_ack);
    config.nagle = match it.nagle {
        Some(true) => Nagle::Classic,
        Some(false) => Nagle::Off,
        None => config.nagle,
    };
    config.sack = it.sack.unwrap_or(config.sack);
    config.rack_tlp = it.rack_tlp.unwrap_or(config.rack_tlp);
    config.ecn = it.ecn.unwrap_or(config.ecn);
    config.slow_start_after_idle = it.slow_start_after_idle.unwrap_or(config.slow_start_after_idle);
    if let Some(buffer) = it.receive_buffer {
        config.receive_buffer = u32::try_from(buffer.0).unwrap_or(u32::MAX);
    }
    config
}
