//! The program that gives each frame of a container its lane (bpf/lanes.bpf.c).

use std::error::Error;
use std::fmt;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use aya::maps::{HashMap, MapData};
use aya::programs::tc::SchedClassifierLink;
use aya::programs::{SchedClassifier, TcAttachType};
use aya::util::KernelVersion;
use aya::{Ebpf, EbpfLoader};
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
    /// that takes some 15 ms, for which the switch must not wait.
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

/// Made once, as making one takes 20 ms: it reads the types of the kernel. It forgets them, since
/// the program needs none of them, and to look for some in vain takes as long with each load.
static LOADER: LazyLock<Mutex<EbpfLoader<'static>>> = LazyLock::new(|| {
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    Mutex::new(loader)
});

/// Loads the program into the kernel. It takes descriptors as long as it is kept.
fn load() -> Result<Ebpf, Failure> {
    // Before, a program at an interface stays when its agent is killed.
    if KernelVersion::current()? < KernelVersion::new(6, 6, 0) {
        return Err("that takes Linux 6.6".into());
    }
    let mut programs = LOADER.lock().unwrap_or_else(PoisonError::into_inner).load(PROGRAM)?;
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

#[cfg(test)]
mod tests {
    use aya::programs::{TestRun, TestRunOptions};
    use units::Rng;

    use super::super::{CLASSES, key};
    use super::*;

    /// Where `priority` is in `struct __sk_buff`, and the room for all of it.
    const PRIORITY: std::ops::Range<usize> = 32..36;
    const CONTEXT: usize = 256;

    /// The priority that the program gives a frame whose socket has set this one.
    fn priority(program: &SchedClassifier, frame: &[u8], set: u32) -> u32 {
        let (mut before, mut after) = ([0; CONTEXT], [0; CONTEXT]);
        before[PRIORITY].copy_from_slice(&set.to_ne_bytes());
        let options = TestRunOptions {
            data_in: Some(frame),
            ctx_in: Some(&before),
            ctx_out: Some(&mut after),
            ..TestRunOptions::new()
        };
        program.test_run(options).unwrap();
        u32::from_ne_bytes(after[PRIORITY].try_into().unwrap())
    }

    #[test]
    fn the_program_and_userspace_agree_on_which_lane_a_frame_takes() {
        let mut programs = load().unwrap();
        let mut map: HashMap<_, Key, u32> = programs.take_map("lanes").unwrap().try_into().unwrap();
        let program = program(&mut programs).unwrap();
        let known = [false, true].map(key::tests::datagram);
        let mut lanes = std::collections::HashMap::new();
        for (frame, class) in known.iter().zip(2..) {
            lanes.insert(key::socket(frame).unwrap(), class);
        }
        // All else for the address of one of them, and for another one.
        let mut other = known[0].clone();
        other[5] ^= 1;
        lanes.insert(key::receiver(&other).unwrap(), 4);
        let mut rng = Rng::new(0x6c61_6e65);
        let mut taken = [0; 6];
        for round in 0..4000 {
            if round == 2000 {
                lanes.insert(key::receiver(&known[0]).unwrap(), 5);
            }
            if round % 2000 == 0 {
                lanes.iter().for_each(|(key, class)| map.insert(key, *class, 0).unwrap());
            }
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
            let socket = key::socket(&frame).and_then(|key| lanes.get(&key));
            let lane = socket.or_else(|| lanes.get(&key::receiver(&frame)?)).copied();
            assert_eq!(priority(program, &frame, 0), lane.unwrap_or(0), "{frame:02x?}");
            taken[lane.unwrap_or(0) as usize] += 1;
        }
        assert!([0, 2, 3, 4, 5].iter().all(|lane| taken[*lane] > 0), "{taken:?}");
    }

    #[test]
    fn a_socket_names_no_lane_itself() {
        let mut programs = load().unwrap();
        let program = program(&mut programs).unwrap();
        let frame = key::tests::datagram(false);
        let lane = u32::from(CLASSES.0) << 16 | 3;
        for (set, left) in [(lane, 0), (u32::from(CLASSES.0) << 16, 0), (6, 6), (0, 0)] {
            assert_eq!(priority(program, &frame, set), left, "{set:x}");
        }
    }
}
