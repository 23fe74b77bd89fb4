//! What is not said in the scenario language.

use sim::scenario::Plan;

use super::{SMALL, added, fault, replaced};

#[test]
fn a_field_that_is_not_known_is_the_one_that_it_is_like() {
    replaced(&[
        (
            "servers = 4",
            "server = 4",
            "line 8, column 1: `topology.server`: `server` is not known here: did you mean `servers`?",
        ),
        (
            "[run]",
            "[runs]",
            "line 4, column 2: `runs`: `runs` is not known here: did you mean `run`?",
        ),
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
        (
            "[sweeps]",
            "line 14, column 2: `sweeps`: `sweeps` is not known here: did you mean `sweep`?",
        ),
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
        (
            "[distribution.own]",
            "line 14, column 15: `distribution.own`: `points` is missing: add it here",
        ),
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
            "line 15, column 8: `link.rate`: `10gb` is not a rate: write it as 1gbit, 100mbit or 2.5gbit",
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
            "line 15, column 12: `class.default.priority`: this is the whole number `8`: write a class, from 0 to 7",
        ),
        ("[[workload.x]]", "line 14, column 1: `workload.x`: this is a list: write a table"),
        (
            "[distribution.own]\npoints = [[1, 0.5, 2]]",
            "line 15, column 10: `distribution.own.points`: this is a list of length 3: write a value and a share: `[10e3, 0.5]`",
        ),
    ]);
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
fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() {
    let text = SMALL.replace("\"1s\"", "\"0s\"").replace("servers = 4", "servers = 0");
    let faults = Plan::parse(&text.replace("[run]", "[link]\ndelay = \"2s\"\n[run]")).unwrap_err();
    let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(fields, ["link.delay", "run.duration", "topology.servers"]);
}
