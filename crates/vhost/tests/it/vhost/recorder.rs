//! Rings that nobody processes, which remember what they were told.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::message::{Message, Region, Reply, Request, Table};
use vhost::session::{News, Offer, Refusal, Rings, Session, Shared};
use vhost::vring::{Base, Vring};

/// Remembers, and makes sure that what it is told makes sense.
#[derive(Debug, Default)]
pub struct Recorder {
    pub running: BTreeMap<usize, Vring>,
    /// Where rings are to stand when they stop, other than where they started.
    pub bases: BTreeMap<usize, Base>,
    said: Vec<String>,
}

impl Recorder {
    fn check(vring: &Vring, shared: &Shared) {
        let packed = matches!(vring.base, Base::Packed { .. });
        for part in vring.addresses.parts(vring.size, packed) {
            let span = shared.memory.user(part.address).expect("a ring that runs lies in memory");
            assert!(span.len as u64 >= part.len);
        }
    }

    fn note(&mut self, what: &str, vring: &Vring) {
        let enabled = if vring.enabled { "" } else { ", disabled" };
        let logged = if vring.addresses.log.is_some() { ", logged" } else { "" };
        self.said.push(format!(
            "{what} {} at {:#x}{enabled}{logged}",
            vring.index,
            vring.base.emit()
        ));
    }
}

impl Rings for Recorder {
    fn start(&mut self, vring: Vring, shared: &Shared) {
        Self::check(&vring, shared);
        self.note("start", &vring);
        assert!(self.running.insert(vring.index, vring).is_none(), "what runs is not started");
    }

    fn update(&mut self, vring: Vring, shared: &Shared) {
        Self::check(&vring, shared);
        self.note("update", &vring);
        assert!(self.running.insert(vring.index, vring).is_some(), "only what runs is updated");
    }

    fn stop(&mut self, index: usize, shared: &Shared) -> Base {
        let vring = self.running.remove(&index).expect("only what runs is stopped");
        Self::check(&vring, shared);
        self.said.push(format!("stop {index}"));
        self.bases.remove(&index).unwrap_or(vring.base)
    }
}

/// A request that does not ask for a reply.
pub fn ask(request: Request) -> Message {
    Message { request, need_reply: false }
}

/// A request that does.
pub fn demand(request: Request) -> Message {
    Message { request, need_reply: true }
}

pub fn table(regions: &[Region]) -> Request {
    Request::SetMemTable(Table::new(regions).unwrap())
}

/// A session for so many pairs of recorded rings.
pub fn session(pairs: u8) -> Session<Recorder> {
    Session::new(Offer::net(pairs), Recorder::default())
}

/// Serves a message with the descriptors that it needs, and tells all that came of it.
pub fn tell(session: &mut Session<Recorder>, message: Message) -> Result<String, Refusal> {
    let served = session.handle(message, descriptors(&message.request));
    let mut said = std::mem::take(&mut session.parts().0.said);
    let outcome = served?;
    said.extend(outcome.news.map(|news| match news {
        News::Features(_) => "features".into(),
        News::Mtu(mtu) => format!("mtu {mtu}"),
        News::Announce(mac) => format!("announce {mac}"),
    }));
    said.extend(outcome.reply.map(|(reply, fd)| match reply {
        Reply::Number(_, number) => format!("= {number:#x}"),
        Reply::Base { base, .. } => format!("= {base:#x}"),
        Reply::Inflight(made) => {
            format!("= {} bytes in {} descriptor", made.size, fd.iter().count())
        }
    }));
    Ok(said.join("; "))
}

/// Files large enough for a request's memory, eventfds for its rings.
fn descriptors(request: &Request) -> Vec<OwnedFd> {
    let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    match request {
        Request::SetMemTable(table) => {
            table.regions().iter().map(|r| memfd(r.offset + r.size)).collect()
        }
        Request::AddMemReg(region) => vec![memfd(region.offset + region.size)],
        Request::SetLogBase { size, offset } => vec![memfd(size + offset)],
        Request::SetInflightFd(inflight) => vec![memfd(inflight.size + inflight.offset)],
        Request::SetVringKick { has_fd: true, .. }
        | Request::SetVringCall { has_fd: true, .. }
        | Request::SetVringErr { has_fd: true, .. }
        | Request::SetLogFd => vec![event()],
        _ => Vec::new(),
    }
}

pub fn memfd(len: u64) -> OwnedFd {
    let file = memfd_create("zovn-test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    file
}
