//! DPDK's own forwarder, dpdk-testpmd: as a switch that reads no frame, and as front-ends that send
//! and receive.
//!
//! It is told what to do over its standard input, one command a line, and has done it when it
//! prompts for the next. It keeps its memory to itself (`--in-memory`), takes no device of the
//! host's (`--no-pci`), and ends with its input.

use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command};

use units::Mac;

use super::{Port, Rig, telemetry};
use crate::program::{Program, find, first};
use crate::site::Ground;
use crate::{DeviceCounters, LabError};

const PROGRAM: &str = "dpdk-testpmd";
const PACKAGE: &str = "dpdk-dev";
const PROMPT: &str = "testpmd> ";

/// What it says of a command that it does not understand.
const REFUSALS: [&str; 3] = ["Command not found", "Bad arguments", "Ambiguous command"];

/// Memory of one process: buffers for twice what eight ports can hold in their rings.
const MEMORY_MIB: u32 = 128;
const BUFFERS: u32 = 32_768;

/// Places in a virtqueue: the most that a virtual machine can have, and what Open vSwitch's guide
/// asks for.
const QUEUE: u32 = 1024;

/// A testpmd that runs, until it is dropped.
#[derive(Debug)]
pub struct Testpmd<'a> {
    ground: &'a Ground<'a>,
    program: Program,
    input: ChildStdin,
    telemetry: PathBuf,
    prompts: usize,
}

/// Front-ends of a switch's ports, all served by one core.
#[derive(Clone, Copy, Debug)]
pub struct FrontEnds<'a> {
    /// What the process is called; no other of the rig has that name.
    pub name: &'static str,
    /// Its core.
    pub core: usize,
    /// The ports.
    pub ports: &'a [Port],
    /// Whom the front-end of each port sends to.
    pub peers: &'a [Mac],
    /// Bytes of a frame that it sends, without checksum.
    pub size: u32,
    /// Whether each frame is of another flow than the one before, by its UDP port.
    pub many_flows: bool,
    /// How often it reads memory for each frame that it receives when it is [`Forwarding::Noisy`].
    pub reads: u32,
}

/// What a testpmd does with its ports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Forwarding {
    /// Each frame goes out of the other port of its pair, as it came.
    Io,
    /// Each port sends all it can, and receives nothing.
    Send,
    /// Each port receives, and sends nothing.
    Receive,
    /// As [`Forwarding::Io`], after reading memory for each frame: a slow receiver.
    Noisy,
}

impl<'a> Testpmd<'a> {
    /// Huge pages of 2 MiB that a process takes.
    pub const PAGES: u64 = MEMORY_MIB as u64 / 2;

    /// Starts one as a switch between two ports. It forwards already.
    ///
    /// # Errors
    ///
    /// [`LabError`]; nothing of it is left then.
    pub fn switch(rig: &'a Rig<'_>, ports: &[Port; 2]) -> Result<Self, LabError> {
        let devices = ports.iter().enumerate().map(|(number, Port { socket, .. })| {
            format!("net_vhost{number},iface={},client=1", socket.display())
        });
        // What it tells of its time it would keep in a buffer.
        let mut unbuffered = first("stdbuf".as_ref());
        unbuffered.arg("--output=L").arg(program()?);
        let command = command(unbuffered, rig.core, devices, &["--record-core-cycles".to_owned()]);
        let mut switch = Self::start(&rig.ground, "switch", command)?;
        switch.tell("start")?;
        Ok(switch)
    }

    /// Starts one with front-ends of these ports. Returns once each is connected to the switch.
    ///
    /// # Errors
    ///
    /// [`LabError`]; nothing of it is left then.
    pub fn front_ends(rig: &'a Rig<'_>, ends: &FrontEnds<'_>) -> Result<Self, LabError> {
        let devices = ends.ports.iter().enumerate().map(|(number, Port { socket, mac, .. })| {
            // Buffers that are not merged, used in order: the cheapest that virtio has.
            let cheap = "mrg_rxbuf=0,in_order=1";
            let path = socket.display();
            format!(
                "net_virtio_user{number},path={path},server=1,mac={mac},queue_size={QUEUE},{cheap}"
            )
        });
        let mut arguments = vec![format!("--txpkts={}", ends.size)];
        let peers = ends.peers.iter().enumerate();
        arguments.extend(peers.map(|(number, peer)| format!("--eth-peer={number},{peer}")));
        if ends.many_flows {
            arguments.push("--txonly-multi-flow".into());
        }
        let mut devices: Vec<_> = devices.collect();
        if ends.reads > 0 {
            // What has been read goes there.
            devices.push("net_null0,no-rx=1".into());
            arguments.push("--noisy-lkup-memory=16".into());
            arguments.push(format!("--noisy-lkup-num-reads={}", ends.reads));
        }
        let command = command(Command::new(program()?), ends.core, devices.into_iter(), &arguments);
        Self::start(&rig.ground, ends.name, command)
    }

    /// Ticks of the time stamp counter that a switch has spent on frames, looking in vain left out.
    ///
    /// # Errors
    ///
    /// As [`Testpmd::forward`].
    pub fn busy_cycles(&mut self) -> Result<u64, LabError> {
        let said = self.ask("show fwd stats all")?;
        // It says nothing of them until there are some.
        Ok(busy_cycles(&said).unwrap_or(0))
    }

    /// Whether there is one on this machine.
    ///
    /// # Errors
    ///
    /// [`LabError::Missing`]
    pub fn check() -> Result<(), LabError> {
        program().map(drop)
    }

    /// Lets it do this with its ports, from now on.
    ///
    /// # Errors
    ///
    /// [`LabError::Program`] if it ended or understood something else.
    pub fn forward(&mut self, forwarding: Forwarding) -> Result<(), LabError> {
        let word = match forwarding {
            Forwarding::Io => "io",
            Forwarding::Send => "txonly",
            Forwarding::Receive => "rxonly",
            Forwarding::Noisy => "noisy",
        };
        self.tell(&format!("set fwd {word}"))?;
        self.tell("start")
    }

    /// Lets each port send this many bursts of 32 frames, and then forwards whatever comes as
    /// [`Forwarding::Io`] does.
    ///
    /// # Errors
    ///
    /// As [`Testpmd::forward`].
    pub fn circulate(&mut self, bursts: u32) -> Result<(), LabError> {
        self.tell("set fwd io")?;
        self.tell(&format!("start tx_first {bursts}"))
    }

    /// Lets it do nothing; what is in its ports' rings stays there.
    ///
    /// # Errors
    ///
    /// As [`Testpmd::forward`].
    pub fn stop(&mut self) -> Result<(), LabError> {
        self.tell("stop")
    }

    /// Whether each port of a switch has its front-end: what goes to one that has none yet is
    /// dropped.
    ///
    /// # Errors
    ///
    /// As [`Testpmd::counters`].
    pub fn is_connected(&self) -> Result<bool, LabError> {
        let is_up = |device| {
            telemetry::is_up(&self.telemetry, device).map_err(LabError::file(&self.telemetry))
        };
        Ok(is_up(0)? && is_up(1)?)
    }

    /// What a switch's ports have counted. `tx_dropped` are the frames that came for a port and
    /// found no room there; it is exact once nothing moves.
    ///
    /// # Errors
    ///
    /// As [`Testpmd::counters`].
    pub fn switched(&self) -> Result<[DeviceCounters; 2], LabError> {
        let mut ports = [self.counters(0)?, self.counters(1)?];
        // Its devices count no frames that they did not take: what came at one port and did not
        // leave by the other was dropped in between, where nothing else can happen to it.
        for (here, there) in [(0, 1), (1, 0)] {
            ports[here].tx_dropped = ports[there].rx_packets.saturating_sub(ports[here].tx_packets);
        }
        Ok(ports)
    }

    /// What one of its devices has counted, from 0 in the order of its ports, as this process sees
    /// it.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] if it does not answer over its socket.
    pub fn counters(&self, device: usize) -> Result<DeviceCounters, LabError> {
        telemetry::counters(&self.telemetry, device).map_err(LabError::file(&self.telemetry))
    }

    fn start(
        ground: &'a Ground<'a>,
        name: &'static str,
        mut command: Command,
    ) -> Result<Self, LabError> {
        let runtime = ground.directory.join(format!("{name}.run"));
        std::fs::create_dir_all(&runtime).map_err(LabError::file(&runtime))?;
        let telemetry = runtime.join(telemetry::SOCKET);
        command.env("RUNTIME_DIRECTORY", &runtime);
        let (program, input) = Program::start_told(ground, name, command)?;
        let testpmd = Self { ground, program, input, telemetry, prompts: 1 };
        testpmd.wait()?;
        Ok(testpmd)
    }

    /// Tells it to do something, and returns once it has.
    fn tell(&mut self, order: &str) -> Result<(), LabError> {
        self.ask(order).map(drop)
    }

    /// The same, for what it says.
    fn ask(&mut self, order: &str) -> Result<String, LabError> {
        let heard = self.program.said().len();
        // One that has ended does not listen; waiting for it tells why.
        let _ = writeln!(self.input, "{order}");
        self.prompts += 1;
        self.wait()?;
        let said = self.program.said();
        match REFUSALS.iter().find(|refusal| said[heard..].contains(*refusal)) {
            None => Ok(said[heard..].to_owned()),
            Some(refusal) => Err(self.program.failed(format!("`{order}`: {refusal}"))),
        }
    }

    fn wait(&self) -> Result<(), LabError> {
        self.program.wait_until(self.ground, || {
            Ok(self.program.said().matches(PROMPT).count() >= self.prompts)
        })
    }
}

impl Drop for Testpmd<'_> {
    fn drop(&mut self) {
        // Its rig ends it otherwise.
        let _ = self.program.end();
    }
}

fn program() -> Result<PathBuf, LabError> {
    find(PROGRAM).ok_or(LabError::Missing { program: PROGRAM, package: PACKAGE })
}

/// The cycles of `CPU cycles/packet=81.20 (total cycles=8120 / total io packets=100) at 2600 MHz
/// Clock`. Later versions call them busy, which they are: a burst without a frame does not count.
fn busy_cycles(said: &str) -> Option<u64> {
    let (_, behind) = said.rsplit_once(" cycles=")?;
    behind.split(' ').next()?.parse().ok()
}

fn command(
    mut command: Command,
    core: usize,
    devices: impl Iterator<Item = String>,
    arguments: &[String],
) -> Command {
    // The first thread reads orders and sleeps; the second is the one that forwards.
    command.arg(format!("--lcores=0@{core},1@{core}")).arg("--main-lcore=0");
    command.args([
        "--in-memory",
        "--single-file-segments",
        "--no-pci",
        "-m",
        &MEMORY_MIB.to_string(),
    ]);
    // One line a message of vhost-user's would be half of the log.
    command.arg("--log-level=lib.vhost.config:warning");
    for device in devices {
        command.arg("--vdev").arg(device);
    }
    command.args(["--", "--interactive", "--nb-cores=1"]);
    command.arg(format!("--total-num-mbufs={BUFFERS}"));
    command.args([format!("--rxd={QUEUE}"), format!("--txd={QUEUE}")]);
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cycles_are_read() {
        for word in ["total", "busy"] {
            let said = format!(
                "\n  CPU cycles/packet=81.20 ({word} cycles=8120 / total io packets=100) at 2600 MHz"
            );
            assert_eq!(busy_cycles(&said), Some(8120));
        }
        assert_eq!(busy_cycles("TX-total: 0"), None);
    }
}
