//! What workloads promise: when they begin, go on and end.

mod common;

use common::run;
use sim::Ending;

#[test]
fn a_stream_of_datagrams_ends_at_its_stop() {
    let out = run(r#"
version = 1
name = "stop"
[topology]
kind = "star"
servers = 2
[workload.stream]
kind = "stream"
source = "vm@0"
destination = "vm@1"
transport = "udp"
rate = "1gbit"
datagram = "1000b"
stop = "2ms"
"#);
    // One every 8 µs from 0 to 2 ms, both included.
    assert_eq!((out.ending, out.datagrams), (Ending::Done, 251));
}
