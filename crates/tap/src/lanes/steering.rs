//! The program that gives each frame of a container its lane (bpf/lanes.bpf.c).

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use aya::maps::{HashMap, MapData};
use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle};
use aya::programs::{SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use kernel::netlink::Handle;
use kernel::netns::Namespace;

use super::key::Key;

static PROGRAM: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/lanes.bpf.o"));

/// The program at one interface: a filter of the discipline whose classes are lanes. It is taken
/// away with this, and [by who finds it](remove) if this process is killed.
///
/// At the interface's egress (`tcx`) it would end with this process. But to attach it there the
/// kernel waits for all processors while it holds RTNL, without which nobody is granted credit.
pub struct Steering {
    lanes: HashMap<MapData, Key, u32>,
    link: Option<SchedClassifierLink>,
    namespace: Namespace,
}

/// The discipline that has lanes as its classes, inside the bucket.
pub const CLASSES: Handle = Handle(0x7a70, 0);

/// Where the program hangs.
const PARENT: TcAttachType = TcAttachType::Custom((CLASSES.0 as u32) << 16 | CLASSES.1 as u32);

/// The program's name.
const NAME: &str = "lane_of";

/// A program that is being loaded.
#[derive(Debug)]
pub struct Loading(Receiver<Result<Steering, Failure>>);

/// What the kernel, or the loader of programs, says.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Whether this kernel takes the program: found out once.
pub fn check() -> Result<(), Failure> {
    static FAULT: LazyLock<Option<String>> =
        LazyLock::new(|| load().err().map(|error| error.to_string()));
    FAULT.as_deref().map_or(Ok(()), |fault| Err(fault.into()))
}

impl Steering {
    /// Loads the program and attaches it to an interface of a namespace, on a thread of its own:
    /// that takes a millisecond, and more where others hold RTNL, for which the switch must not
    /// wait.
    pub fn load(namespace: &Namespace, interface: &str) -> Result<Loading, Failure> {
        let (namespace, interface) = (namespace.try_clone()?, interface.to_owned());
        let (sender, receiver) = mpsc::channel();
        let work = move || {
            // Nobody waits for it any more if the port is gone.
            let _ = sender.send(Self::attach(&namespace, &interface));
        };
        thread::Builder::new().name("zovn-lanes".into()).spawn(work)?;
        Ok(Loading(receiver))
    }

    fn attach(namespace: &Namespace, interface: &str) -> Result<Self, Failure> {
        let mut programs = load()?;
        let lanes = programs.take_map("lanes").ok_or("the program has no map")?.try_into()?;
        let program = program(&mut programs)?;
        let link = namespace.run(|| -> Result<_, Failure> {
            // The program tells the minor number alone.
            let classid = Some(TcHandle::new(CLASSES.0, CLASSES.1));
            let options = TcAttachOptions::Netlink(NlOptions { classid, ..NlOptions::default() });
            let id = program.attach_with_options(interface, PARENT, options)?;
            Ok(program.take_link(id)?)
        })??;
        Ok(Self { lanes, link: Some(link), namespace: namespace.try_clone()? })
    }

    /// From now on what has this key takes this lane.
    pub fn insert(&mut self, key: &Key, class: Handle) -> Result<(), Failure> {
        Ok(self.lanes.insert(key, u32::from(class.1), 0)?)
    }

    /// From now on it takes none.
    pub fn remove(&mut self, key: &Key) -> Result<(), Failure> {
        Ok(self.lanes.remove(key)?)
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        // In its namespace: the interface with this number elsewhere is another one. It fails where
        // the interface is gone.
        let link = self.link.take();
        let _ = self.namespace.run(|| drop(link));
    }
}

/// Takes away the program that an agent has left at an interface, if there is one.
pub fn remove(namespace: &Namespace, interface: &str) -> Result<(), Failure> {
    match namespace.run(|| tc::qdisc_detach_program(interface, PARENT, NAME))? {
        Err(TcError::IoError(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => Ok(done?),
    }
}

impl Loading {
    /// The program, once it is attached.
    pub fn poll(&self) -> Result<Option<Steering>, Failure> {
        match self.0.try_recv() {
            Ok(steering) => steering.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err("the thread that loads it has failed".into()),
        }
    }
}

/// Made once, as making one takes 20 ms: it reads the types of the kernel. It forgets them, since
/// the program needs none of them, and to look for some in vain takes as long with each load.
static LOADER: LazyLock<Mutex<EbpfLoader<'static>>> = LazyLock::new(|| {
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    Mutex::new(loader)
});

/// Loads the program into the kernel. It takes descriptors as long as it is kept.
fn load() -> Result<Ebpf, Failure> {
    let mut programs = LOADER.lock().unwrap_or_else(PoisonError::into_inner).load(PROGRAM)?;
    program(&mut programs)?.load()?;
    Ok(programs)
}

fn program(programs: &mut Ebpf) -> Result<&mut SchedClassifier, Failure> {
    Ok(programs.program_mut(NAME).ok_or("there is no program")?.try_into()?)
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steering")
    }
}

#[cfg(test)]
mod tests {
    use aya::programs::{TestRun, TestRunOptions};
    use units::Rng;

    use super::super::key;
    use super::*;

    /// Whether the program knows a lane for a frame.
    fn is_known(program: &SchedClassifier, frame: &[u8]) -> bool {
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        // TC_ACT_OK; the other is TC_ACT_UNSPEC.
        program.test_run(options).unwrap().return_value == 0
    }

    #[test]
    fn the_program_and_userspace_agree_on_which_frames_take_a_lane() {
        let mut programs = load().unwrap();
        let mut map: HashMap<_, Key, u32> = programs.take_map("lanes").unwrap().try_into().unwrap();
        let program = program(&mut programs).unwrap();
        let known = [false, true].map(key::tests::datagram);
        // All else for the address of one of them, and for another one.
        let mut other = known[0].clone();
        other[5] ^= 1;
        let [receiver, other] = [&known[0], &other].map(|frame| key::receiver(frame).unwrap());
        let sockets = known.each_ref().map(|frame| key::socket(frame).unwrap());
        let mut rng = Rng::new(0x6c61_6e65);
        for key in [sockets[0], sockets[1], receiver, other] {
            map.insert(key, 2, 0).unwrap();
            let mut taken = [0; 2];
            for _ in 0..2000 {
                let mut frame = known[rng.below(2) as usize].clone();
                for _ in 0..rng.below(3) {
                    let at = rng.below(frame.len() as u64) as usize;
                    // Few bits: many of these frames are still for a known socket.
                    frame[at] ^= 1 << rng.below(8);
                }
                if rng.below(8) == 0 {
                    // In the UDP header: the kernel runs it with whole headers of IP only.
                    frame.truncate(frame.len() - rng.below(9) as usize);
                }
                let takes = [key::socket(&frame), key::receiver(&frame)].contains(&Some(key));
                assert_eq!(is_known(program, &frame), takes, "{frame:02x?}");
                taken[usize::from(takes)] += 1;
            }
            assert!(taken[0] > 0 && taken[1] > 0, "{taken:?}");
            map.remove(&key).unwrap();
        }
    }
}
