//! The frames that are somewhere in the fabric.

use alloc::vec::Vec;

use units::Class;
use wire::ethernet::Peek;

/// A frame's number while it is here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Number(u32);

/// What is known of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<F> {
    /// Its owner's handle.
    pub handle: F,
    /// The port that it came by.
    pub from: u16,
    pub class: Class,
    /// On a wire: a large segment counts what it stands for.
    pub frames: u16,
    pub bytes: u32,
    /// `None`: not an Ethernet frame.
    pub header: Option<Peek>,
    /// Its flow's hash, where there is a choice of ways.
    pub flow: u32,
    /// Its transport reacts to marks.
    pub ecn_capable: bool,
    /// It was marked by another switch.
    pub marked: bool,
    /// The switch still has it for somebody.
    pub switched: bool,
    /// How many copies are on their way to hosts.
    pub underway: u16,
    /// A host has taken a copy, or another switch the frame.
    pub taken: bool,
    /// Another switch has it now, with its owner's memory.
    pub gone: bool,
}

/// Those that are here, by number. Free numbers are given out again.
#[derive(Debug)]
pub(crate) struct Frames<F> {
    frames: Vec<Frame<F>>,
    free: Vec<u32>,
}

impl<F> Frames<F> {
    pub fn new() -> Self {
        Self { frames: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, frame: Frame<F>) -> Number {
        if let Some(number) = self.free.pop() {
            self.frames[number as usize] = frame;
            return Number(number);
        }
        self.frames.push(frame);
        Number(self.frames.len() as u32 - 1)
    }

    pub fn get(&self, Number(number): Number) -> &Frame<F> {
        &self.frames[number as usize]
    }

    pub fn get_mut(&mut self, Number(number): Number) -> &mut Frame<F> {
        &mut self.frames[number as usize]
    }

    /// Forgets one. Its number is another's from now on.
    pub fn forget(&mut self, Number(number): Number) {
        self.free.push(number);
    }
}
