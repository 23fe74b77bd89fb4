//! Where a measurement was made: what a reader must know before comparing it with another.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let failed = |why: &str| {
        MeasureError::Config(format!("cannot tell how busy the machine is by /proc/stat: {why}"))
    };
    let text = fs::read_to_string("/proc/stat").map_err(|error| failed(&error.to_string()))?;
    let times = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("cpu "))
        .ok_or_else(|| failed("it has no `cpu`"))?;
    let ticks: u64 = times
        .split_whitespace()
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4 | 8 | 9))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    Ok(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
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
}
