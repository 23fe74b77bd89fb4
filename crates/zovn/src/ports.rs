//! `zovn attach`, `zovn set` and `zovn detach`: an agent's ports.

use std::process::ExitCode;

use clap::ArgGroup;
use model::{
    Attachment, ClassChange, Limits, LimitsChange, LogicalPortName, NetworkName, PortChange,
    PortName, PortShare, PortSpec, PortStatus, RateChange, RouteSpec, Scheduling, SocketMode,
    StormLimits, VlanMembership,
};
use units::{Mac, Prefix, Rate};

use crate::client::AnswerArgs;
use crate::container::{Engine, namespace_of};
use crate::ending::Outcome;
use crate::number::within;
use crate::table::{headed, text};

const ATTACH_EXAMPLES: &str = "\
Examples:
  zovn attach web --netns web --address 10.0.0.1/24     a namespace by its name under /run/netns
  zovn attach --podman web --address 10.0.0.1/24        a container of Podman; the port is called as it is
  zovn attach db --pid 4711 --interface zovn0           a process's namespace
  zovn attach vm --vhost-user /run/vm.sock              a virtual machine
  zovn attach out --host-interface eth1                 an interface that the host has, as it is
  zovn attach web --netns web --address 10.0.0.1/24 --route 0.0.0.0/0,10.0.0.254
  zovn attach web --netns web --rate 1gbit --network blue --label 7
  zovn attach web --netns web --address 10.0.1.1/24 --logical shop/web-1

docs/containers.md says what becomes of a port when its container ends.";

/// Attach a container, a virtual machine or an interface of the host to an agent's switch.
///
/// The agent makes the interface inside the container, and gives it its addresses. A container of
/// Podman, Docker or nerdctl has to run; its network namespace is found by its process, so it is
/// attached anew when it is started again.
#[derive(clap::Args)]
#[command(after_long_help = ATTACH_EXAMPLES)]
#[command(group = ArgGroup::new("to").required(true)
    .args(["netns", "pid", "podman", "docker", "nerdctl", "vhost_user", "host_interface"]))]
pub struct AttachArgs {
    /// The port's name; the container's if left out.
    #[arg(required_unless_present_any = ["podman", "docker", "nerdctl"])]
    name: Option<String>,
    /// A network namespace: a name under /run/netns, or a path.
    #[arg(long, value_name = "NAME|PATH", help_heading = "Attached to")]
    netns: Option<String>,
    /// The network namespace of this process.
    #[arg(long, help_heading = "Attached to")]
    pid: Option<u32>,
    /// A running container of Podman.
    #[arg(long, value_name = "CONTAINER", help_heading = "Attached to")]
    podman: Option<String>,
    /// A running container of Docker.
    #[arg(long, value_name = "CONTAINER", help_heading = "Attached to")]
    docker: Option<String>,
    /// A running container of containerd.
    #[arg(long, value_name = "CONTAINER", help_heading = "Attached to")]
    nerdctl: Option<String>,
    /// A virtual machine's monitor, by the socket that it makes.
    #[arg(long, value_name = "SOCKET", help_heading = "Attached to")]
    vhost_user: Option<String>,
    /// An interface that the host has, without an address there: what is behind it is on the
    /// switch.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["interface", "address", "route", "mac", "no_offload"],
        help_heading = "Attached to")]
    host_interface: Option<String>,
    /// The VLAN of the host's interface that it is: others may be other ports. 0: its frames
    /// without a tag.
    #[arg(long, value_name = "N", requires = "host_interface", help_heading = "Attached to")]
    interface_vlan: Option<u16>,
    /// The agent makes the virtual machine's socket.
    #[arg(long, requires = "vhost_user", help_heading = "Attached to")]
    listen: bool,
    /// How many pairs of rings the virtual machine's card may have.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        requires = "vhost_user",
        help_heading = "Attached to"
    )]
    queues: u8,
    /// What the interface is called inside the container.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "eth0",
        conflicts_with = "vhost_user",
        help_heading = "Attached to"
    )]
    interface: String,
    /// An address of the interface, as 10.0.0.1/24 or fd00::1/64; may be given again.
    #[arg(
        long,
        value_name = "PREFIX",
        conflicts_with = "vhost_user",
        help_heading = "Attached to"
    )]
    address: Vec<Prefix>,
    /// A route of the container, with the router that it leads by or without one:
    /// 0.0.0.0/0,10.0.0.254; may be given again.
    #[arg(
        long,
        value_name = "PREFIX[,ROUTER]",
        value_parser = route,
        conflicts_with = "vhost_user",
        help_heading = "Attached to"
    )]
    route: Vec<RouteSpec>,
    /// The Ethernet address; one is made from the port's name if left out.
    #[arg(long, help_heading = "Attached to")]
    mac: Option<Mac>,
    /// The largest packet, in bytes; 1500 if left out, or what tunnels carry if that is less.
    #[arg(long, value_name = "BYTES", help_heading = "Attached to")]
    mtu: Option<u32>,
    /// Have the kernel cut large segments and complete checksums itself.
    #[arg(long, conflicts_with = "vhost_user", help_heading = "Attached to")]
    no_offload: bool,
    /// The virtual network that it is in.
    #[arg(long, value_name = "NAME", requires = "label")]
    network: Option<String>,
    /// The label of the network's member that it is.
    #[arg(long, value_name = "N", requires = "network")]
    label: Option<u32>,
    /// The port of a logical network that it is: its tenant and its name.
    #[arg(long, value_name = "TENANT/PORT", conflicts_with_all = ["network", "vlan", "trunk", "native"])]
    logical: Option<LogicalPortName>,
    /// The one VLAN that it is in, without tags there.
    #[arg(long, value_name = "N", conflicts_with_all = ["trunk", "native", "network"])]
    vlan: Option<u16>,
    /// The VLANs that it is in, with tags there: 7,8.
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "network")]
    trunk: Vec<u16>,
    /// The VLAN of its frames without a tag, beside those of --trunk.
    #[arg(long, value_name = "N", conflicts_with = "network")]
    native: Option<u16>,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// What can be said of a port when it is attached, and later.
#[derive(clap::Args)]
struct Settings {
    /// The rate at which it receives: 1gbit, or `none`.
    #[arg(long)]
    rate: Option<RateChange>,
    /// The rate at which it sends: 1gbit, or `none`. Its programs wait, nothing is lost.
    #[arg(long, value_name = "RATE")]
    send_rate: Option<RateChange>,
    /// The class of frames without a tag: 0 to 7, or `none` for its logical port's.
    #[arg(long, value_name = "N")]
    class: Option<ClassChange>,
    /// How many of its frames may wait for one receiver in one class.
    #[arg(long, value_name = "FRAMES", value_parser = within(1..=u32::MAX))]
    quota: Option<u32>,
    /// How many frames may wait for it in each class.
    #[arg(long, value_name = "FRAMES", value_parser = within(1..=u32::MAX))]
    egress: Option<u32>,
    /// How many of its frames the switch may hold in each class.
    #[arg(long, value_name = "FRAMES", value_parser = within(1..=u32::MAX))]
    ingress: Option<u32>,
    /// How its receiver is served: `strict`, or eight weights, class 0 first: 1,1,1,1,2,2,4,4.
    #[arg(long, value_name = "HOW", value_parser = scheduling)]
    scheduling: Option<Scheduling>,
    /// How many broadcasts, frames to groups without members and frames to unknown addresses of its
    /// sender are flooded each second: 1000,1000,1000, or `none` for no limit.
    #[arg(long, value_name = "LIMITS", value_parser = storm)]
    storm: Option<StormLimits>,
    /// What it may send by the uplink, within its network's share: min=100mbit,max=500mbit,weight=2
    /// or some of these; `none` for what its network has.
    #[arg(long, value_name = "TERMS", value_parser = share)]
    share: Option<PortShare>,
}

impl Settings {
    fn change(self) -> PortChange {
        let limits = |frames| LimitsChange { frames, ..LimitsChange::default() };
        PortChange {
            rate: self.rate,
            send_rate: self.send_rate,
            egress: limits(self.egress),
            ingress: limits(self.ingress),
            class: self.class,
            quota: self.quota,
            scheduling: self.scheduling,
            storm: self.storm,
            share: self.share,
        }
    }
}

const SET_EXAMPLES: &str = "\
Examples:
  zovn set web --rate 1gbit                  what it is sent waits, and nothing is lost
  zovn set web --send-rate 100mbit           its programs wait, and nothing is lost either
  zovn set web --share min=100mbit           of the uplink, within its network's share
  zovn set web --rate none
  zovn set web --quota 64                    a slow receiver holds no more of its frames
  zovn set web --scheduling 1,1,1,1,2,2,4,4";

/// Change a port of an agent while frames flow; what is not named stays.
///
/// What a port is attached to, its addresses, its network and its VLANs stay as long as it is
/// attached: detach it, and attach it anew. Printed is what has changed.
#[derive(clap::Args)]
#[command(after_long_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// The port's name.
    name: String,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Drain a port of an agent, and detach it.
///
/// What is held for it is delivered for up to a second, the rest is refused. Its interface is
/// removed. Printed is what became of its frames, and by `--json` the port as it was at its end.
#[derive(clap::Args)]
pub struct DetachArgs {
    /// The port's name.
    name: String,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Attaches a port.
pub fn attach(args: AttachArgs) -> Outcome {
    let answer = args.answer.clone();
    let port = answer.client()?.attach(&declared(args)?)?;
    answer.show(&port, || table(std::slice::from_ref(&port)))?;
    Ok(ExitCode::SUCCESS)
}

/// Changes a port.
pub fn set(args: SetArgs) -> Outcome {
    let SetArgs { name, settings, answer } = args;
    let (client, name) = (answer.client()?, PortName(name));
    let before = client.port(&name)?;
    let after = client.change(&name, &settings.change())?;
    answer.show(&after, || changed(&before, &after))?;
    Ok(ExitCode::SUCCESS)
}

/// Detaches a port.
pub fn detach(args: DetachArgs) -> Outcome {
    let DetachArgs { name, answer } = args;
    let port = answer.client()?.detach(&PortName(name))?;
    answer.show(&port, || {
        let [to, from] = [&port.egress.total, &port.ingress.total].map(|ledger| {
            format!("{} frames delivered, {} refused", ledger.delivered, ledger.refused_total())
        });
        format!("port `{}` is detached; to it: {to}; from it: {from}", port.name)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What a change has changed, in a line.
fn changed(before: &PortStatus, after: &PortStatus) -> String {
    fn or_none(value: Option<impl ToString>) -> String {
        value.map_or("none".into(), |value| value.to_string())
    }
    let limits = |limits: Limits| match limits.bytes == Limits::egress().bytes {
        true => format!("{} frames", limits.frames),
        false => format!("{} frames, {}", limits.frames, limits.bytes),
    };
    let scheduling = |scheduling| match scheduling {
        Scheduling::Strict => "strict".into(),
        Scheduling::Weighted(weights) => weights.map(|weight| weight.to_string()).join(","),
    };
    let storm = |StormLimits { broadcast, multicast, unknown }: StormLimits| {
        format!("{broadcast},{multicast},{unknown}")
    };
    let share = |PortShare { min, max, weight }: PortShare| {
        let terms = [
            min.map(|min| format!("min={min}")),
            max.map(|max| format!("max={max}")),
            weight.map(|weight| format!("weight={weight}")),
        ];
        let terms: Vec<_> = terms.into_iter().flatten().collect();
        if terms.is_empty() { "none".into() } else { terms.join(",") }
    };
    let settings = |port: &PortStatus| {
        [
            ("rate", or_none(port.rate)),
            ("send rate", or_none(port.send_rate)),
            ("egress", limits(port.egress_limits)),
            ("ingress", limits(port.ingress_limits)),
            ("class", port.class.pcp().to_string()),
            ("quota", or_none(port.quota)),
            ("scheduling", scheduling(port.scheduling)),
            ("storm", storm(port.storm)),
            ("share", share(port.share)),
        ]
    };
    let pairs = settings(before).into_iter().zip(settings(after));
    let changes: Vec<_> = pairs
        .filter(|(before, after)| before != after)
        .map(|((what, before), (_, after))| format!("{what}: {before} → {after}"))
        .collect();
    match changes.is_empty() {
        true => format!("port `{}` is so already", after.name),
        false => format!("port `{}`: {}", after.name, changes.join("; ")),
    }
}

/// The declaration of what is to be attached.
fn declared(args: AttachArgs) -> Result<PortSpec, Box<dyn std::error::Error + Send + Sync>> {
    let AttachArgs { podman, docker, nerdctl, mac, mtu, .. } = args;
    let container = [
        podman.map(|name| (Engine::Podman, name)),
        docker.map(|name| (Engine::Docker, name)),
        nerdctl.map(|name| (Engine::Nerdctl, name)),
    ]
    .into_iter()
    .flatten()
    .next();
    let name = args.name.or_else(|| container.as_ref().map(|(_, name)| name.clone()));
    let netns = match (args.netns, args.pid, container) {
        (Some(netns), ..) => Some(netns),
        (_, Some(pid), _) => Some(namespace_of(pid)?),
        (_, _, Some((engine, name))) => Some(engine.namespace(&name)?),
        _ => None,
    };
    let attach = match (netns, args.host_interface, args.vhost_user) {
        (_, Some(interface), _) => {
            Attachment::Interface { interface, vlan: args.interface_vlan, mtu }
        }
        (Some(netns), ..) => Attachment::Container {
            netns,
            interface: args.interface,
            mac,
            addresses: args.address,
            routes: args.route,
            mtu,
            offload: !args.no_offload,
        },
        (None, None, socket) => Attachment::VhostUser {
            socket: socket.expect("clap asks for one of them"),
            mode: if args.listen { SocketMode::Listen } else { SocketMode::Connect },
            mac,
            queues: args.queues,
            mtu,
        },
    };
    let name = PortName(name.expect("clap asks for one of them"));
    let vlan = VlanMembership { access: args.vlan, trunk: args.trunk, native: args.native };
    let spec = PortSpec {
        vlan: Some(vlan).filter(|vlan| *vlan != VlanMembership::default()),
        network: args.network.map(NetworkName),
        label: args.label,
        logical: args.logical,
        ..PortSpec::new(name, attach)
    };
    Ok(spec.changed(&args.settings.change()))
}

/// A line for each port.
pub fn table(ports: &[PortStatus]) -> String {
    // Only an interface of the host can be sent more than the switch takes.
    let misses = ports.iter().any(|port| port.missed.is_some());
    let columns =
        ["port", "state", "attached to", "mac", "network", "receives", "sends", "addresses"];
    let mut table = headed(columns.into_iter().chain(misses.then_some("missed")));
    for port in ports {
        let attached = match &port.attach {
            Attachment::Container { netns, interface, .. } => format!("{interface} in {netns}"),
            Attachment::VhostUser { socket, .. } => socket.clone(),
            Attachment::Interface { interface, vlan: None, .. } => interface.clone(),
            Attachment::Interface { interface, vlan: Some(vlan), .. } => {
                format!("{interface} vlan {vlan}")
            }
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
        let network = port.network.as_ref().zip(port.label);
        let addresses: Vec<_> = port.attach.addresses().iter().map(ToString::to_string).collect();
        let row = [
            port.name.to_string(),
            port.state.to_string(),
            attached,
            or_dash(port.mac.map(|mac| mac.to_string())),
            or_dash(
                network
                    .map(|(name, label)| format!("{name} ({label})"))
                    .or_else(|| port.logical.as_ref().map(ToString::to_string)),
            ),
            or_dash(port.rate.map(|rate| rate.to_string())),
            or_dash(port.send_rate.map(|rate| rate.to_string())),
            addresses.join(" "),
        ];
        let missed = misses.then(|| or_dash(port.missed.map(|missed| missed.to_string())));
        table.add_row(row.into_iter().chain(missed));
    }
    text(table)
}

fn route(word: &str) -> Result<RouteSpec, String> {
    let (to, via) = word.split_once(',').map_or((word, None), |(to, via)| (to, Some(via)));
    let to = to.parse().map_err(|error| format!("{error}: write a prefix, as 0.0.0.0/0"))?;
    let via = via.map(|via| via.parse().map_err(|error| format!("{via}: {error}")));
    Ok(RouteSpec { to, via: via.transpose()? })
}

fn storm(word: &str) -> Result<StormLimits, &'static str> {
    if word == "none" {
        return Ok(StormLimits::NONE);
    }
    let limits: Result<Vec<u32>, _> = word.split(',').map(|limit| limit.trim().parse()).collect();
    match limits.as_deref() {
        Ok([broadcast, multicast, unknown]) => {
            Ok(StormLimits { broadcast: *broadcast, multicast: *multicast, unknown: *unknown })
        }
        _ => Err("write `none`, or three numbers of frames a second: 1000,1000,1000"),
    }
}

fn share(word: &str) -> Result<PortShare, String> {
    let mut share = PortShare::default();
    if word == "none" {
        return Ok(share);
    }
    for term in word.split(',') {
        let wrong =
            || format!("`{term}` is no term: write min=100mbit,max=500mbit,weight=2, or `none`");
        let (key, value) = term.trim().split_once('=').ok_or_else(wrong)?;
        let rate = || value.parse::<Rate>().map(Some).map_err(|error| error.to_string());
        match key {
            "min" => share.min = rate()?,
            "max" => share.max = rate()?,
            "weight" => share.weight = Some(value.parse().map_err(|_| wrong())?),
            _ => return Err(wrong()),
        }
    }
    Ok(share)
}

fn scheduling(word: &str) -> Result<Scheduling, &'static str> {
    if word == "strict" {
        return Ok(Scheduling::Strict);
    }
    let weights: Result<Vec<u32>, _> =
        word.split(',').map(|weight| weight.trim().parse()).collect();
    let weights = weights.ok().and_then(|weights| weights.try_into().ok());
    weights.map(Scheduling::Weighted).ok_or("write `strict`, or eight weights: 1,1,1,1,2,2,4,4")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_some_terms_or_none() {
        let all =
            PortShare { min: "100mbit".parse().ok(), max: "500mbit".parse().ok(), weight: Some(2) };
        assert_eq!(share("min=100mbit, max=500mbit,weight=2"), Ok(all));
        let min = PortShare { min: all.min, ..PortShare::default() };
        assert_eq!((share("min=100mbit"), share("none")), (Ok(min), Ok(PortShare::default())));
        for (wrong, sentence) in [
            ("100mbit", "`100mbit` is no term: write min=100mbit,max=500mbit,weight=2, or `none`"),
            ("min=fast", "`fast` is not a rate: write it as 1gbit, 100mbit or 2.5gbit"),
            ("burst=1", "`burst=1` is no term: write min=100mbit,max=500mbit,weight=2, or `none`"),
        ] {
            assert_eq!(share(wrong), Err(sentence.into()));
        }
    }
}
