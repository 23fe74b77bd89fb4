//! Tunnels between two hosts.

use lab::SwitchKind;

use super::measured;

#[test]
fn tunnels_are_compared() {
    // An Ethernet header and the cable's MTU.
    const LONGEST_CUT: f64 = 1654.0;
    let mut tunnels =
        "none,none-two-hosts,geneve,geneve-plain,geneve-integrity,geneve-encrypt,vxlan,nvgre,stt,kernel-vxlan"
            .to_owned();
    if needs::checked(lab::check_wireguard()) {
        tunnels += ",wireguard-vxlan";
    }
    if needs::checked(SwitchKind::Ovs.check()) {
        tunnels += ",ovs-vxlan";
    }
    for (cable, streams) in [("whole", "1"), ("cut", "2")] {
        let size = ["--streams", streams, "--duration", "200ms", "--rounds", "1"];
        let (object, code) =
            measured(&[&["tunnel", "--tunnels", &tunnels, "--cable", cable], &size[..]].concat());
        assert_eq!((code, &object["config"]["cable"]), (Some(0), &cable.into()), "{object:#}");
        let results = object["results"].as_array().unwrap();
        assert_eq!(results.len(), tunnels.split(',').count());
        for result in results {
            assert!(
                result["gbps"].as_f64().unwrap() > 0.0
                    && result["cpu_s_per_gb"].as_f64().unwrap() > 0.0
            );
            let tunnel = result["tunnel"].as_str().unwrap();
            let has_books = !matches!(tunnel, "kernel-vxlan" | "wireguard-vxlan" | "ovs-vxlan");
            assert_eq!(result["balanced"].as_bool(), has_books.then_some(true), "{result:#}");
            if matches!(tunnel, "none" | "geneve" | "geneve-integrity" | "geneve-encrypt") {
                assert_eq!(result["lost"], 0, "{result:#}");
            }
            let has_cable = tunnel != "none";
            // Of these no tunnel lets large packets through.
            let is_cut =
                cable == "cut" || matches!(tunnel, "nvgre" | "wireguard-vxlan" | "ovs-vxlan");
            let bytes = result["bytes_per_packet"].as_f64();
            assert_eq!(
                bytes.map(|bytes| bytes <= LONGEST_CUT),
                has_cable.then_some(is_cut),
                "{result:#}"
            );
        }
    }
}
