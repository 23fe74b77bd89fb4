//! Runs and workloads that cannot be.

use sim::scenario::Plan;

use super::{SMALL, added, fault, replaced};

const QUERIES: &str = "[workload.queries]\nkind = \"partition-aggregate\"\naggregators = \"vm@0\"\nworkers = \"vm\"\n\
                       request = \"1kb\"\nreply = \"2kb\"\ngap = \"1ms\"\n";

const FLOWS: &str = "[workload.flows]\nkind = \"flows\"\nsizes = \"web-search\"\n";

const STREAM: &str = "[workload.stream]\nkind = \"stream\"\nsource = \"vm@0-1\"\n";

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
fn a_run_ends_and_something_of_it_counts() {
    replaced(&[
        (
            "\"1s\"",
            "\"0s\"",
            "line 5, column 12: `run.duration`: nothing can happen in no time: raise it",
        ),
        (
            "\"1s\"",
            "\"289000min\"",
            "line 5, column 12: `run.duration`: time counts in picoseconds, which last for 200 days: lower it",
        ),
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
            "\"1s\"\nprecision = 5",
            "line 6, column 13: `run.precision`: the share of the mean by which it may be wrong lies between 0 and 1: 0.05 is usual",
        ),
        (
            "\"1s\"",
            "\"1s\"\nseed = 4611686018427387905",
            "line 6, column 8: `run.seed`: a seed is at most 2^62: write a smaller one",
        ),
    ]);
    let endless = format!("{SMALL}{FLOWS}load = 0.1\n");
    let never =
        "line 4, column 2: `run`: workload `flows` never ends, nor would the run: add `duration`";
    assert_eq!(fault(&endless.replace("duration = \"1s\"", "")), never);
    // One query comes, and may come too early to count.
    assert_eq!(fault(&endless.replace("duration = \"1s\"", "queries = 1")), never);
    assert!(
        Plan::parse(&format!("{endless}{QUERIES}").replace("duration = \"1s\"", "queries = 1"))
            .is_ok()
    );
    assert!(Plan::parse(&SMALL.replace("duration = \"1s\"", "")).is_ok(), "incast ends by itself");
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
            flows("load = 1e-320"),
            "line 14, column 11: `workload.flows`: its gaps are too short or too long to be counted: write another mean, or other `arrivals`",
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
            flows("load = 0.1\ntransport = \"udp\"\nrate = \"1001gbit\""),
            "line 19, column 8: `workload.flows.rate`: a sender's rate lies in 1kbit to 1tbit",
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
fn sources_that_go_through_states_have_a_chain_of_them() {
    const STATES: &str = "[workload.states]\nkind = \"markov\"\nsources = \"vm@0-1\"\ndestinations = \"vm@2-3\"\n\
                          rates = [\"0\", \"1gbit\"]\nhold = [\"1s\", \"2s\"]\n";
    assert!(Plan::parse(&format!("{SMALL}{STATES}")).is_ok());
    let with = |from: &str, to: &str| {
        assert!(STATES.contains(from), "{from}");
        fault(&format!("{SMALL}{}", STATES.replace(from, to)))
    };
    let cases = [
        (
            with("vm@2-3", "vm@1-3"),
            "line 17, column 16: `workload.states.destinations`: 2 sources and 3 destinations make no pairs: choose as many, or one destination",
        ),
        (
            with("vm@2-3", "vm@0"),
            "line 17, column 16: `workload.states.destinations`: a source would send to itself: choose others",
        ),
        (
            with("\"0\"", "\"fast\""),
            "line 18, column 9: `workload.states.rates`: `fast` is not a state's rate: write 100mbit, 2.5gbit, or 0 for none",
        ),
        (
            with("1gbit", "10bit"),
            "line 18, column 9: `workload.states.rates`: a sender's rate lies in 1kbit to 1tbit",
        ),
        (
            with(", \"2s\"", ""),
            "line 19, column 8: `workload.states.hold`: each state has a rate and a holding time: write as many of both",
        ),
        (
            with("2s", "0s"),
            "line 19, column 8: `workload.states.hold`: state 1 needs a holding time above zero",
        ),
        (
            with("\"2s\"]", "\"2s\"]\njump = [[0, 0.5], [1, 0]]"),
            "line 20, column 8: `workload.states.jump`: the jumps from state 0 have to sum to 1, and sum to 0.5",
        ),
        (
            with("\"2s\"]", "\"2s\"]\nframe = \"28b\""),
            "line 20, column 9: `workload.states.frame`: a packet of UDP has 29 to 1446 bytes, its headers included",
        ),
        (
            with("\"2s\"]", "\"2s\"]\nqueue = \"1kb\""),
            "line 20, column 9: `workload.states.queue`: at least one packet waits: write 1446b or more, to 1024gib",
        ),
        (
            with(
                "[workload.states]",
                "[workload.other]\nkind = \"markov\"\nsources = \"vm@0\"\ndestinations = \"vm@1\"\n\
                 rates = [\"1mbit\", \"0\"]\nhold = [\"1s\", \"1s\"]\ntogether = \"nightly\"\n\
                 [workload.states]\ntogether = \"nightly\"",
            ),
            "line 22, column 12: `workload.states.together`: it moves together with `other`, whose `hold` and `jump` differ: write the same, or another word",
        ),
    ];
    for (told, expected) in cases {
        assert_eq!(told, expected);
    }
}
