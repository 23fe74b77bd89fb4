//! The guest's side of `wire::room`: receives Asks and answers with Tells.

use units::Mac;
use wire::room::{Common, Draft, Kind, Message, Socket, Unreadable, Want};

/// The protocol state of the guest's program. Its owner passes it the sockets and received frames,
/// and sends the frames that it returns.
#[derive(Debug)]
pub struct Teller {
    mac: Mac,
    session: u64,
    page: u32,
    number: u64,
    /// The last received Ask, and the life of the switch's end that sent it.
    heard: u64,
    life: u32,
    /// Whether the switch knows that we receive its Asks.
    is_on: bool,
    /// Whether the last Ask is to be answered.
    owes: bool,
    asked: Vec<Asked>,
}

/// A port of an Ask.
#[derive(Clone, Copy, Debug)]
struct Asked {
    want: Want,
    /// How many of its sockets lacked the wanted room at the last report; `None` if a report is
    /// due.
    lacking: Option<usize>,
}

/// A UDP socket and its port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Watched {
    /// The port that it is bound to.
    pub port: u16,
    /// Its state.
    pub socket: Socket,
}

/// The meaning of a received frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// Not for us.
    Nothing,
    /// The switch asks: look at the sockets and [tell](Teller::tell).
    Asked,
    /// The switch speaks another version of the protocol.
    Version(u8),
}

impl Teller {
    /// A program on the interface with this address, on a machine with this page size in bytes.
    /// `session` must be unique.
    pub fn new(mac: Mac, session: u64, page: u32) -> Self {
        Self {
            mac,
            session,
            page,
            number: 0,
            heard: 0,
            life: 0,
            is_on: false,
            owes: false,
            asked: Vec::new(),
        }
    }

    /// The frame that announces the program.
    pub fn hello(&mut self, lost: u32) -> Draft {
        self.draft(Kind::Hello, lost)
    }

    /// The frame that announces the program's end.
    pub fn bye(&mut self) -> Draft {
        self.draft(Kind::Bye, 0)
    }

    /// Handles a received frame.
    pub fn hear(&mut self, frame: &[u8]) -> Heard {
        let message = match Message::parse(frame) {
            Ok(message) => message,
            Err(Unreadable::Version(version)) => return Heard::Version(version),
            Err(Unreadable::Foreign | Unreadable::Malformed) => return Heard::Nothing,
        };
        let Common { kind, life, session, number, heard, .. } = message.common;
        if kind != Kind::Ask || session != self.session {
            return Heard::Nothing;
        }
        if life != self.life {
            (self.life, self.heard) = (life, 0);
        }
        if number <= self.heard {
            return Heard::Nothing;
        }
        (self.heard, self.owes, self.is_on) = (number, true, heard > 0);
        // A switch that has not received our messages yet holds nothing.
        if !self.is_on {
            self.asked.clear();
        }
        for want in message.wants() {
            self.asked.retain(|asked| asked.want.port != want.port);
            self.asked.push(Asked { want, lacking: None });
        }
        Heard::Asked
    }

    /// Whether the switch holds datagrams for full sockets: it knows that we receive its Asks.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The ports for whose room the switch waits, and how much it needs.
    pub fn awaited(&self) -> impl Iterator<Item = Want> + Clone {
        self.asked.iter().filter(|asked| asked.lacking.is_some()).map(|asked| asked.want)
    }

    /// Returns a report about the ports that were asked about, and about those with more room than
    /// last reported. `sockets` must be all sockets by ascending port, as they were found after the
    /// last frame was [heard](Self::hear). `lost` is the number of datagrams ever dropped for want
    /// of room.
    pub fn tell(&mut self, sockets: &[Watched], lost: u32, mut say: impl FnMut(&[u8])) {
        let mut asked = std::mem::take(&mut self.asked);
        // Even without ports: the answer shows that the Ask was received.
        let mut draft = std::mem::take(&mut self.owes).then(|| self.draft(Kind::Tell, lost));
        let mut group = Vec::new();
        asked.retain_mut(|asked| {
            let Want { port, bytes } = asked.want;
            let first = sockets.partition_point(|watched| watched.port < port);
            group.clear();
            let here = sockets[first..].iter().take_while(|watched| watched.port == port);
            group.extend(here.map(|watched| watched.socket));
            let lacking = group.iter().filter(|socket| lacks(socket, bytes)).count();
            let is_news = asked.lacking.is_none_or(|before| lacking < before);
            asked.lacking = Some(lacking);
            if is_news {
                let has_room = |draft: &mut Draft| draft.tell(port, lacking > 0, &group);
                if !draft.as_mut().is_some_and(has_room) {
                    let mut next = self.draft(Kind::Tell, lost);
                    assert!(has_room(&mut next), "a message has room for a port");
                    if let Some(full) = draft.replace(next) {
                        say(full.frame());
                    }
                }
            }
            lacking > 0
        });
        if let Some(draft) = draft {
            say(draft.frame());
        }
        self.asked = asked;
    }

    fn draft(&mut self, kind: Kind, lost: u32) -> Draft {
        self.number += 1;
        let Self { life, session, number, heard, page, .. } = *self;
        Draft::new(self.mac, &Common { kind, life, session, number, heard, page, lost })
    }
}

/// Whether a socket has fewer than `bytes` free. An empty one takes anything.
pub fn lacks(socket: &Socket, bytes: u32) -> bool {
    bytes > 0 && socket.occupied > 0 && socket.limit.saturating_sub(socket.occupied) < bytes
}
