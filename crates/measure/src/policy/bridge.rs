//! The kernel as the switch under test: its bridge, its router, and what nftables tells both.

use lab::{Lab, LabError};

use super::cases::Path;
use super::frames::Pair;
use super::nft::{PORTS, Tracking, tables};
use super::report::Through;
use super::rules::{GATEWAY, HIDDEN, ROUTER};

/// Whether bridged packets visit IP's rules.
const VISIT: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// What the kernel makes of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Made {
    /// What it was asked for.
    Asked,
    /// The same in another way, which this tells.
    Otherwise(String),
    /// Nothing, for this reason.
    Nothing(String),
}

/// Has the kernel of a lab's switch do what frames are to pass.
pub fn make(lab: &Lab, path: &Path, pair: &Pair) -> Result<Made, LabError> {
    // Not every kernel has it, and it is on where nobody says otherwise.
    visit(lab, false)?;
    if path.through.is_routed() {
        route(lab, path.through)?;
    }
    let told = |tracking| match tables(path.through, path.rules, pair, tracking) {
        Some(rules) => refusal(lab.filter(&rules)),
        None => Ok(None),
    };
    let Some(refused) = told(Tracking::Bridge)? else { return Ok(Made::Asked) };
    if path.through != Through::Stateful {
        return Ok(Made::Nothing(format!("This kernel does not take these rules: {refused}.")));
    }
    let told = match visit(lab, true)? {
        true => told(Tracking::Ip)?,
        false => Some("there is no br_netfilter".to_owned()),
    };
    Ok(match told {
        None => Made::Otherwise(format!(
            "This kernel's bridge follows no connections ({refused}): bridged packets visit IP's rules instead (br_netfilter)."
        )),
        Some(why) => Made::Nothing(format!(
            "This kernel's bridge follows no connections ({refused}), nor does IP for it: {why}."
        )),
    })
}

/// What `nft` said of rules that this kernel does not take.
fn refusal(told: Result<(), LabError>) -> Result<Option<String>, LabError> {
    match told {
        Ok(()) => Ok(None),
        Err(LabError::Program { said, .. }) => Ok(Some(said)),
        Err(error) => Err(error),
    }
}

/// Has bridged packets visit IP's rules, or not. Whether they do.
fn visit(lab: &Lab, do_so: bool) -> Result<bool, LabError> {
    let script =
        format!("[ ! -e {VISIT} ] || {{ echo {} > {VISIT}; cat {VISIT}; }}", u8::from(do_so));
    Ok(lab.run_at_switch("sh", &["-ec", &script])?.trim() == "1")
}

/// Takes both ports out of the bridge and has the kernel route between them.
fn route(lab: &Lab, through: Through) -> Result<(), LabError> {
    let mut script = "echo 1 > /proc/sys/net/ipv4/ip_forward\n".to_owned();
    for ((port, mac), address) in PORTS.into_iter().zip(ROUTER).zip(GATEWAY) {
        script += &format!(
            "ip link set dev {port} nomaster\n\
             ip link set dev {port} address {mac}\n\
             ip address add {address}/16 dev {port}\n"
        );
    }
    if through == Through::Nat {
        script += &format!("ip address add {HIDDEN}/32 dev {}\n", PORTS[1]);
    }
    lab.run_at_switch("sh", &["-ec", &script]).map(drop)
}
