//! The classes of packets without a tag, by their code points (RFC 2474).

use units::{Class, ClassMap, Dscp};
use wire::Layout;
use wire::ethernet::{Peek, Tag};

/// Which class a code point stands for.
#[derive(Debug)]
pub(crate) struct CodePoints([Option<Class>; Dscp::COUNT]);

impl CodePoints {
    /// Those of these classes; all others stand for none.
    pub fn new(dscp: &ClassMap<Dscp>) -> Self {
        let mut classes = [None; Dscp::COUNT];
        dscp.iter().for_each(|(class, dscp)| classes[dscp.index()] = Some(class));
        Self(classes)
    }

    /// What the switch is to go by, of a frame of `len` bytes whose headers are in `head`: its
    /// class is as if a tag said so.
    pub fn tag(&self, header: Peek, head: &[u8], len: usize) -> Peek {
        if header.tag().is_some() {
            return header;
        }
        let traffic_class =
            Layout::of_head(head, len).and_then(|layout| layout.traffic_class(head));
        let class = traffic_class.and_then(|traffic_class| self.0[Dscp::of(traffic_class).index()]);
        class.map_or(header, |class| header.with_tag(Some(Tag { class, vlan: 0 })))
    }
}
