//! Captured frames as a pcapng file (draft-ietf-opsawg-pcapng), generated while it is read.
//!
//! ```text
//! Reader ─chunks─▶ File: a block for each frame, an interface for each place ─▶ the body of an HTTP answer
//! ```

use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::{Body, Bytes, Frame};
use kernel::{clock, heap};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use plane::taps::{Caught, Chunk, Direction, Reader};
use tokio::time::{Sleep, sleep};
use units::{Instant, Span};
use wire::Offload;

/// The direction of a frame: the lowest two bits of `epb_flags` (§4.3.1).
const INBOUND: u32 = 0b01;
const OUTBOUND: u32 = 0b10;

/// A pcapng file that continues as long as the capture.
pub(crate) struct File {
    reader: Reader,
    writer: PcapNgWriter<Vec<u8>>,
    /// The time of day at the clock's origin.
    epoch: Duration,
    /// The last written counts of frames that found no room, by interface.
    dropped: Vec<u64>,
    end: Option<Pin<Box<Sleep>>>,
    /// The last field: when it is dropped, what the others had is freed.
    _memory: Memory,
}

/// Memory for frames that wait to be read, which a capture takes much of.
struct Memory;

impl Drop for Memory {
    fn drop(&mut self) {
        heap::return_freed();
    }
}

impl File {
    /// A file of what `reader` captures, for this long.
    pub(crate) fn new(reader: Reader, duration: Option<Span>) -> Self {
        let zovn = concat!("zovn ", env!("CARGO_PKG_VERSION"));
        let options = vec![SectionHeaderOption::UserApplication(zovn.into())];
        let section = SectionHeaderBlock { options, ..SectionHeaderBlock::default() };
        let writer = PcapNgWriter::with_section_header(Vec::new(), section).expect(FITS);
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = today.saturating_sub(since_boot(clock::now()));
        let end = duration.map(|duration| Box::pin(sleep(duration.into())));
        Self { reader, writer, epoch, dropped: Vec::new(), end, _memory: Memory }
    }

    fn put(&mut self, chunk: Chunk) {
        for place in chunk.places {
            self.put_interface(place);
        }
        let mut bytes = chunk.bytes.as_slice();
        for caught in chunk.frames {
            let (own, rest) = bytes.split_at(caught.kept);
            bytes = rest;
            self.put_frame(caught, own);
        }
        for (interface, dropped) in chunk.dropped {
            let told = mem::replace(&mut self.dropped[interface as usize], dropped);
            if told != dropped {
                let options = vec![InterfaceStatisticsOption::IsbIfDrop(dropped)];
                let timestamp = self.epoch + since_boot(clock::now());
                let block =
                    InterfaceStatisticsBlock { interface_id: interface, timestamp, options };
                self.write(block);
            }
        }
    }

    fn put_interface(&mut self, name: String) {
        // This is no limit: each frame states its own length.
        let mut block = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
        block.options = vec![
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            // Frames have no check sequence.
            InterfaceDescriptionOption::IfFcsLen(0),
        ];
        self.dropped.push(0);
        self.write(block);
    }

    fn put_frame(&mut self, caught: Caught, bytes: &[u8]) {
        let Caught { at, place, len, way, offload, refused, .. } = caught;
        let comment =
            |text: String| EnhancedPacketOption::Common(CommonOption::Comment(text.into()));
        let flags = way.map(|way| {
            EnhancedPacketOption::Flags(if way == Direction::In { INBOUND } else { OUTBOUND })
        });
        let comments = [refused, left_to_do(&offload)].into_iter().flatten().map(comment);
        self.write(EnhancedPacketBlock {
            interface_id: place,
            timestamp: self.epoch + since_boot(at),
            original_len: len as u32,
            data: bytes.into(),
            options: flags.into_iter().chain(comments).collect(),
        });
    }

    fn write<'a>(&mut self, block: impl PcapNgBlock<'a>) {
        self.writer.write_pcapng_block(block).expect(FITS);
    }
}

const FITS: &str =
    "memory takes what is written, and each block is of an interface that was told of";

impl Body for File {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let file = &mut *self;
        // The first chunk is the beginning of the file.
        while file.writer.get_ref().is_empty() {
            if file.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready()) {
                return Poll::Ready(None);
            }
            match ready!(file.reader.poll(context)) {
                Some(chunk) => file.put(chunk),
                None => return Poll::Ready(None),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(mem::take(file.writer.get_mut()).into()))))
    }
}

fn since_boot(at: Instant) -> Duration {
    Duration::from_nanos(at.as_nanos())
}

/// The offloads that a frame's receiver still has to do, as a sentence; `None` if there are none.
fn left_to_do(offload: &Offload) -> Option<String> {
    let sum = offload.checksum.map(|sum| {
        format!(
            "its checksum is to be computed from byte {} on, and put {} bytes behind that",
            sum.start, sum.offset
        )
    });
    let cut = offload.segment.map(|segment| {
        format!(
            "it is to be cut into segments of {} bytes behind {} of headers",
            segment.size, segment.header_len
        )
    });
    let all: Vec<_> = [sum, cut].into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("left to its receiver: {}", all.join("; ")))
}
