//! The requests that bring a new session to the state of an existing one.
//!
//! A session's state comes from its front-end's requests alone. So keeping those is enough, and the
//! next switch validates them as if the front-end had sent them.

use std::os::fd::{AsFd, BorrowedFd};

use super::features::ProtocolFeatures;
use super::message::{Region, Request, Table};
use super::session::{Book, Rings, Session};
use super::vring::Kick;

/// A request and its descriptors.
pub type Told<'a> = (Request, Vec<BorrowedFd<'a>>);

impl<R: Rings> Session<R> {
    /// The requests that bring a new session to the state of this one.
    ///
    /// The position of a running ring is not among them: its record and the ring itself have it.
    pub fn retell(&self) -> Vec<Told<'_>> {
        let mut told = vec![(Request::SetProtocolFeatures(self.protocol.0), Vec::new())];
        told.extend(self.features.map(|features| (Request::SetFeatures(features.0), Vec::new())));
        let (regions, files): (Vec<Region>, Vec<_>) = self.shared.memory.files().unzip();
        match Table::new(&regions) {
            Some(table) if !self.protocol.contains(ProtocolFeatures::CONFIGURE_MEM_SLOTS) => {
                told.push((Request::SetMemTable(table), files));
            }
            _ => {
                let each = regions.into_iter().zip(files);
                told.extend(each.map(|(region, file)| (Request::AddMemReg(region), vec![file])));
            }
        }
        if let Some(log) = &self.shared.log {
            let (file, size, offset) = log.file();
            told.push((Request::SetLogBase { size, offset }, vec![file]));
        }
        if let Some(region) = &self.shared.inflight {
            let (given, file) = region.file();
            told.push((Request::SetInflightFd(given), vec![file]));
        }
        if self.status != 0 {
            told.push((Request::SetStatus(self.status), Vec::new()));
        }
        told.extend((0..=u8::MAX).zip(&self.books).flat_map(|(index, book)| book.retell(index)));
        told
    }
}

impl Book {
    /// The requests about ring `index`. The one that starts it comes last, so that it starts only
    /// once.
    fn retell(&self, index: u8) -> impl Iterator<Item = Told<'_>> {
        let alone = |request| (request, Vec::new());
        let said = [
            self.size.map(|size| alone(Request::SetVringNum { index, size })),
            self.base.map(|base| alone(Request::SetVringBase { index, base })),
            self.addresses.map(|addresses| alone(Request::SetVringAddr { index, addresses })),
            self.call
                .as_ref()
                .map(|fd| (Request::SetVringCall { index, has_fd: true }, vec![fd.as_fd()])),
            self.error
                .as_ref()
                .map(|fd| (Request::SetVringErr { index, has_fd: true }, vec![fd.as_fd()])),
            self.enabled.map(|enable| alone(Request::SetVringEnable { index, enable })),
            self.kick.as_ref().map(|kick| match kick {
                Kick::Fd(fd) => (Request::SetVringKick { index, has_fd: true }, vec![fd.as_fd()]),
                Kick::Polled => alone(Request::SetVringKick { index, has_fd: false }),
            }),
        ];
        said.into_iter().flatten()
    }
}
