//! A table of sessions with a common timer heap.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use units::{Instant, Rng};
use wire::bfd::Packet;

use super::timers::Timers;
use super::{Change, Config, Output, Refusal, Session};

/// The low bits of a discriminator are the session's place in the table. The high bits distinguish
/// it from earlier sessions at that place.
const PLACE_BITS: u32 = 16;

/// Sessions by discriminator.
///
/// All memory is reserved when the table is made. Handling a packet takes constant time, plus a
/// logarithmic update of the timer heap.
#[derive(Clone, Debug)]
pub struct Sessions {
    places: Vec<Option<Session>>,
    free: Vec<u16>,
    timers: Timers,
    /// The number of sessions opened, modulo 2^16: a discriminator's high bits.
    opened: u16,
    rng: Rng,
}

impl Sessions {
    /// The maximum size of a table.
    pub const MOST: u32 = 1 << PLACE_BITS;

    /// A table for `most` sessions, at most [`MOST`](Self::MOST). The seed determines the jitter
    /// and the first discriminator. It should differ after each start, so that discriminators are
    /// not reused soon.
    pub fn new(most: u32, seed: u64) -> Self {
        let most = most.min(Self::MOST);
        let mut rng = Rng::new(seed);
        Self {
            places: (0..most).map(|_| None).collect(),
            free: (0..most).rev().map(|place| place as u16).collect(),
            timers: Timers::new(most),
            opened: rng.next_u64() as u16,
            rng,
        }
    }

    /// Opens a session. Returns its discriminator; `None` if the table is full.
    pub fn open(&mut self, config: Config) -> Option<NonZeroU32> {
        let place = self.free.pop()?;
        // A discriminator is not 0.
        self.opened = self.opened.checked_add(1).unwrap_or(1);
        let discriminator =
            NonZeroU32::new(u32::from(self.opened) << PLACE_BITS | u32::from(place))?;
        let session = Session::new(config, discriminator);
        self.timers.set(place.into(), session.deadline());
        self.places[usize::from(place)] = Some(session);
        Some(discriminator)
    }

    /// Closes a session and returns it. The far end is not told; [`Session::hold_down`] does that.
    pub fn close(&mut self, discriminator: u32) -> Option<Session> {
        let place = self.find(discriminator)?;
        self.free.push(place as u16);
        self.timers.set(place, None);
        self.places[place as usize].take()
    }

    /// The place of a session, below the table's size. No other open session has the same.
    pub const fn place(discriminator: NonZeroU32) -> usize {
        (discriminator.get() % Self::MOST) as usize
    }

    /// The session with this discriminator.
    pub fn get(&self, discriminator: u32) -> Option<&Session> {
        self.places
            .get(discriminator as u16 as usize)?
            .as_ref()
            .filter(|it| it.discriminator().get() == discriminator)
    }

    /// Calls `act` with the session and updates its timer. `None` if there is no such session.
    pub fn with<R>(
        &mut self,
        discriminator: u32,
        act: impl FnOnce(&mut Session) -> R,
    ) -> Option<R> {
        let place = self.find(discriminator)?;
        let session = self.places[place as usize].as_mut()?;
        let result = act(session);
        self.timers.set(place, session.deadline());
        Some(result)
    }

    /// Handles a packet for session `discriminator`: the one that the packet names or, if it names
    /// none, the one of its addresses or tunnel.
    ///
    /// # Errors
    ///
    /// There is no such session, or it discards the packet.
    pub fn handle(
        &mut self,
        now: Instant,
        discriminator: u32,
        packet: &Packet<'_>,
    ) -> Result<Option<Change>, Refusal> {
        self.with(discriminator, |session| session.handle(now, packet))
            .unwrap_or(Err(Refusal::UnknownSession))
    }

    /// Runs the timers that have expired by `now`, and says for which session. To be called until
    /// it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<(NonZeroU32, Output)> {
        loop {
            let (_, place) = self.timers.first().filter(|(at, _)| *at <= now)?;
            let session = self.places[place as usize].as_mut().expect("only a session has a timer");
            let output = session.poll(now, &mut self.rng);
            self.timers.set(place, session.deadline());
            if let Some(output) = output {
                return Some((session.discriminator(), output));
            }
        }
    }

    /// The time of the next timer, which may have passed.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| at)
    }

    fn find(&self, discriminator: u32) -> Option<u32> {
        self.get(discriminator).map(|_| discriminator % Self::MOST)
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU8;

    use units::Span;
    use wire::bfd::{Diagnostic, Flags, Header, State};

    use super::super::Interval;
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn config() -> Config {
        let interval = Interval::new(Span::from_millis(500)).unwrap();
        let multiplier = NonZeroU8::new(3).unwrap();
        Config {
            desired_min_tx: interval,
            required_min_rx: interval,
            multiplier,
            is_passive: false,
        }
    }

    fn heard(sessions: &mut Sessions, discriminator: u32) -> Result<State, Refusal> {
        let header = Header::new(State::Down, Diagnostic::NONE, Flags::default(), 9);
        let packet = Packet { header: &header, authentication: None };
        sessions.handle(NOW, discriminator, &packet)?;
        Ok(sessions.get(discriminator).unwrap().state())
    }

    #[test]
    fn a_packet_finds_the_session_that_it_names_and_no_earlier_one() {
        let mut sessions = Sessions::new(2, 1);
        let [one, two] = [(); 2].map(|()| sessions.open(config()).unwrap().get());
        assert_eq!(sessions.open(config()), None, "it is full");
        assert_eq!(heard(&mut sessions, one), Ok(State::Init));
        assert_eq!(sessions.get(two).unwrap().state(), State::Down);
        assert!(sessions.close(one).is_some());
        assert!(sessions.close(one).is_none());
        let three = sessions.open(config()).unwrap().get();
        assert!(![one, two].contains(&three));
        for unknown in [0, one, three + 1, u32::MAX] {
            assert_eq!(heard(&mut sessions, unknown), Err(Refusal::UnknownSession));
        }
        assert_eq!(heard(&mut sessions, three), Ok(State::Init));
    }

    #[test]
    fn a_discriminator_is_not_0_nor_used_again_soon() {
        let mut sessions = Sessions::new(1, 1);
        let mut last = 0;
        for _ in 0..=2 * Sessions::MOST {
            let next = sessions.open(config()).unwrap().get();
            assert!(next != 0 && next != last);
            assert!(sessions.close(next).is_some());
            last = next;
        }
        assert_eq!(sessions.deadline(), None);
    }

    #[test]
    fn every_session_sends_periodically_and_detects_silence() {
        let mut sessions = Sessions::new(100, 1);
        let all: [u32; 100] = core::array::from_fn(|_| sessions.open(config()).unwrap().get());
        for discriminator in all {
            assert_eq!(heard(&mut sessions, discriminator), Ok(State::Init));
        }
        let (mut sent, mut silent) = ([0; 100], 0);
        // The far end's packets have a multiplier of 1 and no interval, so our 500 ms are its
        // detection time.
        while let Some(at) = sessions.deadline().filter(|at| *at < NOW + Span::from_millis(600)) {
            while let Some((discriminator, output)) = sessions.poll(at) {
                let place = all.iter().position(|it| *it == discriminator.get()).unwrap();
                match output {
                    Output::Send(header) => {
                        assert_eq!(header.my_discriminator.get(), discriminator.get());
                        sent[place] += 1;
                    }
                    Output::Changed(change) => {
                        assert_eq!(
                            (change.to.state, at),
                            (State::Down, NOW + Span::from_millis(500))
                        );
                        silent += 1;
                    }
                }
            }
        }
        // One packet with the state Init, another with Down.
        assert_eq!((sent, silent), ([2; 100], 100));
    }

    #[test]
    fn an_administrative_change_is_sent_at_once() {
        let mut sessions = Sessions::new(1, 1);
        let discriminator = sessions.open(config()).unwrap().get();
        while sessions.poll(NOW).is_some() {}
        sessions
            .with(discriminator, |session| session.hold_down(Diagnostic::ADMINISTRATIVELY_DOWN));
        assert!(
            matches!(sessions.poll(NOW), Some((_, Output::Send(header))) if header.state() == State::AdminDown)
        );
    }
}
