//! One end of a channel.

use std::fmt;
use std::sync::Arc;

use units::{Instant, Span};

use crate::config::Config;
use crate::counters::{Counters, NotSealed, Refusal};
use crate::handshake::verified;
use crate::initiator::{Initiator, Noise2};
use crate::keys::{Fingerprint, Keys};
use crate::pace::Pace;
use crate::packet::{Control, Kind, Message, Received, Sealed, Step};
use crate::responder::{Responder, is_taken};
use crate::traffic::Traffic;

/// How long packets of the previous keys are opened. Keys of a pre-shared key that was removed live
/// no longer, either.
const GRACE: Span = Span::from_secs(60);

/// The least interval between two empty packets.
const CONFIRM_INTERVAL: Span = Span::from_millis(10);

/// An initiator that seals and hears nothing for so long asks whether the peer has its keys.
const SILENCE: Span = Span::from_secs(2);

/// A handshake that nobody has needed for so long is given up.
const REST_AFTER: Span = Span::from_secs(10);

/// One end of a channel between two hosts.
pub struct Channel {
    config: Config,
    role: Role,
    /// The keys that seal.
    current: Option<Box<Traffic>>,
    /// The keys before them, and until when they still open.
    previous: Option<(Box<Traffic>, Instant)>,
    /// When the current keys end, because their pre-shared key was removed.
    retire_at: Option<Instant>,
    /// When an empty packet is due, by which the peer sees that we have the new keys.
    confirm_at: Option<Instant>,
    confirmed_at: Option<Instant>,
    /// When we first sealed a packet since one was opened.
    unanswered_since: Option<Instant>,
    /// When the channel was last used, or somebody wanted to.
    used_at: Instant,
    counters: Counters,
}

enum Role {
    Initiator(Initiator),
    Responder(Responder),
}

/// How far a channel is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// There are no keys, and nobody has asked for any.
    Closed,
    /// A handshake is under way. Nothing can be sealed.
    Opening,
    /// There are keys.
    Open {
        /// Since when.
        since: Instant,
        /// What identifies them in packets.
        key: u32,
        /// The pre-shared key that they come from.
        psk: Fingerprint,
    },
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Channel {
    /// A channel without keys. The first use of it begins a handshake.
    pub fn new(now: Instant, config: Config) -> Self {
        let role = if config.ends.initiates() {
            Role::Initiator(Initiator::default())
        } else {
            Role::Responder(Responder::new())
        };
        Self {
            config,
            role,
            current: None,
            previous: None,
            retire_at: None,
            confirm_at: None,
            confirmed_at: None,
            unanswered_since: None,
            used_at: now,
            counters: Counters::default(),
        }
    }

    /// Whether packets can be sealed.
    pub fn is_open(&self) -> bool {
        self.current.as_ref().is_some_and(|keys| !keys.is_used_up())
    }

    /// Seals a packet: `packet` is room of [`OVERHEAD`](crate::OVERHEAD) bytes, and the packet.
    ///
    /// # Errors
    ///
    /// If there are no keys. A handshake has then begun, and [`is_open`](Self::is_open) tells its
    /// end.
    #[inline]
    pub fn seal(&mut self, now: Instant, packet: &mut [u8]) -> Result<(), NotSealed> {
        self.expire(now);
        self.used_at = now;
        let Some(keys) = self.current.as_mut().filter(|keys| !keys.is_used_up()) else {
            self.want(now);
            return Err(NotSealed::NoKeys);
        };
        keys.seal(packet)?;
        self.confirm_at = None;
        let unanswered_since = *self.unanswered_since.get_or_insert(now);
        if let Role::Initiator(initiator) = &mut self.role {
            if keys.is_old(now) {
                initiator.begin(now);
            } else if now.since(unanswered_since) >= SILENCE {
                initiator.doubt(now);
            }
        }
        Ok(())
    }

    /// Opens a packet: verifies it, and decrypts it in place. What is behind its length is ignored.
    /// `None` if it was one between the channels, and there is nothing for their owner.
    ///
    /// # Errors
    ///
    /// Why it must be dropped. It is counted, and in mode `encrypt` its contents may be lost.
    #[inline]
    pub fn open<'p>(
        &mut self,
        now: Instant,
        packet: &'p mut [u8],
    ) -> Result<Option<&'p mut [u8]>, Refusal> {
        self.expire(now);
        let opened = match Kind::of(packet) {
            Kind::Sealed => self.open_sealed(now, packet),
            Kind::Handshake => self.handle(now, packet).map(|()| None),
            Kind::Unsealed => Err(Refusal::Unsealed),
        };
        opened.inspect_err(|why| self.counters.refuse(*why))
    }

    fn open_sealed<'p>(
        &mut self,
        now: Instant,
        packet: &'p mut [u8],
    ) -> Result<Option<&'p mut [u8]>, Refusal> {
        let sealed = Sealed::parse(packet).ok_or(Refusal::Malformed)?;
        if let Some(keys) = self.current.as_mut().filter(|keys| keys.id == sealed.key) {
            keys.open(&sealed, packet)?;
            let is_old = keys.is_old(now);
            if let Role::Initiator(initiator) = &mut self.role
                && is_old
            {
                initiator.begin(now);
            }
        } else if let Some((keys, _)) =
            self.previous.as_mut().filter(|(keys, _)| keys.id == sealed.key)
        {
            keys.open(&sealed, packet)?;
            // A responder that still seals by them has not seen that we have new ones.
            if matches!(self.role, Role::Initiator(_)) {
                self.confirm(now);
            }
        } else {
            self.open_first(now, &sealed, packet)?;
        }
        self.used_at = now;
        self.unanswered_since = None;
        let inside = &mut packet[sealed.inside()];
        Ok((!inside.is_empty()).then_some(inside))
    }

    /// Opens a packet of keys that are not in use: of the responder's new ones, or of none.
    #[cold]
    fn open_first(
        &mut self,
        now: Instant,
        sealed: &Sealed,
        packet: &mut [u8],
    ) -> Result<(), Refusal> {
        match &mut self.role {
            Role::Initiator(_) => self.ask(now),
            Role::Responder(responder) => match responder.traffic(sealed.key) {
                Some(keys) => {
                    keys.open(sealed, packet)?;
                    let keys = responder.take().expect("they opened a packet");
                    responder.rest();
                    self.adopt(now, keys);
                    return Ok(());
                }
                None => responder.prompt(now),
            },
        }
        Err(Refusal::UnknownKey)
    }

    /// The initiator has reason to doubt its keys: asks the peer.
    fn ask(&mut self, now: Instant) {
        if let Role::Initiator(initiator) = &mut self.role {
            self.used_at = now;
            match &self.current {
                Some(_) => initiator.doubt(now),
                None => initiator.begin(now),
            }
        }
    }

    /// A handshake message.
    #[cold]
    fn handle(&mut self, now: Instant, packet: &[u8]) -> Result<(), Refusal> {
        let received = Received::parse(packet).ok_or(Refusal::Malformed)?;
        let config = self.config.clone();
        let (message, psk) = verified(&config, &received).inspect_err(|why| {
            // So that the peer learns of it, too.
            if let (Refusal::OtherVersion, Role::Responder(responder)) = (why, &mut self.role) {
                responder.prompt(now);
            }
        })?;
        if message.mode != config.mode.number() {
            if let (Step::Knock, Role::Responder(responder)) = (message.step, &mut self.role) {
                responder.knock(&message, psk, None);
            }
            return Err(Refusal::OtherMode);
        }
        let ours = self.current_id();
        match (message.step, &mut self.role) {
            (Step::Knock, Role::Responder(responder)) => responder.knock(&message, psk, ours),
            (Step::Noise1, Role::Responder(responder)) => {
                responder.noise1(&config, &message, psk, ours)?;
            }
            (Step::Challenge, Role::Initiator(_)) if message.initiator == 0 => self.ask(now),
            (Step::Challenge, Role::Initiator(initiator)) => {
                if initiator.challenge(&message, psk, ours)? {
                    self.unanswered_since = None;
                }
            }
            (Step::Noise2, Role::Initiator(_)) => self.noise2(now, &message)?,
            // Our own message came back.
            (Step::Knock | Step::Noise1, Role::Initiator(_))
            | (Step::Challenge | Step::Noise2, Role::Responder(_)) => return Err(Refusal::Stale),
        }
        Ok(())
    }

    fn noise2(&mut self, now: Instant, message: &Message) -> Result<(), Refusal> {
        let taken = self.taken();
        let Role::Initiator(initiator) = &mut self.role else { return Err(Refusal::Stale) };
        match initiator.noise2(message)? {
            Noise2::Done(outcome, _) if is_taken(outcome.id, taken) => initiator.begin(now),
            Noise2::Done(outcome, psk) => {
                let keys = Traffic::new(now, &outcome, psk, self.config.mode, true);
                self.adopt(now, Box::new(keys));
                self.confirm_at = Some(now);
            }
            Noise2::Again => self.confirm(now),
        }
        Ok(())
    }

    /// Seals by new keys from now on.
    fn adopt(&mut self, now: Instant, keys: Box<Traffic>) {
        let replaced = self.current.replace(keys);
        self.previous = replaced.map(|keys| (keys, now + GRACE));
        (self.retire_at, self.unanswered_since) = (None, None);
        self.counters.handshakes += 1;
    }

    /// Sends an empty packet again, unless another is sealed first.
    fn confirm(&mut self, now: Instant) {
        let at = self.confirmed_at.map_or(now, |at| (at + CONFIRM_INTERVAL).max(now));
        self.confirm_at.get_or_insert(at);
    }

    /// Ends keys whose time is over.
    #[inline]
    fn expire(&mut self, now: Instant) {
        self.previous.take_if(|(_, until)| *until <= now);
        if self.retire_at.is_some_and(|at| at <= now) {
            (self.current, self.retire_at) = (None, None);
        }
    }

    /// Something waits to be sent: begins a handshake if there are no keys.
    pub fn want(&mut self, now: Instant) {
        self.used_at = now;
        if self.is_open() {
            return;
        }
        match &mut self.role {
            Role::Initiator(initiator) => initiator.begin(now),
            Role::Responder(responder) => responder.want(now),
        }
    }

    /// A packet of the channel's own that is to be sent now. To be called until there is none.
    pub fn poll_transmit(&mut self, now: Instant, pace: &mut Pace) -> Option<Control> {
        self.expire(now);
        if self.confirm_at.is_some_and(|at| at <= now) {
            self.confirm_at = None;
            let mut empty = Control::room();
            let sealed = self.current.as_mut().map(|keys| keys.seal(empty.bytes_mut()));
            if sealed == Some(Ok(())) {
                self.confirmed_at = Some(now);
                return Some(empty);
            }
        }
        let (ours, taken) = (self.current_id(), self.taken());
        let is_idle = now.since(self.used_at) >= REST_AFTER;
        match &mut self.role {
            Role::Initiator(initiator) => {
                if is_idle {
                    initiator.rest();
                }
                initiator.poll(now, &self.config, pace, ours)
            }
            Role::Responder(responder) => {
                if is_idle {
                    responder.rest();
                }
                responder.poll(now, &self.config, pace, taken)
            }
        }
    }

    /// When [`poll_transmit`](Self::poll_transmit) is to be called, at the latest. It may have
    /// nothing to send then. A time in the past means now.
    pub fn deadline(&self) -> Option<Instant> {
        let role = match &self.role {
            Role::Initiator(initiator) => initiator.deadline(),
            Role::Responder(responder) => responder.deadline(),
        };
        [role, self.confirm_at].into_iter().flatten().min()
    }

    /// Replaces the pre-shared keys. Keys that come from one that is gone are replaced, and end
    /// after a minute at the latest; those that come from another than the first are replaced.
    pub fn set_keys(&mut self, now: Instant, keys: Arc<Keys>) {
        self.config.keys = keys;
        self.used_at = now;
        let psk = self.current.as_ref().map(|current| current.psk);
        let is_gone = psk.is_some_and(|psk| self.config.keys.find(psk).is_none());
        self.retire_at = is_gone.then_some(now + GRACE);
        let is_first = psk == Some(self.config.keys.turn(0).fingerprint());
        match &mut self.role {
            Role::Initiator(initiator) => {
                let was_busy = initiator.is_busy();
                initiator.rest();
                if was_busy || psk.is_some() && !is_first {
                    initiator.begin(now);
                }
            }
            Role::Responder(responder) => {
                responder.keep(&self.config);
                if is_gone {
                    responder.prompt(now);
                }
            }
        }
    }

    /// How far it is.
    pub fn state(&self) -> State {
        let is_busy = match &self.role {
            Role::Initiator(initiator) => initiator.is_busy(),
            Role::Responder(responder) => responder.is_busy(),
        };
        match &self.current {
            Some(keys) if !keys.is_used_up() => {
                State::Open { since: keys.since, key: keys.id, psk: keys.psk }
            }
            _ if is_busy => State::Opening,
            _ => State::Closed,
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What identifies the current keys, unless others are needed.
    fn current_id(&self) -> Option<u32> {
        let keys = self.current.as_ref()?;
        (self.retire_at.is_none() && !keys.is_used_up()).then_some(keys.id)
    }

    fn taken(&self) -> [Option<u32>; 2] {
        let previous = self.previous.as_ref().map(|(keys, _)| keys);
        [self.current.as_ref(), previous].map(|keys| keys.map(|keys| keys.id))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::traffic::LIMIT;
    use crate::{Ends, Mode, OVERHEAD};

    const NOW: Instant = Instant::from_nanos(1);

    fn pair() -> [Channel; 2] {
        let keys = Keys::parse("Nq2qzpGUxm5uUBVVXVd1c6yjQYFCoUqrtVtNYyREp3k=").unwrap();
        let keys = Arc::new(keys);
        let [a, b] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        [(a, b), (b, a)].map(|(own, peer)| {
            let ends = Ends::new(own, peer).unwrap();
            Channel::new(NOW, Config { mode: Mode::Encrypt, keys: keys.clone(), ends })
        })
    }

    /// Each says what it has to, until both are silent.
    fn talk(channels: &mut [Channel; 2]) {
        let mut pace = Pace::default();
        let mut is_silent = false;
        while !is_silent {
            is_silent = true;
            for from in [0, 1] {
                while let Some(control) = channels[from].poll_transmit(NOW, &mut pace) {
                    let _ = channels[1 - from].open(NOW, &mut control.bytes().to_vec());
                    is_silent = false;
                }
            }
        }
    }

    fn send(channels: &mut [Channel; 2], from: usize) -> Result<(), NotSealed> {
        let mut packet = [3; OVERHEAD + 1];
        channels[from].seal(NOW, &mut packet)?;
        let opened = channels[1 - from].open(NOW, &mut packet);
        assert_eq!(opened.map(|inside| inside.map(|it| it.to_vec())), Ok(Some(vec![3])));
        Ok(())
    }

    fn open() -> [Channel; 2] {
        let mut channels = pair();
        channels[0].want(NOW);
        talk(&mut channels);
        channels
    }

    fn skip(channel: &mut Channel, packets: u64) {
        channel.current.as_mut().unwrap().skip(packets);
    }

    #[test]
    fn either_end_that_has_sealed_much_has_new_keys_made() {
        for from in [0, 1] {
            let mut channels = open();
            skip(&mut channels[from], LIMIT / 2);
            send(&mut channels, from).unwrap();
            talk(&mut channels);
            assert_eq!(channels.each_ref().map(|it| it.counters().handshakes), [2, 2]);
            send(&mut channels, from).unwrap();
        }
    }

    #[test]
    fn either_end_whose_keys_are_used_up_gets_others_although_the_peer_saw_nothing() {
        for from in [0, 1] {
            let mut channels = open();
            skip(&mut channels[from], LIMIT);
            assert_eq!(send(&mut channels, from), Err(NotSealed::NoKeys));
            assert!(!channels[from].is_open());
            assert_eq!(channels[from].state(), State::Opening);
            talk(&mut channels);
            send(&mut channels, from).unwrap();
        }
    }

    #[test]
    fn it_may_go_to_another_thread_and_tells_no_secrets() {
        fn needs_send<T: Send>(_: &T) {}
        let [a, _] = open();
        needs_send(&a);
        let said = format!("{a:?}");
        assert!(said.starts_with("Channel { state: Open { since: Instant(1), key: "), "{said}");
    }
}
