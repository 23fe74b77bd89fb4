//! What the switch answers in the stead of machines that may be on other hosts.

use std::collections::VecDeque;
use std::sync::Arc;

use datapath::{Answer, Directory, LONGEST_ANSWER};
use lossless::PortId;
use ports::FrameView;

/// The most answers that wait: who asks more at once asks again.
const MOST: usize = 256;

/// Room for a frame that does not lie in one piece.
const LARGE: usize = 66 << 10;

/// Answers by a directory.
#[derive(Debug, Default)]
pub(super) struct Answers {
    directory: Arc<Directory>,
    /// The longest packet that fits into tunnels, in bytes.
    mtu: u16,
    /// By port number: the network that its questions are about.
    networks: Vec<Option<u32>>,
    /// To be said, and to whom.
    waiting: VecDeque<(PortId, Box<[u8]>)>,
    scratch: Vec<u8>,
}

impl Answers {
    /// From now on it is this directory, tunnels carry packets of so many bytes, and these ports are members of these networks.
    pub(super) fn follow(&mut self, directory: Arc<Directory>, mtu: u16, ports: Vec<(PortId, u32)>) {
        (self.directory, self.mtu) = (directory, mtu);
        self.networks.clear();
        for (port, vni) in ports {
            if self.networks.len() <= port.index() {
                self.networks.resize(port.index() + 1, None);
            }
            self.networks[port.index()] = Some(vni);
        }
        self.waiting.clear();
    }

    /// Whether a frame of a port may be a question.
    #[inline]
    pub(super) fn may_concern(&self, port: PortId, frame: &FrameView<'_>) -> bool {
        self.networks.get(port.index()).copied().flatten().is_some()
            && datapath::is_question(self.mtu, frame.bytes, frame.len(), &frame.offload())
    }

    /// Answers a frame of a port, if it is a question. Whether it is: then nobody else is to have it.
    #[cold]
    pub(super) fn hear(&mut self, port: PortId, frame: &FrameView<'_>) -> bool {
        let Self { directory, mtu, networks, waiting, scratch } = self;
        let network = networks.get(port.index()).copied().flatten().and_then(|vni| directory.network(vni));
        let Some(network) = network else { return false };
        if !frame.rest.is_empty() {
            scratch.resize(LARGE, 0);
        }
        let bytes = frame.first(scratch);
        match datapath::answer(network, *mtu, bytes, &frame.offload(), &mut [0; LONGEST_ANSWER]) {
            Answer::Pass => return false,
            Answer::Reply(reply) if waiting.len() < MOST => waiting.push_back((port, (*reply).into())),
            Answer::Reply(_) | Answer::Silence => {}
        }
        true
    }

    /// Hands over what waits, as long as `transmit` takes it.
    pub(super) fn say(&mut self, mut transmit: impl FnMut(PortId, FrameView<'_>) -> bool) {
        while let Some((port, reply)) = self.waiting.front() {
            if !transmit(*port, FrameView::plain(reply)) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// A port is gone, and its questions with it.
    pub(super) fn forget(&mut self, port: PortId) {
        if let Some(network) = self.networks.get_mut(port.index()) {
            *network = None;
        }
        self.waiting.retain(|(asker, _)| *asker != port);
    }
}
