//! A controller of its own: `zovn controller` in a folder that is gone with the experiment.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use api::{Asked, Remote, RemoteClient};
use hyper::Method;
use kernel::spawn;

use super::proofs::Proofs;
use crate::{Bench, MeasureError};

/// Where objects are declared together.
const APPLY: &str = "/v1/apply";

/// How long a controller may take until it serves.
const PATIENCE: Duration = Duration::from_secs(300);

/// A controller that runs. It is killed when this is dropped: what it has answered is in its
/// folder.
pub struct Controller {
    child: Child,
    client: RemoteClient,
    metrics: RemoteClient,
    /// Where agents connect.
    pub agents: SocketAddr,
    /// How long it took until it served.
    pub began: Duration,
}

/// What a controller has used, and what it counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub cpu_s: f64,
    pub rss_bytes: u64,
    pub tuples: u64,
    /// Bytes of the tuples that it had when it began to serve.
    pub tuple_bytes: u64,
    pub flows: u64,
    pub wakes: u64,
    /// Updates that agents have not taken.
    pub refusals: u64,
    /// The time that it has computed in, in seconds.
    pub computed_s: f64,
}

/// What is said where a controller does what it should not.
pub fn failed(why: impl ToString) -> MeasureError {
    MeasureError::Program { endpoint: "the controller".into(), why: why.to_string() }
}

/// A token of an operator, who may declare everything to the controller of a folder.
pub fn token(bench: &Bench<'_>, folder: &Path) -> Result<String, MeasureError> {
    let mut command = Command::new(&bench.program);
    command.args(["controller", "token", "create", "measure", "--role", "admin", "--data"]);
    let made = command.arg(folder).stdin(Stdio::null()).output().map_err(failed)?;
    match made.status.success() {
        true => Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned()),
        false => Err(failed(String::from_utf8_lossy(&made.stderr).trim())),
    }
}

impl Controller {
    /// Starts one and waits until it serves. `agents`: where agents connect. Without proofs nothing
    /// is encrypted, and nobody is asked who they are.
    pub fn start(
        bench: &Bench<'_>,
        folder: &Path,
        proofs: Option<&Proofs>,
        agents: Option<SocketAddr>,
    ) -> Result<Self, MeasureError> {
        let agents = agents.map_or("127.0.0.1:0".into(), |it| it.to_string());
        let begun = Instant::now();
        let mut command = Command::new(&bench.program);
        command
            .args(["controller", "--log-format", "json", "--log", "info,southbound=warn"])
            .args(proofs.map_or_else(|| vec!["--open".into()], Proofs::arguments))
            .args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--agents", &agents])
            .arg("--data")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // An interrupt from the terminal reaches us alone, and we end it.
            .process_group(0);
        let mut child = spawn::dies_with_parent(&mut command).spawn().map_err(failed)?;
        let lines = lines(&mut child);
        let served = loop {
            let line = lines.recv_timeout(Duration::from_millis(100));
            let is_late = begun.elapsed() > PATIENCE || bench.go_on().is_err();
            match line.map(|it| (serving(&it), it)) {
                Ok((Some(served), _)) => break Ok(served),
                Ok((None, line)) if line.contains("\"ERROR\"") => break Err(failed(line)),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    break Err(failed("it ends before it serves"));
                }
                _ if is_late => break bench.go_on().and(Err(failed("it does not serve"))),
                _ => {}
            }
        };
        let began = begun.elapsed();
        let made = served.and_then(|it| {
            let open = |at| Remote { server: format!("http://{at}"), tls: None, token: None };
            let remote = match proofs.map(Proofs::operator) {
                None => open(it.listen),
                Some((tls, token)) => {
                    let server = format!("https://{}", it.listen);
                    Remote { server, tls: Some(tls), token: Some(token) }
                }
            };
            let client = |remote| RemoteClient::new(remote).map_err(failed);
            Ok((client(remote)?, client(open(it.metrics))?, it.agents))
        });
        match made {
            Ok((client, metrics, agents)) => Ok(Self { child, client, metrics, agents, began }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Has objects be declared. The revision that does it.
    pub fn apply(&self, query: &str, objects: String) -> Result<u64, MeasureError> {
        let path = format!("{APPLY}{query}");
        let (method, body) = (Method::POST, objects.into_bytes());
        let asked = Asked { method, path, if_match: None, body };
        let applied: serde_json::Value = self.client.ask(asked).map_err(failed)?;
        applied["revision"].as_u64().ok_or_else(|| failed("it tells no revision"))
    }

    /// Has the object of a path be changed by a JSON patch. The revision that does it.
    pub fn patch(&self, path: String, patch: String) -> Result<u64, MeasureError> {
        let tag = self.client.patch(path, patch.into_bytes()).map_err(failed)?;
        let revision = tag.trim_matches('"').strip_prefix('r').and_then(|it| it.parse().ok());
        revision.ok_or_else(|| failed("it tells no revision"))
    }

    /// The newest revision that agents are told of.
    pub fn revision(&self) -> Result<u64, MeasureError> {
        Ok(self.counts()?("told_revision") as u64)
    }

    /// The value of each of its metrics, by name: the sum over its labels.
    fn counts(&self) -> Result<impl Fn(&str) -> f64, MeasureError> {
        let page = self.metrics.text(api::METRICS).map_err(failed)?;
        Ok(move |name: &str| {
            let name = format!("zovn_controller_{name}");
            let values = page.lines().filter_map(|line| {
                let (named, value) = line.rsplit_once(' ')?;
                (named.split('{').next() == Some(&name)).then(|| value.parse::<f64>().ok())?
            });
            values.sum()
        })
    }

    /// What it has used so far. `rss_bytes` is the most since [`Controller::forget_most`].
    pub fn used(&self) -> Result<Used, MeasureError> {
        let value = self.counts()?;
        let proc = |name: &str| fs::read_to_string(self.proc(name)).map_err(failed);
        let stat = proc("stat")?;
        // proc_pid_stat(5): `utime` and `stime` are the 14th and 15th, in ticks of 10 ms.
        let fields = stat.rsplit_once(')').map(|(_, it)| it).unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|it| it.parse::<f64>().ok()).sum();
        let status = proc("status")?;
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(Used {
            cpu_s: ticks / 100.0,
            rss_bytes: most.unwrap_or_default() * 1024,
            tuples: value("tuples") as u64,
            tuple_bytes: value("tuple_bytes_at_start") as u64,
            flows: value("rows") as u64,
            wakes: value("wakes_total") as u64,
            refusals: value("refused_updates_total") as u64,
            computed_s: value("computing_seconds_total"),
        })
    }

    /// The most memory is counted from now on.
    pub fn forget_most(&self) {
        // proc_pid_clear_refs(5): 5 resets the peak.
        let _ = fs::write(self.proc("clear_refs"), "5");
    }

    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.id()).into()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a controller serves.
struct Serving {
    listen: SocketAddr,
    agents: SocketAddr,
    metrics: SocketAddr,
}

/// What a line of a controller's log says of that.
fn serving(line: &str) -> Option<Serving> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields").unwrap_or(&line);
    let address = |name: &str| fields.get(name)?.as_str()?.parse().ok();
    Some(Serving {
        listen: address("listen")?,
        agents: address("agents")?,
        metrics: address("metrics")?,
    })
}

/// The lines of its log, which is read to its end, so that it never waits for us.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    if let Some(log) = child.stderr.take() {
        thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    lines
}
