//! What cases are run on.

use alloc::string::String;
use alloc::vec::Vec;

use units::Span;

use crate::declare::Declared;
use crate::edit::Op;
use crate::network::Network;

/// A frame, and the port that sends or gets it: `a1`, or `a1@h1` of a port that each host has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The port.
    pub port: String,
    /// The frame, from its Ethernet header on.
    pub frame: Vec<u8>,
}

/// A topology to be executed, and the write that led to it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// As the case tells it.
    pub network: &'a Network,
    /// As objects.
    pub declared: &'a Declared,
    /// The write; none at first.
    pub op: Option<&'a Op>,
}

/// A connection as its port's host knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Known {
    /// Its protocol, and its two ends, as its first packet had them.
    pub tuple: interpreter::Tuple,
    /// How far it is: `new`, `established`, `closing` or `closed`.
    pub state: &'static str,
}

/// Something that executes networks: objects alone, a compiled pipeline, hosts.
pub trait Execution {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Whether it has a capability that a case needs.
    fn can(&self, need: &str) -> bool;

    /// Whether it can let so much time go by.
    fn can_wait(&self, _span: Span) -> bool {
        true
    }

    /// Has it execute a topology from now on. It returns when that is so everywhere.
    fn realize(&mut self, wanted: Wanted<'_>) -> Result<(), String>;

    /// A port's machine sends a frame.
    fn send(&mut self, port: &str, frame: &[u8]) -> Result<(), String>;

    /// What ports' machines got since, until nothing more comes.
    fn receive(&mut self) -> Result<Vec<Seen>, String>;

    /// Time goes by.
    fn wait(&mut self, span: Span);

    /// The connections of a port.
    fn connections(&self, port: &str) -> Result<Vec<Known>, String>;

    /// What is wrong once all is over: frames that are held still, or were lost.
    fn end(&mut self) -> Result<(), String>;
}
