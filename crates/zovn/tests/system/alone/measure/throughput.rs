//! What a switch carries between containers and between ports in memory.

use super::measured;

#[test]
fn containers_pass_a_stream_and_frames() {
    let arguments = [
        "throughput",
        "--switch",
        "zovn",
        "--sizes",
        "200",
        "--duration",
        "300ms",
        "--rounds",
        "1",
    ];
    let (object, code) = measured(&arguments);
    let results = object["results"].as_array().unwrap();
    assert_eq!(code, Some(0), "{results:#?}");
    let loads: Vec<_> = results.iter().map(|result| result["load"].as_str().unwrap()).collect();
    assert_eq!(loads, ["tcp", "udp"]);
    for result in results {
        assert!(result["gbps"].as_f64().unwrap() > 0.0);
        assert_eq!((&result["lost"], &result["balanced"]), (&0.into(), &true.into()));
    }
}

#[test]
fn ports_in_memory_need_no_choice_of_switch() {
    let arguments =
        ["throughput", "--ports", "memory", "--sizes", "64", "--duration", "20ms", "--rounds", "1"];
    let (object, code) = measured(&arguments);
    assert_eq!(code, Some(0));
    let switches: Vec<_> = object["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["switch"].as_str().unwrap())
        .collect();
    assert_eq!(switches, ["zovn-lossy", "zovn"]);
}
