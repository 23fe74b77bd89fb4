//! What a guest is to be, and how QEMU is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use units::{Mac, Prefix};

use crate::guest::Image;

/// What a guest is to be.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// What errors call it.
    pub name: String,
    /// Its memory. What is in its image lies in there too.
    pub memory_mib: u32,
    /// Its processors; each is a thread of the host.
    pub vcpus: u16,
    /// Its network interfaces: `eth0`, `eth1`, …
    pub nics: Vec<Nic>,
    /// How long it may take to boot, and a program to end or to say the next line: where others
    /// have the processors, an emulated guest may stand still for half a minute.
    pub patience: Duration,
}

/// A network interface: virtio-net in front, vhost-user behind.
#[derive(Clone, Debug)]
pub struct Nic {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Where its switch is.
    pub socket: Socket,
    /// How many pairs of queues it has. Linux uses as many as there are processors.
    pub queues: u16,
    /// What it tells the guest about the network's largest packet; the guest takes 1500 if it tells
    /// nothing.
    pub mtu: Option<u16>,
    /// What the guest gives it once it has booted.
    pub addresses: Vec<Prefix>,
    /// What the guest may use, if the switch offers it as well.
    pub features: Features,
}

/// Who of the two makes the Unix socket that an interface and its switch talk over. Whoever goes
/// may come back.
#[derive(Clone, Debug)]
pub enum Socket {
    /// The guest: it boots once a switch has connected. Removed when the guest ends.
    Listens(PathBuf),
    /// The switch: the guest boots once it listens, and looks for it once a second.
    Connects(PathBuf),
}

/// The virtio features that are worth being switched one by one (virtio 1.2 §5.1.3 and §6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Features {
    /// Unfinished checksums, both ways.
    pub checksum: bool,
    /// Segments larger than the MTU, both ways; they need `checksum`.
    pub segmentation: bool,
    /// Received frames that span buffers.
    pub mergeable_buffers: bool,
    /// Descriptors that lie in tables of their own.
    pub indirect_descriptors: bool,
    /// Notifications at an index.
    pub event_index: bool,
    /// Packed virtqueues, in the place of split ones. With them QEMU 7.2 has a switch that was
    /// killed and returns begin at index 0: the interface stays dead.
    pub packed: bool,
    /// Whether the guest is told that its link is down. Without, it keeps what it sends until there
    /// is another switch.
    pub status: bool,
}

impl GuestSpec {
    /// A guest with one processor, 96 MiB and no network.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            memory_mib: 96,
            vcpus: 1,
            nics: Vec::new(),
            patience: Duration::from_secs(180),
        }
    }

    /// The sockets that the guest makes.
    pub(super) fn listens(&self) -> impl Iterator<Item = &Path> {
        self.nics.iter().filter_map(|nic| match &nic.socket {
            Socket::Listens(path) => Some(&**path),
            Socket::Connects(_) => None,
        })
    }

    /// QEMU's arguments. Of its standard descriptors, 0 is the agent's channel, 1 takes QMP, and 2
    /// what the guest's console says as well as QEMU: nothing else of it has a name that could stay
    /// behind.
    pub(super) fn arguments(&self, image: &Image) -> Vec<String> {
        let memory = self.memory_mib;
        let mut arguments: Vec<String> = [
            "-nodefaults -no-user-config -no-reboot -display none -accel tcg -cpu max",
            "-M pc,memory-backend=memory",
            "-chardev file,id=console,path=/proc/self/fd/2,append=on -serial chardev:console",
            "-chardev socket,id=qmp,fd=1 -mon chardev=qmp,mode=control",
            "-chardev socket,id=agent,fd=0 -device virtio-serial-pci -device virtserialport,chardev=agent",
        ]
        .iter()
        .flat_map(|some| some.split(' '))
        .map(String::from)
        .collect();
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("-name", escape(&self.name));
        add("-smp", self.vcpus.to_string());
        add("-m", memory.to_string());
        // The switch maps it.
        add("-object", format!("memory-backend-memfd,id=memory,size={memory}M,share=on"));
        add("-kernel", image.kernel().display().to_string());
        add("-initrd", image.initramfs().display().to_string());
        // A panic ends QEMU, as it is told not to reboot.
        add("-append", "console=ttyS0 panic=-1".into());
        for (number, nic) in self.nics.iter().enumerate() {
            let queues = nic.queues;
            add("-chardev", format!("socket,id=link{number},{}", nic.socket.options()));
            add(
                "-netdev",
                format!("vhost-user,id=net{number},chardev=link{number},queues={queues}"),
            );
            add(
                "-device",
                format!("virtio-net-pci,id=nic{number},netdev=net{number},{}", nic.options()),
            );
        }
        arguments
    }
}

impl Nic {
    /// An interface with one pair of queues and all offloads.
    pub fn new(mac: Mac, socket: Socket) -> Self {
        let features = Features::default();
        Self { mac, socket, queues: 1, mtu: None, addresses: Vec::new(), features }
    }

    fn options(&self) -> String {
        // QEMU 7.2 crashes when vhost starts under emulation and the device has interrupt vectors.
        // It looks for a boot ROM that is another package's, and nobody boots from here.
        let mut options = format!("mac={},vectors=0,disable-legacy=on,romfile=", self.mac);
        if self.queues > 1 {
            options += ",mq=on";
        }
        if let Some(mtu) = self.mtu {
            options += &format!(",host_mtu={mtu}");
        }
        for (name, is_on) in self.features.properties() {
            options += &format!(",{name}={}", if is_on { "on" } else { "off" });
        }
        options
    }
}

impl Socket {
    fn options(&self) -> String {
        match self {
            Self::Listens(path) => {
                format!("path={},server=on,wait=on", escape(&path.display().to_string()))
            }
            Self::Connects(path) => {
                format!("path={},reconnect=1", escape(&path.display().to_string()))
            }
        }
    }
}

impl Default for Features {
    /// What QEMU offers by itself: all but packed virtqueues; and not the link's state.
    fn default() -> Self {
        Self {
            checksum: true,
            segmentation: true,
            mergeable_buffers: true,
            indirect_descriptors: true,
            event_index: true,
            packed: false,
            status: false,
        }
    }
}

impl Features {
    /// QEMU's names of them.
    fn properties(self) -> BTreeMap<&'static str, bool> {
        let segmentation = self.checksum && self.segmentation;
        let offloads = ["guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"];
        let offloads =
            offloads.into_iter().chain(["host_tso4", "host_tso6", "host_ecn", "host_ufo"]);
        offloads
            .map(|name| (name, segmentation))
            .chain([
                ("csum", self.checksum),
                ("guest_csum", self.checksum),
                ("mrg_rxbuf", self.mergeable_buffers),
                ("indirect_desc", self.indirect_descriptors),
                ("event_idx", self.event_index),
                ("packed", self.packed),
                ("status", self.status),
            ])
            .collect()
    }
}

/// QEMU takes a comma for the end of an option's value, and two for one.
fn escape(value: &str) -> String {
    value.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_says_what_it_is_not_to_offer() {
        let mut nic = Nic::new(Mac::local(1), Socket::Connects("/run/a,b.sock".into()));
        nic.features.checksum = false;
        nic.features.packed = true;
        nic.mtu = Some(9000);
        let options = nic.options();
        for option in [
            "csum=off",
            "guest_csum=off",
            "host_tso4=off",
            "mrg_rxbuf=on",
            "packed=on",
            "status=off",
            "host_mtu=9000",
        ] {
            assert!(options.split(',').any(|found| found == option), "{option}: {options}");
        }
        assert_eq!(nic.socket.options(), "path=/run/a,,b.sock,reconnect=1");
    }
}
