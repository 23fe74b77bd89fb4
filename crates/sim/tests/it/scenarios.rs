//! The scenario language as its users meet it: files in, checked scenarios out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::ClassKind;
use proptest::prelude::*;
use sim::scenario::{
    Buffer, Cell, Control, Plan, Scenario, Shard, Topology, Transport, WorkloadKind,
};
use units::{Bytes, Span};

/// The smallest scenario there is.
const SMALL: &str = include_str!("../small.toml");

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

fn parse(text: &str) -> Plan {
    Plan::parse(text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

#[test]
fn every_shipped_scenario_can_be_simulated() {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(shipped("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let plan = Plan::read(&path).unwrap_or_else(|error| panic!("{error}"));
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert_eq!(plan.first().name, stem, "a scenario is called as its file");
            assert!(!plan.first().description.is_empty(), "{stem} says what it shows");
            found.insert((stem, plan.len()));
        }
    }
    let expected = [
        ("grants", 12),
        ("incast", 2),
        ("isolation", 6),
        ("lab", 80),
        ("pfc-deadlock", 2),
        ("states", 24),
        ("testbed1", 132),
        ("testbed2", 264),
        ("zovn-fig12", 36),
        ("zovn-fig12-queues", 30),
        ("isolation-queues", 16),
        ("isolation-lanes", 15),
        ("zovn-fig12-lanes", 9),
    ];
    assert_eq!(found, expected.map(|(name, cells)| (name.to_owned(), cells)).into());
}

#[test]
fn figure_12_is_the_papers_datacenter() {
    let plan = Plan::read(&shipped("zovn-fig12.toml")).unwrap();
    let summary = plan.summary();
    assert_eq!((summary.servers, summary.vms, summary.clients), (256, 768, 16));
    let switches: Vec<_> = summary.switches.iter().map(|tier| (tier.tier, tier.count)).collect();
    assert_eq!(switches, [("chassis", 16), ("tor", 16), ("core", 16)]);
    // A server's each, 4 ToRs for each chassis, 4 cores for each ToR, a client's each.
    assert_eq!(summary.links, 256 + 64 + 64 + 16);
    // Each thousandth of a second a query of 1 kB, and 40 kB for each of 16 MLAs and 256 workers.
    let queries = summary.workloads.iter().find(|it| it.name == "queries").unwrap();
    let per_second = 8e3 * (1e3 + 40e3 * (16.0 + 256.0));
    assert!(queries.offered_bps.unwrap().iter().all(|bps| (bps / per_second - 1.0).abs() < 1e-9));
    let background = summary.workloads.iter().find(|it| it.name == "background").unwrap();
    let [least, most] = background.offered_bps.unwrap();
    assert_eq!(least, 0.0);
    assert!((most / (0.04 * summary.access_bps) - 1.0).abs() < 1e-6);

    let cells: Vec<Cell> = plan.cells().collect();
    assert_eq!(cells[0].name, "network=LL,tcp.control=reno,background=none");
    assert_eq!(cells[35].name, "network=ZZ,tcp.control=cubic,background=heavy");
    let last = &cells[35].scenario;
    assert_eq!(last.flow_control.physical, ClassKind::Lossless);
    assert_eq!(last.tcp.control, Control::Cubic);
    let names: BTreeSet<_> = cells.iter().map(|cell| &cell.name).collect();
    let digests: BTreeSet<_> = cells.iter().map(|cell| cell.scenario.digest()).collect();
    assert_eq!((names.len(), digests.len()), (36, 36));
}

#[test]
fn a_case_puts_a_table_with_a_kind_in_the_place_of_another() {
    let plan = parse(&format!(
        "{SMALL}[sweep]\nshape = [{{ name = \"star\" }}, {{ name = \"pair\", \
         topology = {{ kind = \"dumbbell\", left = 2, right = 2 }}, link.delay = \"1us\" }}]"
    ));
    assert!(matches!(plan.cell(0).scenario.topology, Topology::Star(_)));
    let pair = plan.cell(1).scenario;
    assert!(matches!(pair.topology, Topology::Dumbbell(_)));
    assert_eq!(pair.link.delay, Span::from_micros(1));
    assert_eq!(pair.link.rate, plan.first().link.rate);
}

#[test]
fn axes_count_like_digits_in_the_order_of_the_file() {
    let plan = parse(&format!(
        "{SMALL}[sweep]\nrepeat = 2\nworkload.burst.bytes = [\"1kb\", \"2kb\"]\ntcp.control = [\"reno\", \"vegas\"]"
    ));
    let names: Vec<_> = plan.cells().take(4).map(|cell| cell.name).collect();
    assert_eq!(
        names,
        [
            "workload.burst.bytes=1kb,tcp.control=reno,seed=1",
            "workload.burst.bytes=1kb,tcp.control=reno,seed=2",
            "workload.burst.bytes=1kb,tcp.control=vegas,seed=1",
            "workload.burst.bytes=1kb,tcp.control=vegas,seed=2",
        ]
    );
    assert_eq!(plan.len(), 8);
    let shards: Vec<u64> = [(1, 3), (2, 3), (3, 3)]
        .into_iter()
        .flat_map(|(number, of)| {
            plan.shard(Shard { number, of }).map(|cell| cell.index).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(shards, [0, 3, 6, 1, 4, 7, 2, 5]);
    assert_eq!(plan.with_seed(70).cell(1).scenario.run.seed, 71);
}

#[test]
fn a_scenario_can_be_run_and_is_the_same_again_from_toml_and_json() {
    for entry in std::fs::read_dir(shipped("")).unwrap() {
        for cell in Plan::read(&entry.unwrap().path()).unwrap().cells() {
            can_be_run(&cell.scenario).unwrap();
            written_and_read(&cell.scenario).unwrap();
        }
    }
}

#[test]
fn a_digest_is_what_is_simulated() {
    let digest = |text: &str| parse(text).first().digest();
    assert_eq!(digest(SMALL), digest(&SMALL.replace("\"small\"", "\"other\"")));
    assert_ne!(digest(SMALL), digest(&SMALL.replace("20kb", "21kb")));
    // Results carry it: whoever changes it makes theirs and ours strangers.
    assert_eq!(format!("{:016x}", digest(SMALL)), "5e21908dbb9a9f8f");
}

#[test]
fn what_is_left_out_is_as_documented() {
    let it = parse(SMALL).first().clone();
    assert_eq!(it.run.seed, 1);
    assert_eq!(it.virtual_network.vms_per_server(), 1);
    assert_eq!(it.longest_frame(), 1500);
    assert_eq!(it.physical_kind("default"), ClassKind::Lossless);
    let WorkloadKind::Incast(burst) = &it.workloads["burst"].kind else {
        panic!("it is an incast")
    };
    assert_eq!((burst.bytes, burst.rounds), (Bytes(20_000), 1));
    assert_eq!(it.workloads["burst"].kind.transport(), Transport::Tcp);
}

#[test]
fn too_much_is_refused_before_it_is_made() {
    let many = "4294967295";
    let huge = format!(
        "kind = \"fat-tree\"\nracks = {many}\nchassis = {many}\ntors = {many}\ncores = {many}"
    );
    let faults = Plan::parse(
        &SMALL
            .replace("kind = \"star\"", &huge)
            .replace("servers = 4", &format!("servers = {many}")),
    );
    let faults = faults.unwrap_err();
    assert!(faults[0].what.contains("at most 100000 can be simulated"), "{faults:?}");
    let values: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
    let axis = |field: &str| format!("{field} = [{}]\n", values.join(", "));
    let sweep =
        [axis("tcp.initial_window"), axis("run.seed"), axis("workload.burst.rounds")].concat();
    let faults = Plan::parse(&format!("{SMALL}[sweep]\n{sweep}")).unwrap_err();
    assert!(faults[0].what.contains("more than 4096 combinations"), "{faults:?}");
    assert!(
        Plan::parse(&" ".repeat(1 << 20)).unwrap_err()[0].what.contains("at most 262144 bytes")
    );
}

#[test]
fn a_distribution_comes_from_a_file_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("sim-scenarios-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("own.toml");
    let flows = "[workload.bulk]\nkind = \"flows\"\nsizes = \"own\"\ngap = \"1ms\"\n[distribution.own]\nfile = \"own.cdf\"\n";
    std::fs::write(&file, format!("{SMALL}{flows}")).unwrap();
    let missing = Plan::read(&file).unwrap_err().to_string();
    assert!(
        missing.contains("line 19, column 8: `distribution.own.file`: `own.cdf` cannot be read"),
        "{missing}"
    );
    std::fs::write(folder.join("own.cdf"), "100 0.5\n300 1\n").unwrap();
    let it = Plan::read(&file).unwrap().first().clone();
    assert_eq!(it.distributions["own"].points, [(0.0, 0.0), (100.0, 0.5), (300.0, 1.0)]);
    assert_eq!(it.cdf("own").unwrap().mean(), 125.0);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_documented_example_is_a_scenario() {
    let docs = include_str!("../../../../docs/scenarios.md");
    let examples: Vec<&str> =
        docs.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        parse(example);
    }
}

/// Every field that a file may have is in the documentation, and is spelled so there.
#[test]
fn every_field_is_documented() {
    let docs = include_str!("../../../../docs/scenarios.md");
    let documented: BTreeSet<&str> = docs.split('`').skip(1).step_by(2).collect();
    let mut missing = BTreeSet::new();
    // Serde lists what it knows when it is given what it does not.
    let sections = [
        "",
        "run",
        "flow_control",
        "link",
        "fabric",
        "fabric.pfc",
        "virtual",
        "tcp",
        "class.x",
        "network.x",
        "output",
    ];
    let kinds = ["star", "ring", "dumbbell", "k-ary", "leaf-spine", "fat-tree"]
        .map(|kind| ("topology", kind));
    let workloads =
        ["partition-aggregate", "incast", "permutation", "all-to-all", "flows", "stream"]
            .map(|kind| ("workload.x", kind));
    let buffers = ["private-input", "per-output", "shared"].map(|kind| ("fabric.buffer", kind));
    let plain = sections.map(|section| (section, ""));
    for (section, kind) in plain.into_iter().chain(kinds).chain(workloads).chain(buffers) {
        let kind = if kind.is_empty() { String::new() } else { format!("kind = \"{kind}\"\n") };
        let head = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
        let error = toml::from_str::<Scenario>(&format!("{head}{kind}qqqq = 1\n")).unwrap_err();
        let message = error.message();
        assert!(message.starts_with("unknown field `qqqq`"), "{section}: {message}");
        missing.extend(
            message
                .split('`')
                .skip(3)
                .step_by(2)
                .filter(|field| !documented.contains(field))
                .map(str::to_owned),
        );
    }
    assert_eq!(missing, BTreeSet::new());
}

/// Pieces of scenarios, for texts that get further than noise.
fn line() -> impl Strategy<Value = String> {
    let keys = prop::sample::select(vec![
        "version",
        "name",
        "kind",
        "servers",
        "racks",
        "chassis",
        "tors",
        "cores",
        "k",
        "left",
        "right",
        "switches",
        "bytes",
        "senders",
        "receiver",
        "sizes",
        "load",
        "gap",
        "arrivals",
        "repeat",
        "tcp.control",
        "control",
        "duration",
        "queries",
        "alpha",
        "xoff",
        "priority",
        "vms",
        "vm",
        "points",
        "mids",
        "workers",
        "aggregators",
        "reply",
        "request",
        "stride",
        "source",
        "destination",
        "pcapng",
        "file",
        "run.seed",
        "link.rate",
    ]);
    let values = prop::sample::select(vec![
        "1",
        "0",
        "-1",
        "4",
        "4294967295",
        "9223372036854775807",
        "0.5",
        "nan",
        "inf",
        "\"\"",
        "\"vm\"",
        "\"vm@0/0\"",
        "\"any@4294967295\"",
        "\"star\"",
        "\"fat-tree\"",
        "\"k-ary\"",
        "\"dumbbell\"",
        "\"ring\"",
        "\"incast\"",
        "\"flows\"",
        "\"stream\"",
        "\"permutation\"",
        "\"partition-aggregate\"",
        "\"1s\"",
        "\"20kb\"",
        "\"10gbit\"",
        "\"web-search\"",
        "\"log-normal(2)\"",
        "\"poisson\"",
        "[1, 2]",
        "[[0, 0.5], [1, 1]]",
        "[[1, 1]]",
        "{ name = \"a\", run.seed = 3 }",
        "[{ name = \"a\" }]",
        "[{ name = \"a\", topology = { kind = \"star\", servers = 2 } }]",
        "true",
        "{ kind = \"shared\", bytes = \"1kb\" }",
        "1979-05-27",
        "\"server0-switch0\"",
        "\"dctcp\"",
        "\"shared\"",
        "{ vm = 3 }",
    ]);
    let heads = prop::sample::select(vec![
        "[run]",
        "[topology]",
        "[fabric]",
        "[fabric.buffer]",
        "[fabric.pfc]",
        "[virtual]",
        "[virtual.vms]",
        "[tcp]",
        "[class.a]",
        "[class.default]",
        "[workload.burst]",
        "[workload.b]",
        "[distribution.own]",
        "[output]",
        "[sweep]",
        "[link]",
        "[topology.access]",
        "[[workload]]",
    ]);
    prop_oneof![
        1 => heads.prop_map(str::to_owned),
        3 => (keys, values).prop_map(|(key, value)| format!("{key} = {value}")),
    ]
}

/// A scenario is the same again after it was written down, for people or in a result.
fn written_and_read(scenario: &Scenario) -> Result<(), TestCaseError> {
    let toml = toml::to_string(scenario).unwrap();
    let again =
        Plan::parse(&toml).map_err(|faults| TestCaseError::fail(format!("{faults:?}\n{toml}")))?;
    prop_assert_eq!(again.first(), scenario);
    let json = serde_json::to_string(scenario).unwrap();
    let read: Scenario = serde_json::from_str(&json).unwrap();
    prop_assert_eq!(&read, scenario);
    prop_assert_eq!([again.first().digest(), read.digest()], [scenario.digest(); 2]);
    Ok(())
}

/// Whoever runs a checked scenario need not ask again.
fn can_be_run(it: &Scenario) -> Result<(), TestCaseError> {
    for class in it.classes.keys().filter(|class| it.physical_kind(class) == ClassKind::Lossless) {
        for layer in it.topology.layers(it.link) {
            if let Buffer::PrivateInput { bytes } | Buffer::PerOutput { bytes } = it.fabric.buffer {
                let thresholds = it.fabric.pfc.thresholds(layer.link, it.longest_frame(), bytes.0);
                prop_assert!(thresholds.is_some(), "{} {}", class, layer.name);
            }
        }
    }
    let servers = it.topology.servers() as u32;
    for (name, workload) in &it.workloads {
        prop_assert!(it.classes.contains_key(&workload.class));
        for (field, vms) in workload.kind.vms() {
            prop_assert!(
                vms.iter(&it.virtual_network, servers).next().is_some(),
                "{}.{}",
                name,
                field
            );
        }
        match &workload.kind {
            WorkloadKind::PartitionAggregate(queries) => prop_assert!(queries.gaps(it).is_some()),
            WorkloadKind::Flows(flows) => {
                prop_assert!(flows.sizes(it).is_some());
                prop_assert!(flows.gaps(it).is_some() || flows.load == Some(0.0), "{:?}", flows);
            }
            WorkloadKind::Markov(states) => prop_assert!(states.model().is_ok()),
            _ => {}
        }
    }
    Ok(())
}

/// What must hold of any text: it is refused with sentences that have a place in it, or all of it
/// can be had.
fn attack(text: &str) -> Result<(), TestCaseError> {
    match Plan::parse(text) {
        Ok(plan) => {
            let last = plan.cell(plan.len() - 1).scenario;
            can_be_run(&last)?;
            written_and_read(&last)?;
            prop_assert_eq!(plan.summary().cells, plan.len());
        }
        Err(faults) => {
            prop_assert!(!faults.is_empty());
            for fault in faults {
                prop_assert!(
                    fault.line >= 1 && fault.line <= text.matches('\n').count() + 1,
                    "{}",
                    fault
                );
                prop_assert!(fault.column >= 1 && !fault.what.is_empty(), "{}", fault);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn any_text_is_a_plan_or_refused(text in "\\PC{0,200}") {
        attack(&text)?;
    }

    #[test]
    fn almost_a_scenario_is_a_plan_or_refused(lines in prop::collection::vec(line(), 0..12), cut in 0usize..16) {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let mut whole: Vec<&str> = SMALL.lines().collect();
        whole.splice(cut.min(whole.len())..cut.min(whole.len()), lines);
        attack(&whole.join("\n"))?;
    }

    #[test]
    fn any_number_is_the_same_again(
        numbers in (1u64..1 << 40, 1000u64..10_000_000_000_000, 0u64..1 << 62),
        (load, alpha, sigma) in (0.0f64..10.0, 0.001f64..1000.0, 0.0f64..5.0),
        points in prop::collection::btree_map(0u64..1 << 60, 0.0f64..1.0, 1..20),
    ) {
        let (ns, bits, seed) = numbers;
        let mut shares: Vec<f64> = points.values().copied().collect();
        shares.sort_by(f64::total_cmp);
        let points = points.keys().zip(shares).map(|(value, share)| format!("[{:?}, {share:?}]", *value as f64 / 3.0));
        let points: Vec<String> = points.collect();
        let text = format!(
            "{}[link]\nrate = \"{bits}bit\"\n[fabric]\nnic_queue = \"1gb\"\nbuffer = {{ kind = \"shared\", bytes = \"1gb\", alpha = {alpha:?} }}\n\
             [distribution.own]\npoints = [{}, [1e18, 1]]\n[workload.bulk]\nkind = \"flows\"\nsizes = \"own\"\n\
             arrivals = \"log-normal({sigma})\"\nload = {load:?}\n",
            SMALL.replace("\"1s\"", &format!("\"{ns}ns\"\nseed = {seed}")),
            points.join(", "),
        );
        can_be_run(parse(&text).first())?;
        written_and_read(parse(&text).first())?;
    }

    #[test]
    fn a_damaged_scenario_is_a_plan_or_refused(at in 0usize..1000, with in "\\PC{0,3}", from in 0usize..8) {
        let names = [
            "incast", "isolation", "lab", "pfc-deadlock", "states", "testbed1", "testbed2", "zovn-fig12",
        ];
        let text = std::fs::read_to_string(shipped(&format!("{}.toml", names[from]))).unwrap();
        let at = text.floor_char_boundary(at * text.len() / 1000);
        let next = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        attack(&[&text[..at], &with, &text[next..]].concat())?;
    }
}
