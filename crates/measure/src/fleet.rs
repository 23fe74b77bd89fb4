//! Endpoint programs as their parent sees them: started in a lab's namespaces, told, asked, and
//! never left behind.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use lab::Lab;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;

use crate::endpoint::{Event, Order, Role};
use crate::{Bench, MeasureError};

/// How long a program may take to open its sockets.
const READY: Duration = Duration::from_secs(30);

/// How often a wait looks whether the user wants to stop.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A program that runs in an endpoint. Dropped, it is dead.
pub struct Program {
    endpoint: String,
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    unread: Vec<u8>,
}

impl Program {
    /// Starts `role` in `endpoint` of `lab`. It is not ready yet.
    pub fn start(
        bench: &Bench<'_>,
        lab: &Lab,
        endpoint: &str,
        role: &Role,
    ) -> Result<Self, MeasureError> {
        let failed = |why: String| MeasureError::Program { endpoint: endpoint.to_owned(), why };
        let role = serde_json::to_string(role).map_err(|error| failed(error.to_string()))?;
        let mut command = lab.command(endpoint, &bench.program)?;
        command.args(["endpoint", &role]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A group of its own: an interrupt from the terminal reaches us alone, and we end it.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for as pipes")
        };
        Ok(Self { endpoint: endpoint.to_owned(), child, stdin, stdout, unread: Vec::new() })
    }

    /// Waits until the program is ready.
    pub fn ready(&mut self, bench: &Bench<'_>) -> Result<(), MeasureError> {
        match self.event(bench, READY)? {
            Event::Ready => Ok(()),
            Event::Failed(why) => Err(self.failed(why)),
            Event::Report(_) => Err(self.failed("it reported before it was started".into())),
        }
    }

    /// Tells the program to begin or to end.
    pub fn tell(&mut self, order: Order) -> Result<(), MeasureError> {
        let line = serde_json::to_string(&order).map_err(|error| self.failed(error.to_string()))?;
        writeln!(self.stdin, "{line}").map_err(|error| self.failed(error.to_string()))
    }

    /// Waits for the program's report, `patience` at most.
    pub fn report<R: DeserializeOwned>(
        &mut self,
        bench: &Bench<'_>,
        patience: Duration,
    ) -> Result<R, MeasureError> {
        match self.event(bench, patience)? {
            Event::Report(report) => {
                serde_json::from_value(report).map_err(|error| self.failed(error.to_string()))
            }
            Event::Failed(why) => Err(self.failed(why)),
            Event::Ready => Err(self.failed("it was ready twice".into())),
        }
    }

    /// The next line that the program says.
    fn event(&mut self, bench: &Bench<'_>, patience: Duration) -> Result<Event, MeasureError> {
        let asked = Instant::now();
        let mut seen = 0;
        loop {
            // A long report comes in many pieces: each is looked through once.
            if let Some(end) = self.unread[seen..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=seen + end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|error| self.failed(error.to_string()));
            }
            seen = self.unread.len();
            bench.go_on()?;
            if asked.elapsed() > patience {
                return Err(self.failed(format!("it said nothing for {} s", patience.as_secs())));
            }
            let mut waiting = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut waiting, Some(&GLANCE)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(self.failed(error.to_string())),
            }
            let mut piece = [0; 1 << 14];
            match self.stdout.read(&mut piece) {
                Ok(0) => return Err(self.failed("it ended without a report".into())),
                Ok(count) => self.unread.extend_from_slice(&piece[..count]),
                Err(error) => return Err(self.failed(error.to_string())),
            }
        }
    }

    fn failed(&self, why: String) -> MeasureError {
        MeasureError::Program { endpoint: self.endpoint.clone(), why }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until all of them are ready, then starts them in their order.
pub fn start_all(bench: &Bench<'_>, programs: &mut [Program]) -> Result<(), MeasureError> {
    for program in &mut *programs {
        program.ready(bench)?;
    }
    programs.iter_mut().try_for_each(|program| program.tell(Order::Start))
}

/// Tells all of them to end.
pub fn finish_all(programs: &mut [Program]) -> Result<(), MeasureError> {
    programs.iter_mut().try_for_each(|program| program.tell(Order::Finish))
}
