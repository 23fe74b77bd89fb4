//! The program that gives each frame of a container its lane (bpf/lanes.bpf.c).

use std::error::Error;
use std::fmt;

use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use aya::programs::tc::{self, SchedClassifierLink};
use aya::programs::{SchedClassifier, TcAttachType};
use aya::util::KernelVersion;
use kernel::netlink::Handle;
use kernel::netns::Namespace;

use super::key::Key;

static PROGRAM: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/lanes.bpf.o"));

/// The program for one interface. While it is not attached, all frames are in no lane.
pub struct Steering {
    programs: Ebpf,
    lanes: HashMap<MapData, Key, u32>,
    /// Where it is attached, which ends with this.
    link: Option<SchedClassifierLink>,
}

/// What the kernel, or the loader of programs, says.
pub type Failure = Box<dyn Error + Send + Sync>;

impl Steering {
    /// Loads the program, which takes long: before anything waits for it.
    pub fn load() -> Result<Self, Failure> {
        let mut programs = Ebpf::load(PROGRAM)?;
        program(&mut programs)?.load()?;
        let lanes = programs.take_map("lanes").ok_or("the program has no map")?;
        Ok(Self { lanes: lanes.try_into()?, programs, link: None })
    }

    /// Attaches the program to an interface of a namespace, if it is not yet.
    pub fn attach(&mut self, namespace: &Namespace, interface: &str) -> Result<(), Failure> {
        if self.link.is_some() {
            return Ok(());
        }
        let program = program(&mut self.programs)?;
        self.link = Some(namespace.run(|| -> Result<_, Failure> {
            if KernelVersion::current()? < KernelVersion::new(6, 6, 0) {
                // There a program has to hang somewhere. It may be there already.
                let _ = tc::qdisc_add_clsact(interface);
            }
            let id = program.attach(interface, TcAttachType::Egress)?;
            Ok(program.take_link(id)?)
        })??);
        Ok(())
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

fn program(programs: &mut Ebpf) -> Result<&mut SchedClassifier, Failure> {
    Ok(programs.program_mut("lane_of").ok_or("there is no program")?.try_into()?)
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steering")
    }
}
