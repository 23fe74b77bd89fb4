//! A service manager that keeps descriptors, as systemd does (sd_notify(3), sd_listen_fds(3)).

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// SD_LISTEN_FDS_START.
const FIRST: RawFd = 3;

type Kept = BTreeMap<String, OwnedFd>;

pub struct Manager {
    path: PathBuf,
    speaker: UnixDatagram,
    /// What is kept at the moment, each time that it is asked for.
    kept: Receiver<Kept>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    pub fn new(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        let (tell, kept) = mpsc::channel();
        let thread = std::thread::spawn(move || serve(&socket, &tell));
        let speaker = UnixDatagram::unbound().unwrap();
        speaker.connect(path).unwrap();
        Self { path: path.into(), speaker, kept, thread: Some(thread) }
    }

    fn say(&self, words: &str) {
        self.speaker.send(words.as_bytes()).unwrap();
    }

    /// What is kept, by its names, after everything that has been said so far.
    pub fn kept(&self) -> Kept {
        self.say("TELL=1");
        self.kept.recv().unwrap()
    }

    /// Whether each port that is kept has something to leave: its front-end has been quiet for a
    /// while.
    pub fn has_all(&self) -> bool {
        let kept = self.kept();
        let has = |fd: &OwnedFd| {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&at_once)).unwrap() > 0
        };
        !kept.is_empty() && kept.values().all(has)
    }

    /// A program as it is started by this manager, with what is kept.
    pub fn command(&self, program: &str) -> Command {
        let kept = self.kept();
        let names: Vec<_> = kept.keys().cloned().collect();
        // Out of the way of those numbers that they are to have.
        let high = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 200).unwrap();
        let fds: Vec<_> = kept.into_values().map(high).collect();
        // The process's number is known when there is one.
        let mut command = Command::new("sh");
        command
            .args(["-c", "LISTEN_PID=$$ exec \"$0\" \"$@\"", program])
            .env("NOTIFY_SOCKET", &self.path);
        if !fds.is_empty() {
            command.env("LISTEN_FDS", fds.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        }
        let place = move || {
            (FIRST..).zip(&fds).try_for_each(|(number, fd)| {
                // SAFETY: whatever has this number in the new process has no other use there, and
                // it is not closed here.
                #[expect(unsafe_code, reason = "a descriptor is to have a certain number")]
                let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
                Ok(rustix::io::dup2(fd, &mut place)?)
            })
        };
        // SAFETY: it makes system calls only.
        #[expect(unsafe_code, reason = "between fork and exec little is allowed")]
        unsafe {
            command.pre_exec(place);
        }
        command
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.say("END=1");
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(socket: &UnixDatagram, tell: &Sender<Kept>) {
    let mut kept = Kept::new();
    loop {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let len = rustix::net::recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC)
            .unwrap()
            .bytes;
        let said = std::str::from_utf8(&bytes[..len]).unwrap();
        let has = |line| said.lines().any(|said| said == line);
        let name =
            || said.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap().to_owned();
        if has("END=1") {
            return;
        } else if has("TELL=1") {
            kept.retain(|_, fd| !hangs_up(fd));
            tell.send(
                kept.iter().map(|(name, fd)| (name.clone(), fd.try_clone().unwrap())).collect(),
            )
            .unwrap();
        } else if has("FDSTOREREMOVE=1") {
            kept.remove(&name());
        } else if has("FDSTORE=1") {
            let rights = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            });
            for fd in rights.flatten() {
                assert!(kept.insert(name(), fd).is_none(), "{}", name());
            }
        }
    }
}

/// Whether a manager would not keep it any longer.
fn hangs_up(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}
