//! Where a measurement was made: what a reader must know before comparing it with another.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use crate::MeasureError;

/// The machine and its software.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// When the measurement began: UTC, RFC 3339.
    pub date: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's model.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// How the processor's frequency is governed, where the kernel says so.
    pub governor: Option<String>,
    /// How many programs wanted to run, on average over the minute before.
    pub load_1min: Option<f64>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Open vSwitch's version, if it is installed.
    pub ovs: Option<String>,
    /// Kernel settings that shape the results, where they exist.
    pub sysctls: BTreeMap<String, String>,
}

/// Settings that bound sockets, queues and TCP's repair of losses.
const SYSCTLS: &[&str] = &[
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_rto_min_us",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_wmem",
];

impl Environment {
    /// Looks around. What cannot be found out is left empty: a measurement does not fail for it.
    pub fn look() -> Self {
        let sysctls = SYSCTLS.iter().filter_map(|name| {
            let value = word(&format!("/proc/sys/{}", name.replace('.', "/")))?;
            Some(((*name).to_owned(), value.replace('\t', " ")))
        });
        Self {
            date: figures::utc(
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            ),
            kernel: word("/proc/sys/kernel/osrelease").unwrap_or_default(),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_1min: word("/proc/loadavg")
                .and_then(|loads| loads.split(' ').next()?.parse().ok()),
            memory_mib: field("/proc/meminfo", "MemTotal")
                .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
                .map(|kib| kib / 1024),
            ovs: ovs_version(),
            sysctls: sysctls.collect(),
        }
    }
}

/// A file's text without its end of line.
fn word(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The value behind `name:` in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, value) =
        text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}

/// The last word of `ovs-vswitchd (Open vSwitch) 3.1.0`.
fn ovs_version() -> Option<String> {
    let output = Command::new(lab::find("ovs-vswitchd")?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next()?.rsplit(' ').next().map(str::to_owned)
}

/// How long all processors of this machine have been busy since it began, in nanoseconds: all of
/// /proc/stat's first line but idle time and waits for disks (proc(5)), in steps of a clock tick
/// each.
pub(crate) fn busy_ns() -> Result<u64, MeasureError> {
    let told = busy_of(&stat()?, |name| name == "cpu");
    if told.1 == 1 { Ok(told.0) } else { Err(untold("it has no `cpu`")) }
}

/// The same of the processors that the calling thread may use, and how many those are.
pub(crate) fn busy_here() -> Result<(u64, usize), MeasureError> {
    let ours = sched_getaffinity(None).map_err(|error| untold(&error.to_string()))?;
    let is_ours = |name: &str| {
        let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
        number.is_some_and(|number| number < CpuSet::MAX_CPU && ours.is_set(number))
    };
    let told = busy_of(&stat()?, is_ours);
    if told.1 > 0 { Ok(told) } else { Err(untold("it has none of our processors")) }
}

fn untold(why: &str) -> MeasureError {
    MeasureError::Config(format!("cannot tell how busy the machine is by /proc/stat: {why}"))
}

fn stat() -> Result<String, MeasureError> {
    fs::read_to_string("/proc/stat").map_err(|error| untold(&error.to_string()))
}

/// How long those lines of /proc/stat say that were chosen by their names, in nanoseconds, and how
/// many they are.
fn busy_of(stat: &str, is_chosen: impl Fn(&str) -> bool) -> (u64, usize) {
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    let chosen: Vec<u64> = lines
        .filter(|(name, _)| is_chosen(name))
        .map(|(_, times)| {
            let times = times.split_whitespace().enumerate();
            let busy = times.filter(|(place, _)| !matches!(place, 3 | 4 | 8 | 9));
            busy.filter_map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
        })
        .collect();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    (chosen.iter().sum::<u64>() * tick_ns, chosen.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_cores() {
        let here = Environment::look();
        assert!(!here.kernel.is_empty());
        assert!(here.cores > 0);
        assert!(here.sysctls.contains_key("net.core.rmem_default"));
    }

    #[test]
    fn busy_times_are_those_of_the_chosen_processors() {
        let stat = "cpu  9 1 2 100 50 3 4 5 6 7\ncpu0 4 1 0 60 20 1 0 0 0 0\ncpu10 5 0 2 40 30 2 4 5 6 7\n\
                    intr 1 2\n";
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(busy_of(stat, |name| name == "cpu"), (24 * tick_ns, 1));
        assert_eq!(busy_of(stat, |name| name == "cpu10"), (18 * tick_ns, 1));
        assert_eq!(busy_of(stat, |name| name.len() > 3 && name != "intr"), (24 * tick_ns, 2));
        let (_, cores) = busy_here().unwrap();
        assert_eq!(cores, sched_getaffinity(None).unwrap().count() as usize);
    }
}
