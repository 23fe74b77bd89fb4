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

/// What becomes of a question.
#[derive(Debug)]
pub struct Answered {
    /// The answer.
    pub body: Vec<u8>,
    /// Why hosts did not take the machine.
    pub refusals: Refusals,
    /// The model that the machine says it has, if the plan does not list it.
    pub unlisted: Option<String>,
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
) -> Result<Answered, serde_json::Error> {
    let mut refusals = Refusals::default();
    let (body, unlisted) = match question {
        Question::Filter => {
            let args: extender::Args = read(body)?;
            let unlisted = scheduler.unlisted(args.model());
            (written(&extender::filter(args, now, scheduler, &mut refusals)), unlisted)
        }
        Question::Prioritize => {
            let args: extender::Args = read(body)?;
            let unlisted = scheduler.unlisted(args.model());
            (written(&extender::prioritize(args, now, scheduler)), unlisted)
        }
        Question::Hosts => {
            let asked: nova::Asked = read(body)?;
            let unlisted = scheduler.unlisted(asked.model());
            (written(&nova::hosts(asked, now, scheduler, &mut refusals)), unlisted)
        }
    };
    Ok(Answered { body, refusals, unlisted })
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(body)
}

fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("names and numbers are JSON")
}
