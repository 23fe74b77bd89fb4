//! Routers, their ports, what they translate, and where packets go.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use serde_json::{Value, json};

use super::policy::match_spec;
use super::{Objects, plain};
use crate::network::{Hop, Leg, Nat, NatKind, RouteDo};

impl Objects<'_> {
    pub(super) fn routers(&mut self) -> Result<(), String> {
        let network = self.network;
        for (name, router) in &network.routers {
            let mut policies = Vec::new();
            let of_all = network
                .policies
                .iter()
                .filter(|it| it.router.as_deref().is_none_or(|router| router == name));
            for (i, it) in of_all.chain(&router.policies).enumerate() {
                let hops: Vec<_> = it.via.iter().map(|via| json!({ "nextHop": via })).collect();
                let action = match it.action {
                    RouteDo::Allow => json!("allow"),
                    RouteDo::Drop => json!("drop"),
                    RouteDo::Reroute => json!({ "reroute": { "nextHops": hops } }),
                };
                let Ok([matches]) = <[Value; 1]>::try_from(match_spec(network, &it.matches)?)
                else {
                    let message = "a route policy asks for IP or for Ethernet addresses: not both";
                    return Err(message.to_string());
                };
                let called = it.name.as_deref().unwrap_or("policy");
                policies.push(json!({
                    "name": format!("{}-{i}", plain(called)), "priority": it.prio,
                    "match": matches,
                    "action": action,
                }));
            }
            let routes: Vec<Value> = router.routes.iter().map(|it| route(name, it)).collect();
            let spec = json!({
                "enabled": router.enabled.unwrap_or(true), "routes": routes, "policies": policies,
            });
            self.tenants("LogicalRouter", &plain(name), spec);
            for (leg, it) in &router.ports {
                self.leg(name, leg, it)?;
            }
            for it in &router.nat {
                self.nat(name, it);
            }
        }
        Ok(())
    }

    fn leg(&mut self, router: &str, leg: &str, it: &Leg) -> Result<(), String> {
        let name = plain(&format!("{router}.{leg}"));
        let mac = it.mac.ok_or_else(|| format!("the router's port {router}.{leg} has no `mac`"))?;
        let addresses: Vec<_> = it.ips.iter().map(ToString::to_string).collect();
        let mut spec = json!({
            "router": plain(router), "mac": mac.to_string(), "addresses": addresses,
            "enabled": it.enabled,
        });
        if let Some(peer) = &it.peer {
            spec["peer"] = json!(plain(peer));
        }
        if let Some(mtu) = it.mtu {
            spec["mtu"] = json!(mtu);
        }
        if let Some(host) = &it.gateway {
            spec["gateway"] = json!({ "nodes": [{ "node": plain(host) }] });
        }
        if let Some(mode) = &it.ra {
            spec["ra6"] = json!({ "mode": mode });
        }
        if let Some(servers) = &it.dhcp_relay {
            spec["dhcpRelay"] = json!({ "servers": servers });
        }
        self.tenants("RouterPort", &name, spec);
        if let Some(switch) = &it.switch {
            let spec = json!({ "switch": plain(switch), "router": { "routerPort": name } });
            self.tenants("LogicalPort", &name, spec);
        }
        Ok(())
    }

    fn nat(&mut self, name: &str, it: &Nat) {
        let kind = match it.kind {
            NatKind::Floating => "floating",
            NatKind::Snat => "snat",
            NatKind::Dnat => "dnat",
        };
        // Addresses outside have to be somebody's to use.
        let pool = plain(&format!("{name}-{}", it.name));
        let set = |field: &str, prefixes: &[String], objects: &mut Self| {
            let called = format!("{pool}-{field}");
            objects.tenants("AddressSet", &called, json!({ "addresses": prefixes }));
            json!([called])
        };
        self.operator(
            "ExternalPool",
            &pool,
            json!({ "prefixes": [it.external], "tenants": [super::TENANT] }),
        );
        let exempt = (!it.exempt.is_empty()).then(|| set("exempt", &it.exempt, self));
        let only_for = (!it.only_for.is_empty()).then(|| set("only", &it.only_for, self));
        let at = match it.at.as_deref() {
            Some("port") => "port",
            _ => "gateway",
        };
        let mut spec = json!({
            "router": plain(name), "kind": kind, "external": it.external, "logical": it.internal,
            "at": at, "stateless": it.stateless,
        });
        let optional: [(&str, Option<Value>); 6] = [
            ("externalMac", it.mac.map(|mac| json!(mac.to_string()))),
            ("protocol", it.proto.as_ref().map(|it| json!(it.to_string()))),
            (
                "externalPorts",
                it.external_port.as_ref().or(it.ports.as_ref()).map(|it| json!(it.to_string())),
            ),
            ("port", it.internal_port.map(|it| json!(it))),
            ("exempt", exempt),
            ("onlyFor", only_for),
        ];
        for (field, value) in optional {
            if let Some(value) = value {
                spec[field] = value;
            }
        }
        self.tenants("Nat", &pool, spec);
    }
}

fn route(router: &str, it: &crate::network::Route) -> Value {
    let leg = |out: &String| match out.contains('.') {
        true => plain(out),
        false => plain(&format!("{router}.{out}")),
    };
    let hop = |via: &IpAddr, out: &Option<String>| {
        let mut hop = json!({ "nextHop": via });
        if let Some(out) = out {
            hop["via"] = json!(leg(out));
        }
        hop
    };
    let mut spec = json!({
        "prefix": it.to.to_string(), "discard": it.discard || it.reject, "reject": it.reject,
        "symmetric": it.symmetric, "onlink": it.out.is_some(),
    });
    if let Some(via) = &it.via {
        spec["nextHop"] = json!(via);
    }
    if let Some(out) = &it.out {
        spec["via"] = json!(leg(out));
    }
    if !it.ecmp.is_empty() {
        let hops: Vec<_> = it.ecmp.iter().map(|Hop { via, out }| hop(via, out)).collect();
        spec["ecmp"] = json!(hops);
    }
    if let Some(source) = &it.from {
        spec["source"] = json!(source.to_string());
    }
    if let Some(distance) = it.distance {
        spec["distance"] = json!(distance);
    }
    spec
}
