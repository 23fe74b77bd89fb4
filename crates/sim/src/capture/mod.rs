//! What a link carries, as a pcapng file (draft-ietf-opsawg-pcapng) that Wireshark reads.
//!
//! ```text
//!  server0-leaf0 ─▶ interface 0        a block for each frame, with the time when its last bit has come
//!  leaf0-server0 ─▶ interface 1        through the link, its headers, and its length
//! ```
//!
//! What is written goes out at once, but for what a frame of PFC has to be put before: it is seen
//! only when it takes effect, a response after it has come.
//!
//! A capture changes nothing of a run.

mod frame;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriteError, PcapNgWriter};
use units::{Class, ClassMap};

use self::frame::Headers;
use crate::graph::Graph;
use crate::host::Hosts;
use crate::packet::Packet;
use crate::scenario::{LinkName, Scenario};
use crate::stack::Stack;
use crate::time::{Pace, Time};

/// Where a capture is written.
pub type Sink = Box<dyn Write + Send>;

/// A link that is listened to.
pub(crate) struct Capture {
    ways: Vec<Way>,
    headers: Headers,
    /// The class of each lane.
    classes: Vec<Class>,
    /// What has come through the link, in its order, and may still have to let a frame of PFC go
    /// before.
    waiting: VecDeque<Frame>,
    /// How long a frame of PFC is seen late, at most.
    late: Time,
    /// The file, or why it could not be written.
    file: Result<PcapNgWriter<BufWriter<Sink>>, io::Error>,
}

/// A direction of the link: an interface of the file.
struct Way {
    /// The port that frames come to.
    port: u32,
    /// How late a frame of PFC is seen.
    late: Time,
    /// How long a pause lasts, in quanta.
    quanta: u16,
    /// The node that sends.
    from: u32,
}

/// A frame that is to be written.
struct Frame {
    time: Time,
    interface: u32,
    len: u32,
    bytes: Vec<u8>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("ways", &self.ways.len()).finish_non_exhaustive()
    }
}

impl Capture {
    /// Begins a file with what comes through `link`, whose frames are in these lanes.
    pub(crate) fn new(
        scenario: &Scenario,
        graph: &Graph,
        lanes: &[String],
        link: LinkName,
        sink: Sink,
    ) -> Self {
        let pfc = &scenario.fabric.pfc;
        let response = u32::try_from(pfc.response.0).unwrap_or(u32::MAX);
        let joins = |a: u32, b: u32| (graph.name(a), graph.name(b)) == (link.0, link.1);
        let ways = (0..).zip(&graph.ends).filter_map(|(port, end)| {
            let from = graph.ends[end.peer as usize].node;
            let is_it = joins(from, end.node) || joins(end.node, from);
            is_it.then(|| Way {
                port,
                late: Pace::of(end.link.rate).time_for(response),
                // A quantum is 64 bytes' time (802.3 annex 31B).
                quanta: u16::try_from(end.link.rate.bytes_in(pfc.expiry(end.link)).div_ceil(64))
                    .unwrap_or(u16::MAX),
                from,
            })
        });
        let mut ways: Vec<Way> = ways.collect();
        // The link is told as it was named: that direction first.
        ways.sort_by_key(|way| graph.name(way.from) != link.0);
        let late = ways.iter().map(|way| way.late).max().unwrap_or(Time::ZERO);
        let interfaces = ways.iter().map(|way| {
            let end = &graph.ends[way.port as usize];
            let name = format!("{}-{}", graph.name(way.from), graph.name(end.node));
            (name, end.link.rate.bits_per_sec())
        });
        let file = begin(scenario, interfaces, sink).map_err(told);
        let classes = lanes.iter().map(|name| scenario.priority(name)).collect();
        Self {
            ways,
            headers: Headers::new(scenario),
            classes,
            waiting: VecDeque::new(),
            late,
            file,
        }
    }

    fn way(&self, port: u32) -> Option<(u32, &Way)> {
        (0..).zip(&self.ways).find(|(_, way)| way.port == port)
    }

    /// A frame has come to a port.
    #[inline]
    pub(crate) fn see(
        &mut self,
        now: Time,
        port: u32,
        packet: &Packet,
        stack: &Stack,
        hosts: &Hosts,
    ) {
        if let Some((interface, _)) = self.way(port) {
            let class = self.classes[usize::from(packet.lane)];
            let (bytes, len) = self.headers.of(packet, class, stack, hosts);
            self.put(now, Frame { time: now, interface, len, bytes });
        }
    }

    /// What a frame of PFC says takes effect on the transmitter of a port.
    pub(crate) fn see_pause(&mut self, now: Time, port: u32, lanes: u8, paused: u8) {
        if let Some((interface, way)) = self.way(port) {
            let mut told = ClassMap([None; Class::COUNT]);
            for (lane, class) in
                self.classes.iter().enumerate().filter(|(lane, _)| lanes & 1 << lane != 0)
            {
                told[*class] = Some(if paused & 1 << lane != 0 { way.quanta } else { 0 });
            }
            let bytes = frame::pause(way.from, &told);
            let time = now - way.late;
            self.put(now, Frame { time, interface, len: bytes.len() as u32, bytes });
        }
    }

    /// Has a frame wait for those that were before it, and writes those that none can be before any
    /// more.
    fn put(&mut self, now: Time, frame: Frame) {
        let place = self.waiting.partition_point(|it| it.time <= frame.time);
        self.waiting.insert(place, frame);
        while let Some(frame) = self.waiting.pop_front_if(|it| it.time + self.late < now) {
            self.write(frame);
        }
    }

    fn write(&mut self, frame: Frame) {
        let Ok(file) = &mut self.file else { return };
        let block = EnhancedPacketBlock {
            interface_id: frame.interface,
            timestamp: Duration::from_nanos(frame.time.as_nanos()),
            original_len: frame.len,
            data: frame.bytes.into(),
            options: Vec::new(),
        };
        if let Err(error) = file.write_pcapng_block(block) {
            self.file = Err(told(error));
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    ///
    /// If that, or anything before it, could not be written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        while let Some(frame) = self.waiting.pop_front() {
            self.write(frame);
        }
        self.file?.into_inner().flush()
    }
}

/// The file's beginning: who writes it, and its interfaces, each with its name and bits a second.
fn begin(
    scenario: &Scenario,
    interfaces: impl Iterator<Item = (String, u64)>,
    sink: Sink,
) -> Result<PcapNgWriter<BufWriter<Sink>>, PcapNgWriteError> {
    let zovn = concat!("zovn ", env!("CARGO_PKG_VERSION"));
    let section = SectionHeaderBlock {
        options: vec![
            SectionHeaderOption::Hardware(format!("simulated: {}", scenario.name).into()),
            SectionHeaderOption::UserApplication(zovn.into()),
        ],
        ..SectionHeaderBlock::default()
    };
    let mut file = PcapNgWriter::with_section_header(BufWriter::new(sink), section)?;
    for (name, rate) in interfaces {
        let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, frame::LONGEST);
        interface.options = vec![
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfSpeed(rate),
            InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            // Without check sequences.
            InterfaceDescriptionOption::IfFcsLen(0),
        ];
        file.write_block(&interface.into_block())?;
    }
    Ok(file)
}

/// The system's reason.
fn told(error: PcapNgWriteError) -> io::Error {
    match error {
        PcapNgWriteError::Io(error) => error,
        error => io::Error::other(error),
    }
}
