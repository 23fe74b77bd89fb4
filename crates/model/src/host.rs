//! A host's declaration: its agent's settings and the ports it starts with.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Span};

use crate::{ClassKind, PortName, PortSpec};

/// Where an agent listens unless it is told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/zovn/agent.sock";

/// `host.toml`: everything that `zovn agent` is told at its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// The agent itself.
    pub agent: AgentSettings,
    /// The ports that are attached at the start.
    #[serde(rename = "port")]
    pub ports: Vec<PortSpec>,
}

/// How the agent runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// Where the local API listens.
    pub socket: String,
    /// When the switch's thread polls and when it sleeps.
    pub polling: Polling,
    /// How long an adaptive thread goes on polling after its last work.
    pub spin: Span,
    /// How long what is held at the end may take to reach its receivers.
    pub drain: Span,
    /// What each of the eight classes promises, class 0 first.
    pub classes: [ClassKind; 8],
    /// The class of each 802.1p priority of a tagged frame, priority 0 first (802.1Q §6.9.4).
    pub priorities: [Class; 8],
    /// How long a receiver may take nothing while frames wait for it before it is declared stalled.
    pub stall_after: Span,
    /// How long a learned address is kept after its last frame (802.1Q §8.8.3).
    pub mac_age: Span,
    /// Hold a UDP flow while its last socket is full, where the kernel lets us see that.
    pub udp_gate: bool,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            socket: DEFAULT_SOCKET.into(),
            polling: Polling::Adaptive,
            spin: Span::from_micros(50),
            drain: Span::from_secs(5),
            classes: [ClassKind::Lossless; 8],
            priorities: core::array::from_fn(|priority| Class::from_low_bits(priority as u8)),
            stall_after: Span::from_secs(10),
            mac_age: Span::from_secs(300),
            udp_gate: true,
        }
    }
}

/// When the switch's thread polls and when it sleeps.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Polling {
    /// Spin while there is work and a little longer; sleep on events when there is none.
    #[default]
    Adaptive,
    /// Never sleep: for a core that the switch has to itself.
    Always,
}

/// Why a declaration cannot stand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidConfig {
    /// Two ports share a name.
    #[error("port `{0}` is declared twice: give each port its own name")]
    DuplicatePort(PortName),
    /// Two ports share an Ethernet address.
    #[error("port `{port}`: Ethernet address {mac} is port `{owner}`'s already: keep it for one of them")]
    DuplicateMac {
        /// The later port.
        port: PortName,
        /// The address.
        mac: Mac,
        /// The earlier port.
        owner: PortName,
    },
    /// Two ports share a virtual machine's socket.
    #[error("port `{port}`: socket {socket} is port `{owner}`'s already: each virtual machine has its own")]
    DuplicateSocket {
        /// The later port.
        port: PortName,
        /// The socket's path.
        socket: String,
        /// The earlier port.
        owner: PortName,
    },
    /// The agent's settings are wrong by themselves: what is wrong, and what to write instead.
    #[error("agent: {0}")]
    Agent(&'static str),
    /// A port is wrong by itself.
    #[error("port `{port}`: {what}")]
    Port {
        /// Which port.
        port: PortName,
        /// What is wrong, and what to write instead.
        what: &'static str,
    },
}

impl HostConfig {
    /// Whether the declaration can stand as a whole.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] says what cannot, and of ports the first.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        if self.agent.stall_after == Span::ZERO {
            return Err(InvalidConfig::Agent(
                "every receiver would be stalled at once: raise `stall_after` above 0",
            ));
        }
        for (place, port) in self.ports.iter().enumerate() {
            port.check()?;
            self.ports[..place].iter().try_for_each(|earlier| port.check_beside(earlier))?;
        }
        Ok(())
    }
}
