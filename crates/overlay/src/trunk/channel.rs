//! The channel to a far host, where hosts have a key in common: all that is sent goes through it.

use std::sync::Arc;

use model::CONTROL;
use seal::{Channel, Keys, Pace, State};
use underlay::Len;
use units::Instant;

use super::config::host_hash;
use super::state::Trunk;

/// Seals packets to a far host.
pub struct Sealer<'a> {
    channel: &'a mut Channel,
    now: Instant,
}

impl<'a> Sealer<'a> {
    /// What seals packets now, if there is a channel.
    pub fn of(channel: &'a mut Option<Channel>, now: Instant) -> Option<Self> {
        channel.as_mut().map(|channel| Self { channel, now })
    }

    /// Seals a packet behind room for the header.
    pub fn seal(&mut self, packet: &mut [u8]) {
        if self.channel.seal(self.now, packet).is_err() {
            // Its keys were used up by the packets before it. It does not leave as it is: the far
            // end refuses zeros, and the session retransmits what was lost.
            packet.fill(0);
        }
    }
}

impl Trunk {
    /// Opens a datagram from the far host: returns the packet in it. `None` if it was the channel's
    /// own, or is refused. Without a channel, it is the packet.
    pub fn open<'p>(&mut self, now: Instant, datagram: &'p mut [u8]) -> Option<&'p mut [u8]> {
        let Some(channel) = &mut self.channel else { return Some(datagram) };
        let was_open = channel.is_open();
        // The channel counts what is refused.
        let packet = channel.open(now, datagram).ok().flatten();
        self.has_changed |= !was_open && channel.is_open();
        packet
    }

    /// Uses these pre-shared keys from now on, if there is a channel.
    pub fn set_keys(&mut self, now: Instant, keys: Arc<Keys>) {
        self.channel.iter_mut().for_each(|channel| channel.set_keys(now, keys.clone()));
    }

    /// Whether packets can be sent: there is no channel, or it has keys.
    pub fn is_channel_open(&self) -> bool {
        self.channel.as_ref().is_none_or(Channel::is_open)
    }

    /// The same. If not, a handshake begins.
    pub(super) fn want_channel(&mut self, now: Instant) -> bool {
        let Some(channel) = &mut self.channel else { return true };
        channel.want(now);
        channel.is_open()
    }

    /// Sends the channel's own messages, as far as the kernel has room.
    pub(super) fn transmit_handshake(&mut self, now: Instant, pace: &mut Pace) {
        if self.channel.is_none() {
            return;
        }
        if self.session_deadline().is_some_and(|at| at <= now) {
            self.want_channel(now);
        }
        let Self { config, underlay, channel: Some(channel), .. } = self else { return };
        let (mut underlay, far) = (underlay.borrow_mut(), config.far);
        let marking = config.marking(CONTROL, 0);
        while underlay.has_room(host_hash(far))
            && let Some(control) = channel.poll_transmit(now, pace)
        {
            let bytes = control.bytes();
            underlay.send(far, host_hash(far), marking, Len::Exactly(bytes.len()), |packet| {
                packet.copy_from_slice(bytes);
            });
        }
    }

    /// When the session has something to do. While the channel has no keys and asks for some, it
    /// can do nothing.
    fn session_deadline(&self) -> Option<Instant> {
        let is_opening =
            self.channel.as_ref().is_some_and(|channel| channel.state() == State::Opening);
        self.session.as_ref().filter(|_| !is_opening)?.deadline()
    }

    /// When the session or the channel has something to do, although nothing arrives.
    pub(super) fn protocol_deadline(&self) -> Option<Instant> {
        let channel = self.channel.as_ref().and_then(Channel::deadline);
        self.session_deadline().into_iter().chain(channel).min()
    }
}
