//! What a fabric is told.

use alloc::vec::Vec;

use lossless::{Classes, MAX_PORTS, Scheduling};
use serde::{Deserialize, Serialize};
use units::{Bytes, Class, ClassMap, Dscp, Mac, Span};

use crate::transmitter::{FCS, SHORTEST};
use crate::{Link, Pfc, Tally, Thresholds};

/// The switch and all its links.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The ports, which are numbered from 0.
    pub ports: Vec<PortConfig>,
    /// What each class promises: those that are lossless pause their senders.
    pub classes: Classes,
    /// The code point of each class, one of its own, by which it has packets without a tag. Those
    /// with none of them, and all if absent, have their port's class.
    pub dscp: Option<ClassMap<Dscp>>,
    /// How an output chooses among its classes.
    pub scheduling: Scheduling,
    /// When senders of lossless classes are paused.
    pub pfc: Pfc,
    /// How many bytes the frames of lossy classes may take of all buffers together; as many as
    /// those have if absent.
    pub shared: Option<Bytes>,
    /// Mark what leaves while so much of its class waits behind it (RFC 3168 §5); never if absent.
    pub ecn: Option<Bytes>,
    /// How likely a frame is lost on its way to the switch, from 0 to 1. Pauses are not.
    pub loss: f64,
    /// What is lost is drawn from it.
    pub seed: u64,
    /// How long a host may pause its frames before they are refused.
    pub stall_after: Span,
    /// The ports that lead to an address, of which each flow has one (ECMP, RFC 2992). If there are
    /// any, what is for nobody of them stays with this switch's hosts; without any, addresses are
    /// learned.
    pub routes: Vec<Route>,
}

/// Where an address is.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The address.
    pub mac: Mac,
    /// The ports that lead there, one at least.
    pub ports: Vec<usize>,
}

/// A port, and the link to its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortConfig {
    /// The link.
    pub link: Link,
    /// The memory for what the host sends.
    pub buffer: Buffer,
    /// The longest frame that the host sends, in bytes, without check sequence. A large segment
    /// counts what it stands for.
    pub longest: u32,
    /// The class of frames of which neither an 802.1Q tag nor a code point tells it.
    pub class: Class,
    /// It leads to another switch instead of a host: its link's far end is a trunk of that. Only
    /// [`Fabrics`](crate::Fabrics) have any.
    pub trunk: bool,
}

/// An input's memory, for each class. Both bounds hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Buffer {
    /// The most frames of a lossy class. Lossless ones are bounded in bytes alone, as a pause is.
    pub frames: u32,
    /// The most bytes; of a lossless class with the headroom for what arrives after a pause was
    /// sent.
    pub bytes: Bytes,
}

impl Default for Buffer {
    /// The simulator's: 140 kB, and no more frames than these are if they are the shortest.
    fn default() -> Self {
        Self { frames: 2333, bytes: Bytes(140_000) }
    }
}

/// Why a fabric cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidConfig {
    /// More ports than a switch has.
    #[error("the switch has {0} ports: leave it {MAX_PORTS} or fewer")]
    TooManyPorts(usize),
    /// No probability.
    #[error("`loss` is {0}: make it a probability, from 0 to 1")]
    Loss(f64),
    /// A code point of two classes.
    #[error("`dscp` gives code point {0} to two classes: give each its own")]
    CodePoint(Dscp),
    /// A route that leads nowhere.
    #[error("no port leads to {0}: name one of the switch's")]
    Route(Mac),
    /// A port that cannot be.
    #[error("port {port}: {fault}")]
    Port {
        /// Its number.
        port: usize,
        /// Why not.
        fault: PortFault,
    },
}

/// Why a port cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PortFault {
    /// Its buffer takes no frame of so many bytes.
    #[error("its longest frame is {0} bytes and its buffer is smaller: raise `buffer`")]
    Buffer(u32),
    /// No thresholds fit into its buffer, which has to have so many bytes.
    #[error(
        "a lossless class needs {0} bytes of buffer, which are headroom and two longest frames: raise `buffer.bytes`, or lower \
         the link's `delay` or what is given in `pfc`"
    )]
    Headroom(u64),
    /// A pause would end before it can be renewed.
    #[error(
        "a pause of {expiry} is over before it can be renewed: raise `pfc.expiry` above {least}"
    )]
    Expiry {
        /// How long pauses last.
        expiry: Span,
        /// How long they have to.
        least: Span,
    },
}

impl Config {
    /// Whether it can be.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`]: the first that cannot.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        if self.ports.len() > MAX_PORTS {
            return Err(InvalidConfig::TooManyPorts(self.ports.len()));
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(InvalidConfig::Loss(self.loss));
        }
        let shared = |dscp: &ClassMap<Dscp>| {
            let twice = |(place, it): (usize, &Dscp)| dscp.0[..place].contains(it).then_some(*it);
            dscp.0.iter().enumerate().find_map(twice)
        };
        if let Some(dscp) = self.dscp.as_ref().and_then(shared) {
            return Err(InvalidConfig::CodePoint(dscp));
        }
        let leads = |route: &&Route| {
            !route.ports.is_empty() && route.ports.iter().all(|port| *port < self.ports.len())
        };
        if let Some(route) = self.routes.iter().find(|route| !leads(route)) {
            return Err(InvalidConfig::Route(route.mac));
        }
        for port in 0..self.ports.len() {
            self.check_port(port).map_err(|fault| InvalidConfig::Port { port, fault })?;
        }
        Ok(())
    }

    fn check_port(&self, port: usize) -> Result<(), PortFault> {
        let PortConfig { link, buffer, longest, .. } = self.ports[port];
        if buffer.bytes.0 < longest.into() || buffer.frames == 0 {
            return Err(PortFault::Buffer(longest));
        }
        if Class::all().all(|class| self.classes.lossy(class).is_some()) {
            return Ok(());
        }
        let frame = self.ports[port].longest_on_link();
        if self.thresholds(port).is_none() {
            return Err(PortFault::Headroom(
                self.pfc.headroom(link, frame).saturating_add(2 * frame),
            ));
        }
        // It is renewed after half of its time, behind the longest frame.
        let expiry = self.pfc.expiry(link);
        let least = link.rate.time_for(2 * (frame + 2 * (SHORTEST + FCS + link.overhead.0)));
        if expiry <= least {
            return Err(PortFault::Expiry { expiry, least });
        }
        Ok(())
    }

    /// When a port's sender is paused; `None` if its buffer is too small for that.
    pub(crate) fn thresholds(&self, port: usize) -> Option<Thresholds> {
        let PortConfig { link, buffer, .. } = self.ports[port];
        self.pfc.thresholds(link, self.ports[port].longest_on_link(), buffer.bytes.0)
    }

    /// How much of a port's host can be in the fabric at once, in buffers and on links: for so much
    /// its owner has memory, if it is never late.
    pub fn most_held(&self, port: usize) -> Tally {
        let PortConfig { buffer, longest, .. } = self.ports[port];
        let frames = Class::all().map(|class| match self.classes.lossy(class) {
            Some(_) => u64::from(buffer.frames),
            None => buffer.bytes.0 / SHORTEST,
        });
        let mut most = Tally { frames: frames.sum(), bytes: Class::COUNT as u64 * buffer.bytes.0 };
        // What comes by the port's own link leaves by any.
        for PortConfig { link, .. } in &self.ports {
            let bytes = link.rate.bytes_in(link.delay);
            most.frames += bytes / (SHORTEST + FCS + link.overhead.0) + 2;
            most.bytes += bytes + 2 * u64::from(longest);
        }
        most
    }
}

impl PortConfig {
    /// The longest frame with its check sequence.
    fn longest_on_link(&self) -> u64 {
        u64::from(self.longest) + FCS
    }
}
