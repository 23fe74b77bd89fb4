//! The program that gives each frame of a container its lane (bpf/lanes.bpf.c).

use std::error::Error;
use std::fmt;
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use aya::programs::tc::SchedClassifierLink;
use aya::programs::{SchedClassifier, TcAttachType};
use aya::util::KernelVersion;
use kernel::netlink::Handle;
use kernel::netns::Namespace;

use super::key::Key;

static PROGRAM: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/lanes.bpf.o"));

/// The program at one interface. It is taken away with this.
pub struct Steering {
    lanes: HashMap<MapData, Key, u32>,
    _link: SchedClassifierLink,
}

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
    /// that takes tens of milliseconds, for which the switch must not wait.
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
            let id = program.attach(interface, TcAttachType::Egress)?;
            Ok(program.take_link(id)?)
        })??;
        Ok(Self { lanes, _link: link })
    }

    /// From now on what has this key takes this lane.
    pub fn insert(&mut self, key: &Key, class: Handle) -> Result<(), Failure> {
        Ok(self.lanes.insert(key, u32::from(class.0) << 16 | u32::from(class.1), 0)?)
    }

    /// From now on it takes none.
    pub fn remove(&mut self, key: &Key) -> Result<(), Failure> {
        Ok(self.lanes.remove(key)?)
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

/// Loads the program into the kernel. It takes descriptors as long as it is kept.
fn load() -> Result<Ebpf, Failure> {
    // Before, a program at an interface stays when its agent is killed.
    if KernelVersion::current()? < KernelVersion::new(6, 6, 0) {
        return Err("that takes Linux 6.6".into());
    }
    let mut programs = Ebpf::load(PROGRAM)?;
    program(&mut programs)?.load()?;
    Ok(programs)
}

fn program(programs: &mut Ebpf) -> Result<&mut SchedClassifier, Failure> {
    Ok(programs.program_mut("lane_of").ok_or("there is no program")?.try_into()?)
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steering")
    }
}
