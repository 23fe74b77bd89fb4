//! Networks that cannot be built.

use sim::scenario::Plan;

use super::{SMALL, added, fault, replaced};

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
            "kind = \"ring\"\nswitches = 10001\nservers = 1",
            "line 6, column 2: `topology`: that makes 10001 switches: at most 10000 can be simulated",
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
        (
            "[virtual]\nswitch = false\npaced = false",
            "line 16, column 9: `virtual.paced`: without a virtual switch nothing else bounds what a machine sends: leave it out",
        ),
        (
            "[virtual]\nstack_jitter = \"2s\"",
            "line 15, column 16: `virtual.stack_jitter`: a stack takes at most 1s: lower it",
        ),
        (
            "[link]\ndelay = \"2s\"",
            "line 15, column 9: `link.delay`: a link's delay is at most 1s: lower it",
        ),
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
fn switches_can_pause_flows() {
    added(&[
        (
            "[fabric]\nflow_queues = 0",
            "line 15, column 15: `fabric.flow_queues`: an output has 1 to 128 queues for flows of a class",
        ),
        (
            "[fabric]\nflow_queues = 129",
            "line 15, column 15: `fabric.flow_queues`: an output has 1 to 128 queues for flows of a class",
        ),
    ]);
    let ring = SMALL.replace("kind = \"star\"", "kind = \"ring\"\nswitches = 4");
    assert_eq!(
        fault(&format!("{ring}[virtual]\ncongestion = \"bfc\"\n")),
        "line 16, column 14: `virtual.congestion`: paused flows could wait for each other in a circle, which nobody would find: \
         write `topology.routing = \"line\"`",
    );
}

#[test]
fn networks_have_terms_that_can_be_kept() {
    added(&[
        (
            "[network.blue]\nmachines = \"any\"",
            "line 14, column 2: `network`: terms hold where credit is granted: add `virtual.grants = true`",
        ),
        (
            "[virtual]\ngrants = true\ncongestion = \"qcn\"",
            "line 15, column 10: `virtual.grants`: credit is granted beside `congestion = \"lanes\"` or \"none\": write one of these",
        ),
        (
            "[virtual]\ngrants = true\nlatency = \"2s\"",
            "line 16, column 11: `virtual.latency`: hosts are late by at most 1s: lower it",
        ),
        (
            "[virtual]\ngrants = true\n[network.blue]\nmachines = \"any\"\n[network.red]\nmachines = \"vm@1\"",
            "line 19, column 12: `network.red.machines`: some of them are in `blue`: a machine has one network",
        ),
        (
            "[virtual]\ngrants = true\n[network.blue]\nmachines = \"vm@9\"",
            "line 17, column 12: `network.blue.machines`: there is no server 9: they count from 0 to 3",
        ),
        (
            "[virtual]\ngrants = true\n[network.blue]\nmachines = \"vm@0\"\nmin = \"2gbit\"\nmax = \"1gbit\"",
            "line 18, column 7: `network.blue.min`: it is more than `max`: lower it",
        ),
        (
            "[virtual]\ngrants = true\n[network.blue]\nmachines = \"vm@0\"\nweight = 0",
            "line 18, column 10: `network.blue.weight`: a weight lies in 1 to 1000",
        ),
        (
            "[virtual]\ngrants = true\n[network.blue]\nmachines = \"vm@0\"\nmin = \"5gbit\"\n[network.red]\nmachines = \"vm@1\"\nmin = \"5gbit\"",
            "line 16, column 2: `network`: `min` of all networks is 10gbit together, and at most 94 % of a server's link of 10gbit can be promised: lower one",
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
            "[virtual]\nvms = { vm = 1023 }\n[class.default]\n[class.other]\npriority = 1",
            "line 15, column 1: `virtual.vms`: a virtual switch has ports for each class and 1022 machines, not 1023",
        ),
        (
            "[virtual]\nrate = \"999bit\"",
            "line 15, column 8: `virtual.rate`: a virtual NIC's rate lies in 1kbit to 10tbit",
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
            "[fabric]\nnic_queue = \"13kb\"",
            "line 15, column 13: `fabric.nic_queue`: what a virtual switch has no room for yet waits here until its sender is paused, and 10263b after that: write at least 13263b, or `flow_control.physical = \"lossy\"`",
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
        let with = |bytes: u64| {
            format!("{SMALL}[fabric.buffer]\nkind = \"{kind}\"\nbytes = \"{bytes}b\"\n{rest}\n")
        };
        let answer = fault(&with(2000));
        let (_, advice) = answer.split_once("write at least ").unwrap();
        let least: u64 = advice.split_once('b').unwrap().0.parse().unwrap();
        assert!(Plan::parse(&with(least)).is_ok(), "{answer}");
        assert_eq!(fault(&with(least - 1)), answer);
    }
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
fn what_a_virtual_switch_carries_is_waited_for() {
    added(&[
        (
            "[virtual]\ncapacity = {}",
            "line 15, column 1: `virtual.capacity`: it says neither `frames` nor `bits`: add one of them, or leave it out",
        ),
        (
            "[virtual]\ncapacity = { frames = 0 }",
            "line 15, column 23: `virtual.capacity.frames`: a virtual switch carries 1 to 1000000000 frames a second",
        ),
        (
            "[virtual]\ncapacity = { bits = \"1bit\" }",
            "line 15, column 21: `virtual.capacity.bits`: a virtual switch carries 1kbit to 10tbit a second",
        ),
        (
            "[virtual]\ncapacity = { frames = 1, servers = 5 }",
            "line 15, column 36: `virtual.capacity.servers`: there are 1 to 4 servers that may have it",
        ),
        (
            "[virtual]\nswitch = false\ncapacity = { frames = 1 }",
            "line 16, column 1: `virtual.capacity`: without a virtual switch nothing is carried by one: leave it out",
        ),
        (
            "[virtual]\ncapacity = { frames = 1 }\n[flow_control]\nvirtual = \"lossy\"",
            "line 15, column 1: `virtual.capacity`: what exceeds it waits, and frames of lossy classes do not: have all of them lossless in the virtual network, or leave it out",
        ),
        (
            "[virtual]\ncongestion = \"lanes\"\ncapacity = { frames = 1 }",
            "line 16, column 1: `virtual.capacity`: it is simulated without congestion control and grants: leave one of them out",
        ),
    ]);
}
