//! What a controller and an agent tell each other.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use model::Generation;

use crate::history::Update;
use crate::known::{Known, Name};

/// The most bytes of an update that go at once, so that no update holds up what else is to be told.
pub const CHUNK: usize = 64 << 10;

/// A chunk of an update.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// The domain.
    pub domain: Name,
    /// The update.
    pub update: Arc<Update>,
    /// Where its bytes begin in the update's body.
    pub at: usize,
}

impl Part {
    /// Its bytes, at most [`CHUNK`].
    pub fn bytes(&self) -> &[u8] {
        let rest = &self.update.body[self.at..];
        &rest[..rest.len().min(CHUNK)]
    }
}

/// A chunk of an update, as it has come.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The domain.
    pub domain: &'a Name,
    /// The generation that the update begins at; 0: nothing.
    pub from: Generation,
    /// What it leads to.
    pub to: Known,
    /// How many bytes it has in all.
    pub len: usize,
    /// Where the chunk begins in these.
    pub at: usize,
    /// The chunk.
    pub bytes: &'a [u8],
}

impl<'a> From<&'a Part> for Chunk<'a> {
    fn from(part: &'a Part) -> Self {
        let Update { from, to, digest, body } = &*part.update;
        let to = Known { generation: *to, digest: *digest };
        let (domain, len, at) = (&part.domain, body.len(), part.at);
        Self { domain, from: *from, to, len, at, bytes: part.bytes() }
    }
}

/// What a controller tells an agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ToAgent {
    /// A chunk of an update. All chunks of one follow one another.
    Part(Part),
    /// The agent has no ports in a domain any more.
    Drop(Name),
    /// All updates up to a revision of the store have been sent.
    Mark(Generation),
    /// What the controller holds a domain at the agent to be.
    Compare(Name, Known),
}

/// Why an agent does not take an update.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It does not have the generation that the update begins at.
    Base,
    /// What the update makes of its copy is not what the controller has.
    Digest,
    /// The update's bytes are none.
    Malformed,
    /// It is not newer than what the agent has.
    Older,
    /// It is longer than the agent stages, or of more domains than it has room for.
    TooLarge,
    /// Whoever executes the rows cannot execute these: why, in a sentence.
    Refused(String),
}

impl Reason {
    /// A word for each, to count them by.
    pub const WORDS: [&str; 6] = ["base", "digest", "malformed", "older", "too_large", "refused"];

    /// Its word.
    pub fn word(&self) -> &'static str {
        Self::WORDS[match self {
            Self::Base => 0,
            Self::Digest => 1,
            Self::Malformed => 2,
            Self::Older => 3,
            Self::TooLarge => 4,
            Self::Refused(_) => 5,
        }]
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "the agent has another generation than the one it begins at",
            Self::Digest => "the agent's copy would differ from the controller's",
            Self::Malformed => "its rows cannot be read",
            Self::Older => {
                "the agent has a newer generation: if this store was restored from a backup, run `zovn controller restored`"
            }
            Self::TooLarge => "the agent has no room for it",
            Self::Refused(why) => why,
        })
    }
}

/// What an agent answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// A generation of a domain is executed.
    Ack(Name, Generation),
    /// A generation of a domain is not taken; what was before it stays.
    Nack(Name, Generation, Reason),
    /// A domain is not what a controller held it to be, which was of this generation.
    Differs(Name, Generation),
}
