//! The network of the paper's §6.1, for the rules of its figure 6.

use std::collections::BTreeSet;

use nlog::{Answer, Batch, Call, Engine, Library, Program, Value, Values};

pub const RULES: &str = include_str!("../../rules/figure6.nlog");

/// Where every logical port is.
pub struct Network {
    pub hypervisors: u32,
    /// The datapath and the hypervisor of each port.
    pub ports: Vec<(u32, u32)>,
    /// The ports of each datapath.
    pub datapaths: Vec<Vec<u32>>,
    /// The tunnels that hypervisors have reported, by source and destination.
    pub reported: BTreeSet<(u32, u32)>,
}

impl Network {
    /// So many datapaths of 2 to 64 ports, 9 on average, at hypervisors with 21 ports each: 7,000
    /// are NVP's.
    pub fn new(datapaths: u32) -> Self {
        // Weyl's sequence: evenly spread, and always the same.
        let spread =
            |number: u32| f64::from(number.wrapping_mul(2_654_435_769)) / f64::from(u32::MAX);
        let hypervisors = (datapaths * 9).div_ceil(21).max(2);
        let (mut ports, mut members) = (Vec::new(), Vec::new());
        for datapath in 0..datapaths {
            let size = 2 + (62.0 * spread(datapath).powf(7.86)) as u32;
            let first = ports.len() as u32;
            members.push((first..first + size).collect());
            ports.extend((first..first + size).map(|port| {
                (datapath, (spread(port ^ 0x5555) * f64::from(hypervisors)) as u32 % hypervisors)
            }));
        }
        Self { hypervisors, ports, datapaths: members, reported: BTreeSet::new() }
    }

    /// Everything.
    pub fn insert_all(&mut self, engine: &mut Engine, batch: &mut Batch) {
        let mut edit = Edit::new(engine, batch);
        for hypervisor in 0..self.hypervisors {
            edit.insert(LOCATOR, &[hypervisor, address(hypervisor)]);
        }
        for datapath in 0..self.datapaths.len() as u32 {
            edit.insert(ENCAP, &[datapath]);
        }
        for port in 0..self.ports.len() as u32 {
            self.insert(port, &mut edit);
        }
    }

    /// A new port of a datapath.
    pub fn add(&mut self, datapath: u32, hypervisor: u32, engine: &mut Engine, batch: &mut Batch) {
        let port = self.ports.len() as u32;
        self.ports.push((datapath, hypervisor));
        self.datapaths[datapath as usize].push(port);
        self.insert(port, &mut Edit::new(engine, batch));
    }

    /// A port is at another hypervisor.
    pub fn move_port(&mut self, port: u32, to: u32, engine: &mut Engine, batch: &mut Batch) {
        let mut edit = Edit::new(engine, batch);
        let (_, hypervisor) = &mut self.ports[port as usize];
        edit.delete(PRESENCE, &[port, *hypervisor]);
        *hypervisor = to;
        edit.insert(PRESENCE, &[port, to]);
        self.report(port, &mut edit);
    }

    fn insert(&mut self, port: u32, edit: &mut Edit<'_>) {
        let (datapath, hypervisor) = self.ports[port as usize];
        edit.insert(PORT, &[port, datapath]);
        edit.insert(PRESENCE, &[port, hypervisor]);
        edit.insert(STAGE, &[port, port + 1000]);
        self.report(port, edit);
    }

    /// The tunnels between a port's hypervisor and the others of its datapath.
    fn report(&mut self, port: u32, edit: &mut Edit<'_>) {
        let (datapath, own) = self.ports[port as usize];
        for other in &self.datapaths[datapath as usize] {
            let (_, other) = self.ports[*other as usize];
            for (from, to) in [(own, other), (other, own)] {
                if from != to && self.reported.insert((from, to)) {
                    edit.insert(TPORT, &[from, address(to), self.reported.len() as u32]);
                }
            }
        }
    }
}

fn address(hypervisor: u32) -> u32 {
    0x0a00_0000 + hypervisor
}

/// The figure's inputs, in the order in which it declares them.
const PORT: u8 = 0;
const ENCAP: u8 = 1;
const PRESENCE: u8 = 2;
const LOCATOR: u8 = 3;
const STAGE: u8 = 4;
const TPORT: u8 = 5;

/// Edits of the inputs. The encapsulation is always the same, and is filled in.
struct Edit<'e> {
    engine: &'e mut Engine,
    batch: &'e mut Batch,
    encap: Value,
}

impl<'e> Edit<'e> {
    fn new(engine: &'e mut Engine, batch: &'e mut Batch) -> Self {
        let encap = engine.values_mut().text("stt");
        Self { engine, batch, encap }
    }

    fn tuple(&mut self, input: u8, words: &[u32]) -> ([Value; 4], usize) {
        let values = self.engine.values_mut();
        let mut tuple = [self.encap; 4];
        for (value, word) in tuple.iter_mut().zip(words) {
            *value = values.id(*word);
        }
        match input {
            STAGE => tuple[1] = values.int(words[1].into()),
            TPORT => {
                tuple = [tuple[0], self.encap, tuple[1], values.int(words[2].into())];
            }
            _ => {}
        }
        (tuple, words.len() + usize::from(input == ENCAP || input == TPORT))
    }

    fn insert(&mut self, input: u8, words: &[u32]) {
        let (tuple, len) = self.tuple(input, words);
        let table = self.engine.tables().nth(input.into()).expect("inputs come first");
        self.batch.insert(table, &tuple[..len]);
    }

    fn delete(&mut self, input: u8, words: &[u32]) {
        let (tuple, len) = self.tuple(input, words);
        let table = self.engine.tables().nth(input.into()).expect("inputs come first");
        self.batch.delete(table, &tuple[..len]);
    }
}

/// The figure's functions. Expressions and actions are numbers here, as those of a real user are,
/// who keeps what they stand for.
pub fn library() -> Library {
    let number = |call: &mut Call<'_>| {
        let number = call.int(0) as u32;
        let id = call.values().id(number);
        call.give(id);
        Ok(Answer::Row)
    };
    Library::new().with("flow_expr_match_reg1", number).with("flow_output_action", number)
}

/// An engine with the figure's rules, and beside them copies whose tables have other names.
pub fn engine(copies: u32) -> Engine {
    let mut files = vec![("figure6.nlog".to_owned(), RULES.to_owned())];
    files.extend((0..copies).map(|copy| (format!("copy{copy}.nlog"), renamed(copy))));
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    let program = Program::parse(&files).unwrap_or_else(|faults| panic!("{faults:?}"));
    Engine::new(program, library(), Values::new(1)).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// The figure's tables and rules under other names. Types and functions are the figure's own.
fn renamed(copy: u32) -> String {
    let own = |line: &&str| !line.starts_with("type") && !line.starts_with("function");
    let mut text = RULES.lines().filter(own).collect::<Vec<_>>().join("\n");
    for table in [
        "log_port",
        "log_datapath_encap",
        "log_port_presence",
        "hypervisor_locator",
        "lport_stage_id",
        "ovsdb_tport",
        "tunnel",
        "ovsdb_tunnel",
        "ovs_flow",
    ] {
        for before in [" ", "\n"] {
            let (old, new) = (format!("{before}{table}("), format!("{before}{table}_{copy}("));
            text = text.replace(&old, &new);
        }
    }
    text
}
