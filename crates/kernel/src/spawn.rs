//! Programs that start inside a network namespace and do not outlive who started them.
//!
//! Both are a system call between fork and exec, in the child: the caller's own threads stay as
//! they are.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};
use rustix::thread::LinkNameSpaceType;

use crate::netns::Namespace;

/// Lets a command start inside a network namespace. Starting it fails if the namespace cannot be
/// entered.
pub fn inside(command: &mut Command, namespace: Namespace) -> &mut Command {
    let enter = move || {
        rustix::thread::move_into_link_name_space(
            namespace.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?;
        Ok(())
    };
    // SAFETY: after a fork only async-signal-safe calls are allowed: this is one system call on a
    // descriptor that the closure owns. Nothing is allocated, locked or dropped, in its error
    // neither.
    #[expect(unsafe_code, reason = "only the child may enter the namespace")]
    unsafe {
        command.pre_exec(enter)
    }
}

/// Lets a command be killed when the thread that starts it ends (prctl(2), PR_SET_PDEATHSIG): a
/// panic, a signal or a crash of ours leaves no orphans. Start it from a thread that lives as long
/// as the command should.
pub fn dies_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    let bind = move || bind_to(parent);
    // SAFETY: as in `inside`: two system calls and a comparison.
    #[expect(unsafe_code, reason = "a process asks for its own signal")]
    unsafe {
        command.pre_exec(bind)
    }
}

fn bind_to(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before we asked; the signal would never come then.
    if rustix::process::getppid() != Some(parent) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_command_is_inside_and_ends_with_its_starter() {
        if !needs::root() {
            return;
        }
        let name = format!("zovn-t-spawn-{}", std::process::id());
        let namespace = Namespace::create(&name).unwrap();
        let inode = namespace.inode().unwrap();
        let mut look = Command::new("readlink");
        let output =
            inside(look.arg("/proc/self/ns/net"), Namespace::open(&name).unwrap()).output();
        Namespace::delete(&name).unwrap();
        assert_eq!(
            String::from_utf8(output.unwrap().stdout).unwrap().trim(),
            format!("net:[{inode}]")
        );

        let start = || dies_with_parent(Command::new("sleep").arg("60")).spawn().unwrap();
        let mut orphan = std::thread::spawn(start).join().unwrap();
        assert_eq!(orphan.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
