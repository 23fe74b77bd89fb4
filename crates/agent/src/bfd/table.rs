//! The sessions of one address, their paths and their published health. Uses no sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use kernel::clock::now;
use seal::Keys;
use tunnel::bfd::{Change, Config, Output, Refusal, Sessions, Status};
use underlay::single_hop::{ALL, Received};
use units::{Instant, Rng};
use wire::bfd::{Diagnostic, Header, PORT, Packet, SOURCE_PORTS, State, TTL};
use zerocopy::IntoBytes;

use super::health::{Health, Watch};
use super::sequence::Sequence;
use super::shared::{MOST, Path, Settings, Shared};

const _: () = assert!(TTL == ALL, "BFD's packets have all their hops");

pub(super) struct Table {
    pub(super) shared: Arc<Shared>,
    config: Config,
    keys: Option<Arc<Keys>>,
    /// Draws the first sequence number of each session.
    rng: Rng,
    sessions: Sessions,
    /// By the session's place: its path and published health.
    entries: Vec<Option<Entry>>,
    /// The session of packets that name none, by their addresses (RFC 5881 §3).
    by_path: BTreeMap<Path, NonZeroU32>,
}

struct Entry {
    path: Path,
    watch: Arc<Watch>,
    sequence: Sequence,
}

/// A packet to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Due {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) header: Header,
    /// The same with its digest, if it has one.
    signed: Option<[u8; seal::bfd::LEN]>,
}

impl Due {
    /// The bytes of the packet.
    pub(super) fn payload(&self) -> &[u8] {
        self.signed.as_ref().map_or(self.header.as_bytes(), |signed| signed)
    }
}

impl Table {
    pub(super) fn new(settings: &Settings, seed: u64, shared: Arc<Shared>) -> Self {
        let Settings { interval, multiplier, .. } = *settings;
        Self {
            shared,
            config: Config {
                desired_min_tx: interval,
                required_min_rx: interval,
                multiplier,
                is_passive: false,
            },
            keys: settings.keys.clone(),
            rng: Rng::new(!seed),
            sessions: Sessions::new(MOST as u32, seed),
            entries: (0..MOST).map(|_| None).collect(),
            by_path: BTreeMap::new(),
        }
    }

    /// Starts to monitor a path.
    pub(super) fn open(&mut self, path: Path, watch: Arc<Watch>) {
        let discriminator =
            self.sessions.open(self.config).expect("there are as many places as paths");
        let sequence = Sequence::new(self.rng.next_u64() as u32);
        self.entries[Sessions::place(discriminator)] = Some(Entry { path, watch, sequence });
        let before = self.by_path.insert(path, discriminator);
        assert_eq!(before, None, "{path:?} is watched once");
    }

    /// Holds a path's session down, so that its next packet notifies the far end.
    /// [`forget`](Self::forget) it after that.
    pub(super) fn hold_down(&mut self, path: Path) {
        let Some(discriminator) = self.by_path.get(&path) else { return };
        self.sessions.with(discriminator.get(), |session| {
            session.hold_down(Diagnostic::ADMINISTRATIVELY_DOWN)
        });
    }

    /// Holds all sessions down.
    pub(super) fn hold_all_down(&mut self) {
        let paths: Vec<Path> = self.by_path.keys().copied().collect();
        paths.into_iter().for_each(|path| self.hold_down(path));
    }

    /// Authenticates packets by these keys from now on, if they were authenticated before.
    pub(super) fn set_keys(&mut self, keys: Arc<Keys>) {
        self.keys = self.keys.take().map(|_| keys);
    }

    /// Stops monitoring a path.
    pub(super) fn forget(&mut self, path: Path) {
        let Some(discriminator) = self.by_path.remove(&path) else { return };
        self.sessions.close(discriminator.get());
        self.entries[Sessions::place(discriminator)] = None;
    }

    /// Handles a received packet.
    pub(super) fn take(&mut self, now: Instant, received: Received<'_>) {
        let shared = self.shared.clone();
        let counters = &shared.counters;
        let counter = match self.judge(now, received) {
            Ok(()) => &counters.taken,
            Err(Refused::Distant) => &counters.distant,
            Err(Refused::Malformed) => &counters.malformed,
            Err(Refused::Session(Refusal::UnknownSession)) => &counters.unknown,
            Err(Refused::Session(Refusal::Authenticated)) => &counters.authenticated,
            Err(Refused::Unauthenticated) => &counters.unauthenticated,
            Err(Refused::Replayed) => &counters.replayed,
        };
        counter.add(1);
    }

    fn judge(&mut self, now: Instant, received: Received<'_>) -> Result<(), Refused> {
        // RFC 5881 §5: packets without authentication must have a TTL of 255.
        if received.hops != TTL {
            return Err(Refused::Distant);
        }
        let packet = Packet::parse(received.payload).ok_or(Refused::Malformed)?;
        // If a packet names its session, its addresses do not matter (RFC 5880 §6.3).
        let named = NonZeroU32::new(packet.header.your_discriminator.get());
        let path = Path { local: received.destination, remote: received.source };
        let discriminator = named.or_else(|| self.by_path.get(&path).copied());
        let discriminator = discriminator.ok_or(Refused::Session(Refusal::UnknownSession))?;
        let packet = self.authenticate(now, discriminator, packet)?;
        let change =
            self.sessions.handle(now, discriminator.get(), &packet).map_err(Refused::Session)?;
        if let Some(change) = change {
            self.publish(discriminator, change);
        }
        Ok(())
    }

    /// The packet without its digest, which is as it has to be.
    fn authenticate<'a>(
        &mut self,
        now: Instant,
        discriminator: NonZeroU32,
        packet: Packet<'a>,
    ) -> Result<Packet<'a>, Refused> {
        let Some(keys) = &self.keys else { return Ok(packet) };
        let unknown = Refused::Session(Refusal::UnknownSession);
        let session = self.sessions.get(discriminator.get()).ok_or(unknown)?;
        let sequence = seal::bfd::verify(&packet, keys).ok_or(Refused::Unauthenticated)?;
        let entry = self.entries[Sessions::place(discriminator)].as_mut();
        let entry = entry.expect("a session is of a path");
        let knows_us = packet.header.your_discriminator.get() != 0;
        let multiplier = packet.header.detect_multiplier;
        let time = session.detection_time();
        match entry.sequence.accept(now, sequence, knows_us, multiplier, time) {
            true => Ok(Packet { authentication: None, ..packet }),
            false => Err(Refused::Replayed),
        }
    }

    /// The next packet that is due by `now`. To be called until it returns `None`.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        loop {
            let (discriminator, output) = self.sessions.poll(now)?;
            match output {
                Output::Changed(change) => self.publish(discriminator, change),
                Output::Send(header) => {
                    let place = Sessions::place(discriminator);
                    let Entry { path, sequence, .. } =
                        self.entries[place].as_mut().expect("a session is of a path");
                    let sign = |keys| seal::bfd::sign(header, keys, sequence.send());
                    let signed = self.keys.as_deref().map(sign);
                    let port = *SOURCE_PORTS.start() + place as u16;
                    let source = SocketAddr::new(path.local, port);
                    let destination = SocketAddr::new(path.remote, PORT);
                    return Some(Due { source, destination, header, signed });
                }
            }
        }
    }

    /// The time of the next timer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.sessions.deadline()
    }

    fn publish(&self, discriminator: NonZeroU32, change: Change) {
        let entry =
            self.entries[Sessions::place(discriminator)].as_ref().expect("a session is of a path");
        let Path { local, remote } = entry.path;
        let (from, to) = (change.from.state, change.to.state);
        match (from, to) {
            (State::Up, _) => {
                let diagnostic = change.to.diagnostic.name();
                tracing::warn!(%local, %remote, ?to, diagnostic, "a path to another host does not work any more");
            }
            (_, State::Up) => tracing::info!(%local, %remote, "a path to another host works"),
            _ => tracing::debug!(%local, %remote, ?from, ?to, "a path's session has changed"),
        }
        let since =
            if change.from.state == change.to.state { entry.watch.get().since } else { now() };
        entry.watch.set(Health { status: change.to, since });
        self.shared.changed.ring();
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.entries.clear();
        self.shared.changed.ring();
    }
}

impl Drop for Entry {
    /// Marks all paths as down however the thread ends, because nothing monitors them any more.
    fn drop(&mut self) {
        self.watch.set(Health { status: UNWATCHED, since: now() });
    }
}

/// The health of a path that is not monitored any more.
const UNWATCHED: Status = Status {
    state: State::AdminDown,
    diagnostic: Diagnostic::ADMINISTRATIVELY_DOWN,
    remote_diagnostic: Diagnostic::NONE,
};

/// Why a packet is discarded.
enum Refused {
    Distant,
    Malformed,
    Unauthenticated,
    Replayed,
    Session(Refusal),
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::health::Counters;
    use super::*;
    use crate::bell::Bell;

    const PATH: Path = Path {
        local: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        remote: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    };

    fn table(watch: &Arc<Watch>) -> Table {
        let [ordered, changed] = [(); 2].map(|()| Bell::new().unwrap());
        let shared = Shared { ordered, changed, counters: Counters::default() };
        let mut table = Table::new(&Settings::new(PATH.local), 1, Arc::new(shared));
        table.open(PATH, watch.clone());
        table
    }

    /// Lets a far end come up. Returns the published health.
    fn up(table: &mut Table, watch: &Watch, now: Instant) -> Health {
        let ours = table.due(now).unwrap().header.my_discriminator;
        for state in [State::Down, State::Init] {
            let mut header = Header::new(state, Diagnostic::NONE, wire::bfd::Flags::default(), 9);
            header.your_discriminator = ours;
            let (source, destination) = (PATH.remote, PATH.local);
            table
                .take(now, Received { source, destination, hops: ALL, payload: header.as_bytes() });
        }
        watch.get()
    }

    #[test]
    fn a_path_that_is_no_longer_monitored_is_not_up() {
        let now = kernel::clock::now();
        let forget: [fn(Table); 2] = [drop, |mut table| table.forget(PATH)];
        for forget in forget {
            let watch = Arc::new(Watch::new(now));
            let mut table = table(&watch);
            assert!(up(&mut table, &watch, now).is_up());
            forget(table);
            assert_eq!(watch.get().status, UNWATCHED);
        }
    }

    #[test]
    fn an_expired_detection_time_is_published_with_its_time() {
        let now = kernel::clock::now();
        let watch = Arc::new(Watch::new(now));
        let mut table = table(&watch);
        up(&mut table, &watch, now);
        // The far end has a multiplier of 1, so its detection time is our interval.
        while let Some(at) = table.deadline().filter(|_| watch.get().is_up()) {
            while let Some(due) = table.due(at) {
                assert_eq!(due.destination, SocketAddr::new(PATH.remote, PORT));
                assert!(SOURCE_PORTS.contains(&due.source.port()));
            }
        }
        let health = watch.get();
        assert_eq!(health.status.diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
        assert!(health.since > now);
    }
}
