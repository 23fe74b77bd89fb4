//! Frames that tshark dissects: what we wrote, read by somebody else.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// A kind of frame, and what is to be found in it: fields with their values, as tshark prints them.
pub struct Kind {
    /// The frame, from its Ethernet header on.
    pub frame: Vec<u8>,
    /// The fields.
    pub found: &'static [(&'static str, &'static str)],
}

/// A kind of frame.
pub fn kind(frame: impl Into<Vec<u8>>, found: &'static [(&'static str, &'static str)]) -> Kind {
    Kind { frame: frame.into(), found }
}

/// Has tshark read the frames with such preferences on: it finds nothing wrong with them, and what
/// is to be found.
pub fn read(kinds: &[Kind], preferences: &[&str]) {
    /// PI_WARN of Wireshark's expert information: what is worse is an error.
    const WARNING: u32 = 0x0060_0000;

    // tshark prints a field once.
    let found: BTreeSet<_> =
        kinds.iter().flat_map(|kind| kind.found).map(|(field, _)| *field).collect();
    let mut fields = vec!["_ws.expert.severity", "_ws.expert.message", "_ws.malformed"];
    let trouble = fields.len();
    fields.extend(found);
    let Some(lines) = run(kinds, preferences, &fields) else { return };
    assert_eq!(lines.len(), kinds.len());
    for (index, (kind, line)) in kinds.iter().zip(&lines).enumerate() {
        let severities = line[0].split(',').filter(|severity| !severity.is_empty());
        let worst = severities.map(|severity| severity.parse().unwrap()).max().unwrap_or(0);
        assert!(
            worst <= WARNING && line[2].is_empty(),
            "frame {}: {:?}",
            index + 1,
            &line[..trouble]
        );
        for (field, value) in kind.found {
            let at = fields.iter().position(|name| name == field).unwrap();
            assert_eq!(line[at], *value, "frame {}: {field}", index + 1);
        }
    }
}

/// Whether tshark is installed; a test that needs it is skipped if not.
///
/// # Panics
///
/// It is not, and all tests have to run.
pub fn is_here() -> bool {
    crate::program("tshark", "tshark")
}

/// What tshark says of each frame with such preferences on: these fields, each as often as it is
/// there, separated by commas. `None` if it is not installed.
pub fn run(kinds: &[Kind], preferences: &[&str], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if !is_here() {
        return None;
    }
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", "-", "-T", "fields", "-E", "separator=;"]);
    for preference in preferences {
        command.args(["-o", &format!("{preference}:TRUE")]);
    }
    command.args(fields.iter().flat_map(|field| ["-e", *field]));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&pcap(kinds)).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(|line| line.split(';').map(str::to_owned).collect()).collect())
}

/// The frames as a capture file (libpcap's, of Ethernet, in the machine's byte order).
fn pcap(kinds: &[Kind]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend(u32::to_ne_bytes(word));
    }
    for Kind { frame, .. } in kinds {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(frame);
    }
    file
}
