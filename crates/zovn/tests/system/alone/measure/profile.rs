//! Profiles of switches.

use std::fs;

use lab::SwitchKind;
use serde_json::Value;

use super::{has, measured, zovn};

/// One size, short: what is told of it holds together, whatever else the machine does.
#[test]
fn a_profile_says_what_switches_carry_and_what_bounds_it() {
    let mut switches = "bridge,zovn".to_owned();
    if needs::checked(SwitchKind::Ovs.check()) {
        switches += ",ovs";
    }
    let size = ["--sizes", "512", "--senders", "1", "--duration", "200ms", "--rounds", "1"];
    let (object, code) = measured(
        &[&["profile", "--switch", &switches, "--tunnels", "none,geneve"], &size[..]].concat(),
    );
    assert_eq!((code, &object["experiment"]), (Some(0), &"profile".into()), "{object:#}");
    let results = object["results"].as_array().unwrap();
    // Two ways, zovn with a tunnel as well; of each a size and two kinds of streams, of ovs one.
    let entries = |it: &str| results.iter().filter(|one| one["switch"] == it).count();
    let expected = [6, 9, if switches.ends_with("ovs") { 4 } else { 0 }];
    assert_eq!(["bridge", "zovn", "ovs"].map(entries), expected);
    for one in results {
        let hosts = if one["way"] == "link" { (1_u64, "cable".into()) } else { (0, Value::Null) };
        assert_eq!((&one["far"], &one["underlay"]), (&hosts.0.into(), &hosts.1), "{one:#}");
        has(
            one,
            &["way", "tunnel", "cores", "load", "offload", "size", "bound_by", "at_least", "busy"],
        );
        let figure = |name: &str, of: &str| one[name][of].as_f64().unwrap();
        let (fps, gbps) = (figure("fps", "median"), figure("gbps", "median"));
        assert!(fps > 100.0, "{one:#}");
        assert_eq!(figure("fps", "min"), figure("fps", "max"), "one round: {one:#}");
        let size = one["size"].as_f64().unwrap();
        assert!((gbps * 1e9 / 8.0 / fps / size - 1.0).abs() < 0.01, "{one:#}");
        assert_eq!(one["busy"]["switch"].is_null(), one["switch"] == "bridge");
        assert_eq!(one["switch_ns_per_frame"].is_null(), one["switch"] == "bridge");
        assert_eq!(one["at_least"], one["bound_by"] != "switch");
        let is_stream = one["load"] == "stream";
        assert_eq!(one["curve"].as_array().unwrap().len(), if is_stream { 0 } else { 7 });
        // A large segment is several frames of the MTU, and nothing else is larger than one.
        let is_large = size > 1600.0;
        assert_eq!(is_large, one["offload"] == true, "{one:#}");
    }
}

/// A processor alone, and two far hosts beside one.
#[test]
fn processors_and_far_hosts_are_numbers_of_a_profile() {
    let places = ["--ways", "link", "--tunnels", "geneve", "--far", "1,2", "--cores", "1"];
    let size = ["--sizes", "512", "--loads", "frames", "--duration", "200ms", "--rounds", "1"];
    let (object, code) = measured(&[&["profile", "--switch", "zovn"], &places[..], &size].concat());
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    let far: Vec<_> = results.iter().map(|one| one["far"].as_u64().unwrap()).collect();
    assert_eq!(far, [1, 2]);
    for one in results {
        assert_eq!((&one["underlay"], &one["cores"]), (&"bridge".into(), &1.into()), "{one:#}");
        assert!(one["fps"]["median"].as_f64().unwrap() > 100.0, "{one:#}");
        let counts = (&one["lost"], &one["duplicates"], &one["balanced"]);
        assert_eq!(counts, (&0.into(), &0.into(), &true.into()), "{one:#}");
        // All share one processor; each looks at a part of the time of its own.
        let busy = |name: &str| one["busy"][name].as_f64().unwrap();
        assert!(busy("switch") + 2.0 * busy("sender") + busy("receiver") < 1.5, "{one:#}");
    }
}

/// Short streams and small files: what is told of them holds together.
#[test]
fn the_papers_streams_and_downloads_are_told_by_box_plots() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("paper.html");
    let mut switches = vec!["bridge", "zovn"];
    if needs::checked(SwitchKind::Ovs.check()) {
        switches.push("ovs");
    }
    let list = switches.join(",");
    let case = ["profile", "--paper", "--switch", &list, "--tunnels", "none,vxlan,geneve,gre"];
    let size = ["--senders", "2", "--duration", "400ms", "--downloads", "100kb,1mb"];
    let rest = ["--rounds", "6", "--report", report.to_str().unwrap()];
    let (object, code) = measured(&[&case[..], &size, &rest].concat());
    assert_eq!((code, &object["experiment"]), (Some(0), &"paper".into()), "{object:#}");
    let results = object["results"].as_array().unwrap();
    // Of a bridge none and vxlan, of ovs gre as well, of zovn geneve, too; of each streams and both
    // sizes.
    let entries = |it: &str| results.iter().filter(|one| one["switch"] == it).count();
    let expected = [2 * 3, 4 * 3, if switches.len() == 3 { 3 * 3 } else { 0 }];
    assert_eq!(["bridge", "zovn", "ovs"].map(entries), expected);
    for one in results {
        has(one, &["way", "tunnel", "offload", "bound_by", "at_least", "busy", "retransmits"]);
        let gbps = &one["gbps"];
        let five: Vec<_> = ["low", "q1", "median", "q3", "high"]
            .iter()
            .map(|name| gbps[*name].as_f64().unwrap())
            .collect();
        assert!(five.is_sorted() && five[2] > 0.0, "{one:#}");
        let (least, most) = (gbps["min"].as_f64().unwrap(), gbps["max"].as_f64().unwrap());
        assert!(least <= five[0] && five[4] <= most, "{one:#}");
        let beyond = gbps["outliers"].as_array().unwrap().len();
        assert_eq!(beyond > 0, least < five[0] || five[4] < most, "{one:#}");
        // A stream has twenty parts, and a file comes as often as it was asked for.
        let (is_stream, count) = (one["load"] == "streams", gbps["count"].as_u64().unwrap());
        assert_eq!((one["bytes"].is_null(), count), (is_stream, if is_stream { 20 } else { 6 }));
        assert_eq!(one["offload"], one["switch"] != "ovs", "{one:#}");
        if one["tunnel"] == "geneve" {
            assert_eq!((&one["lost"], &one["balanced"]), (&0.into(), &true.into()), "{one:#}");
        }
    }
    let page = fs::read_to_string(report).unwrap();
    for words in
        ["Streams (figure 4)", "Downloads of 100 kB", "Downloads of 1 MB", "class=\"median\""]
    {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_papers_measurement_says_how_long_it_takes_before_it_begins() {
    let case = ["profile", "--paper", "--switch", "bridge", "--tunnels", "none"];
    let size = ["--duration", "100ms", "--downloads", "100kb", "--rounds", "1"];
    let output = zovn(&[&case[..], &size].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines: Vec<_> = said.lines().collect();
    let plan = "1 case, each 4 TCP streams for 100ms and 1 download of 100kb: about ";
    assert!(lines[1].starts_with(plan) && lines[1].ends_with(" s in all"), "{said}");
    assert!(
        lines[2].starts_with("bridge over the link: streams for 100ms (0 s of about "),
        "{said}"
    );
    assert_eq!(lines.len(), 4, "{said}");
}
