//! Scenarios that cannot be simulated: each kind of mistake is answered with its place and with what to write instead.

use sim::scenario::Plan;

/// The smallest scenario there is, 13 lines.
const SMALL: &str = r#"
version = 1
name = "small"
[run]
duration = "1s"
[topology]
kind = "star"
servers = 4
[workload.burst]
kind = "incast"
senders = "vm@1-3"
receiver = "vm@0"
bytes = "20kb"
"#;

const QUERIES: &str = "[workload.queries]\nkind = \"partition-aggregate\"\naggregators = \"vm@0\"\nworkers = \"vm\"\n\
                       request = \"1kb\"\nreply = \"2kb\"\ngap = \"1ms\"\n";

const FLOWS: &str = "[workload.flows]\nkind = \"flows\"\nsizes = \"web-search\"\n";

const STREAM: &str = "[workload.stream]\nkind = \"stream\"\nsource = \"vm@0-1\"\n";

/// The only thing that is wrong with a text.
fn fault(text: &str) -> String {
    let faults = Plan::parse(text).expect_err(text);
    let [fault] = &faults[..] else { panic!("{text}\n{faults:#?}") };
    fault.to_string()
}

/// Each mistake, in the place of something in the smallest scenario, and its answer.
fn replaced(cases: &[(&str, &str, &str)]) {
    for (from, to, expected) in cases {
        assert!(SMALL.contains(from), "{from}");
        assert_eq!(fault(&SMALL.replacen(from, to, 1)), *expected, "{to}");
    }
}

/// Each mistake, from line 14 on below the smallest scenario, and its answer.
fn added(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(fault(&format!("{SMALL}{text}\n")), *expected, "{text}");
    }
}

#[test]
fn a_field_that_is_not_known_is_the_one_that_it_is_like() {
    replaced(&[
        (
            "servers = 4",
            "server = 4",
            "line 8, column 1: `topology.server`: `server` is not known here: did you mean `servers`?",
        ),
        ("[run]", "[runs]", "line 4, column 2: `runs`: `runs` is not known here: did you mean `run`?"),
        (
            "bytes =",
            "byte =",
            "line 13, column 1: `workload.burst.byte`: `byte` is not known here: did you mean `bytes`?",
        ),
    ]);
    added(&[
        (
            "clas = \"x\"",
            "line 14, column 1: `workload.burst.clas`: `clas` is not known here: did you mean `class`?",
        ),
        (
            "[fabric]\nbuffer = { kind = \"shared\", bytes = \"1mb\", alpah = 3 }",
            "line 15, column 44: `fabric.buffer.alpah`: `alpah` is not known here: did you mean `alpha`?",
        ),
        (
            "[topology.uplink]\nrate = \"1gbit\"",
            "line 14, column 11: `topology.uplink`: `uplink` is not known here: write one of servers, access",
        ),
        ("[sweeps]", "line 14, column 2: `sweeps`: `sweeps` is not known here: did you mean `sweep`?"),
    ]);
}

#[test]
fn a_word_that_is_not_known_is_the_one_that_it_is_like() {
    replaced(&[
        (
            "\"star\"",
            "\"stra\"",
            "line 7, column 8: `topology.kind`: `stra` is not known here: did you mean `star`?",
        ),
        (
            "\"star\"",
            "3",
            "line 7, column 8: `topology.kind`: this is the whole number `3`: write a word in quotes",
        ),
    ]);
    added(&[
        (
            "[class.default]\nkind = \"lousy\"",
            "line 15, column 8: `class.default.kind`: `lousy` is not known here: did you mean `lossy`?",
        ),
        (
            "[fabric]\nscheduling = \"wfq\"",
            "line 15, column 14: `fabric.scheduling`: `wfq` is not known here: write one of strict, weighted",
        ),
        (
            "[tcp]\nprofile = \"windows\"",
            "line 15, column 11: `tcp.profile`: `windows` is not known here: write one of linux, linux-2013, freebsd9",
        ),
    ]);
}

#[test]
fn what_is_missing_is_asked_for_where_it_belongs() {
    replaced(&[
        (
            "version = 1",
            "",
            "line 1, column 1: a scenario says which schema it is written in: add `version = 1`",
        ),
        (
            "version = 1",
            "version = 2",
            "line 2, column 11: `version`: this program reads version 1 of the schema, not 2",
        ),
        ("name = \"small\"", "", "line 1, column 1: `name` is missing: add it here"),
        (
            "[topology]\nkind = \"star\"\nservers = 4",
            "",
            "line 1, column 1: a scenario has a network: add `[topology]`",
        ),
        ("servers = 4", "", "line 6, column 2: `topology`: `servers` is missing: add it here"),
        ("kind = \"star\"", "", "line 6, column 2: `topology`: `kind` is missing: add it here"),
        (
            "kind = \"star\"",
            "kind = \"leaf-spine\"\nleaves = 2\naccess = {}",
            "line 6, column 2: `topology`: `spines` is missing: add it here",
        ),
        (
            "senders = \"vm@1-3\"",
            "",
            "line 9, column 11: `workload.burst`: `senders` is missing: add it here",
        ),
        (
            "receiver = \"vm@0\"",
            "",
            "line 9, column 11: `workload.burst`: `receiver` is missing: add it here",
        ),
    ]);
    let (idle, _) = SMALL.split_once("[workload").unwrap();
    assert_eq!(
        fault(idle),
        "line 1, column 1: `workload`: a scenario has 1 to 1000 workloads: add a `[workload.NAME]`"
    );
    added(&[
        (
            "[fabric]\nbuffer = { kind = \"shared\" }",
            "line 15, column 1: `fabric.buffer`: `bytes` is missing: add it here",
        ),
        ("[distribution.own]", "line 14, column 15: `distribution.own`: `points` is missing: add it here"),
    ]);
}

#[test]
fn a_value_of_the_wrong_sort_or_unit_is_told_the_right_one() {
    replaced(&[
        ("[run]", "[run", "line 4, column 5: this is no TOML: unclosed table, expected `]`"),
        (
            "servers = 4",
            "servers = \"4\"",
            "line 8, column 11: `topology.servers`: this is the word \"4\": write a whole number from 0 to 4294967295",
        ),
        (
            "servers = 4",
            "servers = -4",
            "line 8, column 11: `topology.servers`: this is the whole number `-4`: write a whole number from 0 to 4294967295",
        ),
        (
            "servers = 4",
            "servers = 4.5",
            "line 8, column 11: `topology.servers`: this is the number `4.5`: write a whole number from 0 to 4294967295",
        ),
        (
            "\"20kb\"",
            "\"20 apples\"",
            "line 13, column 9: `workload.burst.bytes`: `20 apples` is not a size: write it as 64kib, 1mb or 1500b",
        ),
        (
            "\"20kb\"",
            "20000",
            "line 13, column 9: `workload.burst.bytes`: `20000` is not a size: write it as 64kib, 1mb or 1500b",
        ),
        (
            "\"1s\"",
            "1",
            "line 5, column 12: `run.duration`: `1` is not a length of time: write it as 10s, 300ms, 50us or 2min",
        ),
        (
            "\"vm@0\"",
            "\"vm 0\"",
            "line 12, column 12: `workload.burst.receiver`: `vm 0` is not a choice of machines: write any, worker, worker@0-15 or worker@3/0",
        ),
    ]);
    added(&[
        (
            "[link]\nrate = \"10gb\"",
            "line 15, column 8: `link.rate`: `10gb` is not a rate above zero: write it as 1gbit, 100mbit or 2.5gbit",
        ),
        (
            "[fabric]\nbuffer = \"140kb\"",
            "line 15, column 10: `fabric.buffer`: this is the word \"140kb\": write a table",
        ),
        (
            "[output]\nflows = 1",
            "line 15, column 9: `output.flows`: this is the whole number `1`: write true or false",
        ),
        (
            "[class.default]\nkind = 3",
            "line 15, column 8: `class.default.kind`: this is no word: write a word in quotes",
        ),
        (
            "[class.default]\npriority = 8",
            "line 15, column 12: `class.default.priority`: a class is a number from 0 to 7",
        ),
        ("[[workload.x]]", "line 14, column 1: `workload.x`: this is a list: write a table"),
        (
            "[distribution.own]\npoints = [[1, 0.5, 2]]",
            "line 15, column 10: `distribution.own.points`: this is a list of length 3: write a value and a share: `[10e3, 0.5]`",
        ),
    ]);
}

#[test]
fn a_distribution_rises_to_all_of_its_samples() {
    added(&[
        (
            "[distribution.own]\npoints = [[1, 0.5]]",
            "line 15, column 10: `distribution.own.points`: the last share is 0.5: it is 1, of all samples",
        ),
        (
            "[distribution.own]\npoints = [[0, 1]]",
            "line 15, column 10: `distribution.own.points`: its mean is 0, or beyond counting: write values above 0",
        ),
        (
            "[distribution.own]\nfile = \"x\"\npoints = [[1, 1]]",
            "line 15, column 1: `distribution.own.file`: `file` is not known here: write one of points",
        ),
        (
            "[distribution.own]\nfile = \"x\"",
            "line 15, column 8: `distribution.own.file`: `x` cannot be read: this text has no folder to look in",
        ),
    ]);
    let backwards = fault(&format!("{SMALL}[distribution.own]\npoints = [[2, 0.5], [1, 1]]\n"));
    assert!(backwards.contains("point 2 of the distribution goes backwards"), "{backwards}");
}

#[test]
fn a_network_can_be_built() {
    let star = "kind = \"star\"\nservers = 4";
    replaced(&[
        (
            "servers = 4",
            "servers = 0",
            "line 8, column 11: `topology.servers`: there is at least one: raise it above 0",
        ),
        (
            star,
            "kind = \"k-ary\"\nk = 3",
            "line 8, column 5: `topology.k`: half of a switch's ports lead up: write an even number",
        ),
        (
            star,
            "kind = \"ring\"\nswitches = 2\nservers = 2",
            "line 8, column 12: `topology.switches`: a ring has at least 3 switches",
        ),
        (
            star,
            "kind = \"fat-tree\"\nracks = 1\nchassis = 1\nservers = 4\ntors = 3\ncores = 4",
            "line 12, column 9: `topology.cores`: core switches are shared out among the 3 `tors` of a rack: write a multiple of that",
        ),
    ]);
    added(&[
        ("[link]\ndelay = \"2s\"", "line 15, column 9: `link.delay`: a link's delay is at most 1s: lower it"),
        (
            "[topology.access]\nrate = \"100tbit\"",
            "line 15, column 8: `topology.access.rate`: a link's rate lies in 1kbit to 10tbit",
        ),
        (
            "[output]\npcapng = \"server9-switch0\"",
            "line 15, column 10: `output.pcapng`: there is no link `server9-switch0`: links join server and switch, counted from 0",
        ),
        (
            "[output]\npcapng = \"host9-switch0\"",
            "line 15, column 10: `output.pcapng`: `host9-switch0` is not a link: write server0-leaf0: the names of its ends",
        ),
        (
            "[output]\nsamples = \"10ns\"",
            "line 15, column 11: `output.samples`: queues are looked at no more often than each microsecond: raise it",
        ),
    ]);
}

#[test]
fn classes_have_a_name_and_a_priority_of_their_own() {
    added(&[
        (
            "class = \"bulk\"",
            "line 14, column 9: `workload.burst.class`: `bulk` is not known here: write one of default",
        ),
        (
            "class = \"urgnt\"\n[class.urgent]",
            "line 14, column 9: `workload.burst.class`: `urgnt` is not known here: did you mean `urgent`?",
        ),
        (
            "[class.default]\n[class.a]\npriority = 3\n[class.b]\npriority = 3",
            "line 18, column 12: `class.b.priority`: class `a` has priority 3 already: give each class its own",
        ),
        (
            "[class.Bulk]\npriority = 3\n[class.default]",
            "line 14, column 8: `class.Bulk`: `Bulk` is no name: write lowercase letters, digits, `-` and `_`, a letter first",
        ),
        (
            "[class.default]\nweight = 0",
            "line 15, column 10: `class.default.weight`: a weight lies in 1 to 1000",
        ),
        (
            "[class.default]\necn = \"0b\"",
            "line 15, column 7: `class.default.ecn`: every frame would be marked: raise it, or leave it out",
        ),
    ]);
}

#[test]
fn machines_are_there() {
    replaced(&[
        (
            "\"vm@1-3\"",
            "\"worker\"",
            "line 11, column 11: `workload.burst.senders`: `worker` is not known here: write one of vm, any",
        ),
        (
            "\"vm@1-3\"",
            "\"vm@1-9\"",
            "line 11, column 11: `workload.burst.senders`: there is no server 9: they count from 0 to 3",
        ),
        (
            "\"vm@1-3\"",
            "\"vm@1-3/1\"",
            "line 11, column 11: `workload.burst.senders`: there is no machine 1 of that role: a server has 1, counted from 0",
        ),
        (
            "\"vm@1-3\"",
            "\"vm@0\"",
            "line 11, column 11: `workload.burst.senders`: nobody is left who sends: nobody sends to itself",
        ),
        (
            "\"vm@0\"",
            "\"vm\"",
            "line 12, column 12: `workload.burst.receiver`: incast has one receiver, not 4: write `ROLE@SERVER/0`",
        ),
    ]);
    added(&[
        (
            "[virtual]\nvms = {}",
            "line 15, column 1: `virtual.vms`: a server has at least one machine: write `vms = { vm = 1 }`",
        ),
        (
            "[virtual]\nvms = { vm = 0 }",
            "line 15, column 14: `virtual.vms.vm`: a role has at least one machine: raise it, or take the role out",
        ),
        (
            "[virtual]\nvms = { any = 1 }",
            "line 15, column 15: `virtual.vms.any`: `any` means every machine: give the role another name",
        ),
        (
            "[virtual]\nvms = { vm = 2 }\nswitch = false",
            "line 16, column 10: `virtual.switch`: without a virtual switch a server has one machine: write `vms = { vm = 1 }`",
        ),
    ]);
}

#[test]
fn queues_hold_what_is_promised() {
    let lossless = "for the links from server to switch";
    let buffer = "[fabric.buffer]\nkind = \"private-input\"\nbytes = \"9kb\"";
    let shared = "[fabric.buffer]\nkind = \"shared\"\nbytes = \"14kb\"";
    added(&[
        (
            "[fabric]\nnic_queue = \"1kb\"",
            "line 15, column 13: `fabric.nic_queue`: it holds not even one frame: write at least 1500b",
        ),
        (
            "[virtual]\negress = \"1499b\"",
            "line 15, column 10: `virtual.egress`: it holds not even one frame: write at least 1500b",
        ),
        (
            "[virtual]\ningress = \"2000gib\"",
            "line 15, column 11: `virtual.ingress`: no queue is larger than 1024gib: lower it",
        ),
        (
            buffer,
            &format!(
                "line 16, column 9: `fabric.buffer.bytes`: a lossless class holds 3000b until its sender is paused and 10263b of headroom, {lossless}: write at least 13263b, or `flow_control.physical = \"lossy\"`"
            ),
        ),
        (
            shared,
            "line 16, column 9: `fabric.buffer.bytes`: the headroom of all ports of switch0 is 41052b: write at least 44052b, or `flow_control.physical = \"lossy\"`",
        ),
        (
            "[fabric]\npfc.xoff = \"135kb\"",
            &format!(
                "line 14, column 2: `fabric.buffer.bytes`: a lossless class holds 135000b until its sender is paused and 10263b of headroom, {lossless}: write at least 145263b, or `flow_control.physical = \"lossy\"`"
            ),
        ),
        (
            "[fabric]\npfc.xoff = \"1kb\"",
            "line 15, column 12: `fabric.pfc.xoff`: a sender is not paused before two frames have come: write at least 3000b",
        ),
        (
            "[fabric]\npfc.xoff = \"50kb\"\npfc.xon = \"60kb\"",
            "line 16, column 11: `fabric.pfc.xon`: a pause would end at once: write less than `xoff`",
        ),
        (
            "[fabric]\nbuffer = { kind = \"shared\", bytes = \"1mb\" }\npfc.xoff = \"100kb\"",
            "line 16, column 12: `fabric.pfc.xoff`: in a shared memory `alpha` moves the thresholds: leave it out",
        ),
        (
            "[fabric]\nbuffer = { kind = \"shared\", bytes = \"1mb\", alpha = nan }",
            "line 15, column 52: `fabric.buffer.alpha`: `alpha` lies in 0.001 to 1000",
        ),
    ]);
}

#[test]
fn the_least_that_is_asked_for_is_enough_and_no_more_than_that() {
    let rest = [
        "",
        "[fabric.pfc]\nxon = \"50kb\"",
        "[fabric.pfc]\nxoff = \"50kb\"\nheadroom = \"9kb\"",
        "[class.a]\npriority = 1\n[class.default]",
    ];
    let kinds = ["private-input", "per-output", "shared"];
    for (kind, rest) in kinds.into_iter().flat_map(|kind| rest.map(|rest| (kind, rest))) {
        if kind == "shared" && rest.contains("xo") {
            continue;
        }
        let with =
            |bytes: u64| format!("{SMALL}[fabric.buffer]\nkind = \"{kind}\"\nbytes = \"{bytes}b\"\n{rest}\n");
        let answer = fault(&with(2000));
        let (_, advice) = answer.split_once("write at least ").unwrap();
        let least: u64 = advice.split_once('b').unwrap().0.parse().unwrap();
        assert!(Plan::parse(&with(least)).is_ok(), "{answer}");
        assert_eq!(fault(&with(least - 1)), answer);
    }
}

#[test]
fn a_run_ends_and_something_of_it_counts() {
    replaced(&[
        ("\"1s\"", "\"0s\"", "line 5, column 12: `run.duration`: nothing can happen in no time: raise it"),
        (
            "\"1s\"",
            "\"1s\"\nwarmup = \"1s\"",
            "line 6, column 10: `run.warmup`: the run would end before anything counts: lower it, or raise `duration`",
        ),
        (
            "\"1s\"",
            "\"1s\"\nqueries = 5",
            "line 6, column 11: `run.queries`: all workloads together have 1: lower it, or give a workload more",
        ),
        (
            "\"1s\"",
            "\"1s\"\nseed = 4611686018427387905",
            "line 6, column 8: `run.seed`: a seed is at most 2^62: write a smaller one",
        ),
    ]);
    let endless = format!("{SMALL}{FLOWS}load = 0.1\n");
    let never = "line 4, column 2: `run`: workload `flows` never ends, nor would the run: add `duration`";
    assert_eq!(fault(&endless.replace("duration = \"1s\"", "")), never);
    // One query comes, and may come too early to count.
    assert_eq!(fault(&endless.replace("duration = \"1s\"", "queries = 1")), never);
    assert!(Plan::parse(&format!("{endless}{QUERIES}").replace("duration = \"1s\"", "queries = 1")).is_ok());
    assert!(Plan::parse(&SMALL.replace("duration = \"1s\"", "")).is_ok(), "incast ends by itself");
}

#[test]
fn tcp_can_be_set_so() {
    added(&[
        (
            "[tcp]\ncontrol = \"dctcp\"",
            "line 15, column 11: `tcp.control`: DCTCP lives on marks: add `ecn = \"65kb\"` to [class.default]",
        ),
        (
            "[tcp]\ncontrol = \"dctcp\"\necn = false\n[class.default]\necn = \"65kb\"",
            "line 16, column 7: `tcp.ecn`: DCTCP lives on marks: leave it out, or take another `control`",
        ),
        (
            "[tcp]\nrto_min = \"0ns\"",
            "line 15, column 11: `tcp.rto_min`: a retransmission timeout lies above 0 and at most at 60s",
        ),
        (
            "[tcp]\nreceive_buffer = \"2kb\"",
            "line 15, column 18: `tcp.receive_buffer`: a receive buffer has at least two packets of the MTU and at most 1gib",
        ),
        (
            "[tcp]\ninitial_window = 0",
            "line 15, column 18: `tcp.initial_window`: an initial window has 1 to 10000 segments",
        ),
    ]);
}

#[test]
fn workloads_have_somebody_to_do_something_with() {
    let queries = |more: &str| fault(&format!("{SMALL}{QUERIES}{more}\n"));
    let without = |from: &str, to: &str| fault(&format!("{SMALL}{}", QUERIES.replace(from, to)));
    let flows = |more: &str| fault(&format!("{SMALL}{FLOWS}{more}\n"));
    let stream = |more: &str| fault(&format!("{SMALL}{STREAM}{more}\n"));
    let added = |more: &str| fault(&format!("{SMALL}{more}\n"));
    let cases = [
        (
            queries("fan_out = 4"),
            "line 21, column 11: `workload.queries.fan_out`: a query can ask 1 to 3: lower it, or leave it out for all",
        ),
        (
            queries("mids = \"vm@0\""),
            "line 21, column 8: `workload.queries.mids`: the only one of the group of server0 is an aggregator, and would have to ask itself: choose more",
        ),
        (
            queries("queries = 0"),
            "line 21, column 11: `workload.queries.queries`: there is at least one query: raise it, or leave it out",
        ),
        (
            queries("arrivals = \"posson\""),
            "line 21, column 12: `workload.queries.arrivals`: `posson` is not known here: did you mean `poisson`?",
        ),
        (
            queries("arrivals = \"web-search\""),
            "line 21, column 12: `workload.queries.arrivals`: `web-search` is not known here: write one of poisson, fixed, log-normal(2)",
        ),
        (
            without("\"vm\"\n", "\"vm@0\"\n"),
            "line 17, column 11: `workload.queries.workers`: an aggregator would have nobody to ask but itself: choose more",
        ),
        (
            without("\"1kb\"", "\"0b\""),
            "line 18, column 11: `workload.queries.request`: it has 1b to 1024gib",
        ),
        (
            without("gap = \"1ms\"", ""),
            "line 14, column 11: `workload.queries`: `gap` is missing: add the mean time from one query to the next",
        ),
        (
            without("\"1ms\"", "\"0ms\""),
            "line 20, column 7: `workload.queries.gap`: everything would come at once: raise it above 0, or write `closed = true`",
        ),
        (
            flows(""),
            "line 14, column 11: `workload.flows`: add `load`, the share of a server's link, or `gap`, the mean time to a source's next flow",
        ),
        (
            flows("load = 0.1\ngap = \"1ms\""),
            "line 17, column 8: `workload.flows.load`: `gap` says it too: leave one of them out",
        ),
        (
            flows("load = 20"),
            "line 17, column 8: `workload.flows.load`: a load is a share of a server's link, 0 to 10: write 0.1 for a tenth",
        ),
        (
            flows("load = nan"),
            "line 17, column 8: `workload.flows.load`: a load is a share of a server's link, 0 to 10: write 0.1 for a tenth",
        ),
        (
            flows("load = 0.1\nclosed = true"),
            "line 17, column 8: `workload.flows.load`: a source that waits for its flow's end offers no fixed load: write `gap`, or leave `closed` out",
        ),
        (
            flows("load = 0.1\nrate = \"1gbit\""),
            "line 18, column 8: `workload.flows.rate`: TCP finds its own rate: leave it out, or write `transport = \"udp\"`",
        ),
        (
            flows("load = 0.1\nstart = \"2s\""),
            "line 18, column 9: `workload.flows.start`: the run ends before: lower it, or raise `run.duration`",
        ),
        (
            flows("load = 0.1\nstart = \"2ms\"\nstop = \"1ms\""),
            "line 19, column 8: `workload.flows.stop`: it would end before it begins: write more than `start`",
        ),
        (
            flows("load = 0.1\ndestinations = \"vm@1\"\nsources = \"vm@1\""),
            "line 18, column 16: `workload.flows.destinations`: a source would send to itself: choose more destinations",
        ),
        (
            stream("destination = \"vm@1\""),
            "line 17, column 15: `workload.stream.destination`: a source would send to itself: choose others",
        ),
        (
            stream("destination = \"vm@1-3\""),
            "line 17, column 15: `workload.stream.destination`: 2 sources and 3 destinations make no pairs: choose as many, or one destination",
        ),
        (
            stream("destination = \"vm@2\"\ndatagram = \"1kb\""),
            "line 18, column 12: `workload.stream.datagram`: TCP cuts its own segments: leave it out, or write `transport = \"udp\"`",
        ),
        (
            stream("destination = \"vm@2\"\ntransport = \"udp\"\ndatagram = \"2kb\""),
            "line 19, column 12: `workload.stream.datagram`: a datagram in one packet of the MTU carries 1 to 1418 bytes",
        ),
        (
            added("fan_in = 4"),
            "line 14, column 10: `workload.burst.fan_in`: a round has 1 to 3 senders: lower it, or leave it out for all",
        ),
        (
            added("[workload.p]\nkind = \"permutation\"\nstride = 8"),
            "line 16, column 10: `workload.p.stride`: each would send to itself: write what is no multiple of 4",
        ),
        (
            added("[workload.a]\nkind = \"all-to-all\"\nvms = \"vm@1\"\nbytes = \"1kb\""),
            "line 16, column 7: `workload.a.vms`: it takes two machines: choose more",
        ),
    ];
    for (answer, expected) in cases {
        assert_eq!(answer, expected);
    }
}

#[test]
fn a_mistake_in_a_sweep_is_found_where_it_is_written() {
    let cases = [
        (
            "tcp.contrl = [\"reno\"]",
            "line 15, column 15: `tcp.contrl`: `contrl` is not known here: did you mean `control`? (in tcp.contrl=reno)",
        ),
        (
            "tcp.control = [\"reno\", \"newreno\"]",
            "line 15, column 24: `tcp.control`: `newreno` is not known here: write one of reno, cubic, vegas, dctcp (in tcp.control=newreno)",
        ),
        (
            "topology.servers = [4, 2]",
            "line 11, column 11: `workload.burst.senders`: there is no server 3: they count from 0 to 1 (in topology.servers=2)",
        ),
        (
            "workload.other.bytes = [\"1kb\"]",
            "line 15, column 25: `workload.other`: `kind` is missing: add it here (in workload.other.bytes=1kb)",
        ),
        (
            "x = [{ name = \"a\" }, { name = \"b\", topology = { kind = \"star\", server = 3 } }]",
            "line 15, column 47: `topology.server`: `server` is not known here: did you mean `servers`? (in x=b)",
        ),
        (
            "version = [1, 2]",
            "line 15, column 15: `version`: this program reads version 1 of the schema: a sweep cannot vary it (in version=2)",
        ),
        (
            "tcp.control = \"reno\"",
            "line 15, column 15: `sweep.tcp.control`: a field of a sweep is a list of its values: write `[value, value]`",
        ),
        (
            "tcp.control = []",
            "line 15, column 15: `sweep.tcp.control`: a field of a sweep is a list of its values: write `[value, value]`",
        ),
        (
            "link.rate = [[1]]",
            "line 15, column 14: `sweep.link.rate`: a value is a word, a number, true or false, or a case: a table with a `name`",
        ),
        (
            "tcp.control = [\"reno\", \"reno\"]",
            "line 15, column 24: `sweep.tcp.control`: `reno` is there twice: take one out",
        ),
        (
            "x = [{ name = \"a\" }, { name = \"a\" }]",
            "line 15, column 22: `sweep.x`: `a` is there twice: take one out",
        ),
        (
            "x = [{ tcp.control = \"cubic\" }]",
            "line 15, column 6: `sweep.x`: a case has a `name`: letters, digits, `-`, `_`, `.` and `+`",
        ),
        (
            "tcp.control = [\"reno\"]\nx = [{ name = \"a\", tcp.control = \"cubic\" }]",
            "line 16, column 34: `sweep.x`: `tcp.control` sets `tcp.control` too: set a field along one axis only",
        ),
        (
            "x = [{ name = \"a\", topology = { kind = \"star\", servers = 4 } }]\ntopology.servers = [5]",
            "line 16, column 21: `sweep.topology.servers`: `x` sets `topology.servers` too: set a field along one axis only",
        ),
        (
            "name.x = [1]",
            "line 15, column 11: `name.x`: `name` is no table, so nothing inside it can be set (in name.x=1)",
        ),
        (
            "repeat = 0",
            "line 15, column 10: `sweep.repeat`: write how often each combination runs, from 1 to 10000",
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(fault(&format!("{SMALL}[sweep]\n{line}\n")), expected);
    }
    let word = "line 1, column 9: `sweep`: a sweep is a table: write `[sweep]`, and below it fields with lists of values";
    assert_eq!(fault(&format!("sweep = 3{SMALL}")), word);
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let text = SMALL.replace("\"1s\"", "\"0s\"").replace("servers = 4", "servers = 0");
    let faults = Plan::parse(&format!("{text}[link]\ndelay = \"2s\"\n")).unwrap_err();
    let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(fields, ["run.duration", "topology.servers", "link.delay"]);
}
