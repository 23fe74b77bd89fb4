//! One question: bytes in, bytes out.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::refusals::Refusals;
use super::scheduler::Scheduler;
use super::{extender, nova};

/// What is asked over HTTP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question {
    /// Which nodes take a pod.
    Filter,
    /// Which are best.
    Prioritize,
    /// Which hosts take a server of Nova.
    Hosts,
}

/// Reads a question, and answers it.
///
/// # Errors
///
/// It is not understood.
pub fn respond(
    question: Question,
    body: &[u8],
    now: Duration,
    scheduler: &mut Scheduler<'_>,
) -> Result<(Vec<u8>, Refusals), serde_json::Error> {
    let mut refusals = Refusals::default();
    let answer = match question {
        Question::Filter => written(&extender::filter(read(body)?, now, scheduler, &mut refusals)),
        Question::Prioritize => written(&extender::prioritize(read(body)?, now, scheduler)),
        Question::Hosts => written(&nova::hosts(read(body)?, now, scheduler, &mut refusals)),
    };
    Ok((answer, refusals))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(body)
}

fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("names and numbers are JSON")
}
