//! Where a running container's network is: its namespace, by its process or its engine.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// A program that runs containers. All of them answer `inspect` alike.
#[derive(Clone, Copy, Debug)]
pub enum Engine {
    Podman,
    Docker,
    Nerdctl,
}

/// Why a container's network cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    #[error("cannot run {program}: install it, or name the container's process by `--pid`")]
    NoEngine { program: &'static str, source: io::Error },
    #[error("{program} does not know container `{container}`: {said}")]
    Unknown { program: &'static str, container: String, said: String },
    #[error("container `{container}` does not run: start it first ({program} start {container})")]
    Stopped { program: &'static str, container: String },
    #[error("there is no process {pid}: the container may have ended")]
    NoProcess { pid: u32, source: io::Error },
    #[error(
        "process {pid} has the host's network: start the container with one of its own (`--network none`)"
    )]
    HostNetwork { pid: u32 },
}

impl Engine {
    const fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Nerdctl => "nerdctl",
        }
    }

    /// The network namespace of a container that runs, as a path.
    pub fn namespace(self, container: &str) -> Result<String, ContainerError> {
        let program = self.program();
        let inspect = ["inspect", "--format", "{{.State.Pid}}", "--", container];
        let answer = Command::new(program)
            .args(inspect)
            .output()
            .map_err(|source| ContainerError::NoEngine { program, source })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        let (said, error) = (text(answer.stdout), text(answer.stderr));
        let container = container.to_owned();
        match said.parse() {
            _ if !answer.status.success() => {
                let said = error.lines().last().unwrap_or("it says no more").to_owned();
                Err(ContainerError::Unknown { program, container, said })
            }
            Ok(0) | Err(_) => Err(ContainerError::Stopped { program, container }),
            Ok(pid) => namespace_of(pid),
        }
    }
}

/// The network namespace of a process, as a path.
pub fn namespace_of(pid: u32) -> Result<String, ContainerError> {
    let inode = |process: &str| {
        let path = format!("/proc/{process}/ns/net");
        fs::metadata(&path).map(|metadata| (path, metadata.ino()))
    };
    let (path, theirs) =
        inode(&pid.to_string()).map_err(|source| ContainerError::NoProcess { pid, source })?;
    match inode("self") {
        Ok((_, ours)) if ours == theirs => Err(ContainerError::HostNetwork { pid }),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_the_hosts_network_is_no_container() {
        let own = namespace_of(std::process::id()).unwrap_err();
        assert!(matches!(own, ContainerError::HostNetwork { .. }), "{own}");
        // Linux numbers processes up to 2^22 (PID_MAX_LIMIT).
        let none = namespace_of(u32::MAX).unwrap_err();
        assert!(matches!(none, ContainerError::NoProcess { .. }), "{none}");
    }
}
