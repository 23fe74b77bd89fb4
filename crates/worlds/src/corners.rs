//! What random worlds do not have.

/// What random worlds say nothing of: names that two owners have, addresses that are made of names,
/// routers behind routers, groups in groups, quotas, and objects of two tenants in one switch.
pub const CORNERS: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {sharedWith: [u], quota: {connectionsPerPort: 7}, allowProvider: [net], guarantee: 10mbit}}
- {kind: Tenant, metadata: {name: u}, spec: {limit: 1gbit}}
- {kind: ProviderNetwork, metadata: {name: net}, spec: {}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2]}}
- {kind: Gateway, metadata: {name: rack}, spec: {nodes: [{node: h1}]}}
- {kind: Meter, metadata: {name: slow}, spec: {unit: pps, rate: 10, burst: 10}}
- {kind: QosProfile, metadata: {name: gold}, spec: {}}
- {kind: QosProfile, metadata: {name: gold, tenant: t}, spec: {}}
- {kind: QosProfile, metadata: {name: lead, tenant: t}, spec: {}}
- {kind: AddressSet, metadata: {name: s}, spec: {addresses: [10.8.0.0/16, 10.8.0.0/16, 10.7.0.1-10.7.0.3]}}
- {kind: AddressSet, metadata: {name: s, tenant: t}, spec: {addresses: [10.9.0.0/16]}}
- {kind: Service, metadata: {name: web, tenant: t}, spec: {protocol: tcp, ports: [80]}}
- {kind: DnsZone, metadata: {name: z, tenant: t}, spec: {records: {a.b: [10.1.0.1]}}}
- {kind: DhcpProfile, metadata: {name: d, tenant: t}, spec: {v6: {serverDuidMac: '02:00:00:00:00:fe'}}}
- {kind: LogicalSwitch, metadata: {name: b, tenant: t}, spec: {qos: gold, dns: [z], mtu: 1400, provider: {network: net, vlan: 7}}}
- {kind: LogicalSwitch, metadata: {name: c, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: d, tenant: u}, spec: {qos: gold}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {copp: slow, routes: [{prefix: 10.9.0.0/16, nextHop: 10.1.0.9}, {prefix: 10.9.0.0/16, nextHop: 10.1.0.9, symmetric: true}, {prefix: 10.8.0.0/16, nextHop: 10.9.9.9, via: r-x, onlink: true, monitor: {bfd: true}}], policies: [{name: a, priority: 1, match: {services: [web], source: {sets: [s], groups: [g]}}, action: {reroute: {nextHops: [{nextHop: 10.1.0.7}, {nextHop: 10.5.0.2, via: r-x}]}}}, {name: b, priority: 1, action: drop}, {name: c, priority: 2, action: allow}]}}
- {kind: LogicalRouter, metadata: {name: q, tenant: t}, spec: {gateway: rack}}
- {kind: LogicalRouter, metadata: {name: a, tenant: u}, spec: {}}
- {kind: RouterPort, metadata: {name: r-b, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fe', addresses: [10.1.0.254/24], mtu: 1500}}
- {kind: RouterPort, metadata: {name: r-x, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fd', addresses: [10.5.0.1/24, 10.6.0.1/32], peer: q-x}}
- {kind: RouterPort, metadata: {name: q-x, tenant: t}, spec: {router: q, mac: '02:00:00:00:00:fc', addresses: [10.5.0.2/24], peer: r-x, gateway: {nodes: [{node: h1, priority: 1}, {node: h2, priority: 2}]}}}
- {kind: RouterPort, metadata: {name: q-c, tenant: t}, spec: {router: q, mac: '02:00:00:00:00:fb', addresses: [10.2.0.254/24], enabled: false}}
- {kind: RouterPort, metadata: {name: a-c, tenant: u}, spec: {router: a, mac: '02:00:00:00:00:fa', addresses: [10.2.0.253/24]}}
- {kind: LogicalPort, metadata: {name: b-r, tenant: t}, spec: {switch: b, router: {routerPort: r-b}}}
- {kind: LogicalPort, metadata: {name: c-q, tenant: t}, spec: {switch: c, router: {routerPort: q-c}}}
- {kind: LogicalPort, metadata: {name: c-a, tenant: u}, spec: {switch: t/c, router: {routerPort: a-c}}}
- {kind: LogicalPort, metadata: {name: up, tenant: t}, spec: {switch: b, provider: {}}}
- {kind: LogicalPort, metadata: {name: l2, tenant: t}, spec: {switch: c, l2gateway: {gateway: rack, vlan: 9}}}
- {kind: LogicalPort, metadata: {name: v1, tenant: t, labels: {app: web, tier: one}}, spec: {switch: b, vif: {}, addresses: [10.1.0.1, 'fd00::1'], qos: lead, dhcp6: d, security: {allowed: [{prefixes: [10.3.0.0/24]}]}}}
- {kind: LogicalPort, metadata: {name: v2, tenant: t, labels: {app: web}}, spec: {switch: c, vif: {}, addresses: [10.2.0.2]}}
- {kind: LogicalPort, metadata: {name: v3, tenant: t, labels: {tier: two}}, spec: {switch: c, child: {parent: v2, vlan: 3}, mac: '02:00:00:00:09:09'}}
- {kind: LogicalPort, metadata: {name: v1, tenant: u, labels: {app: web}}, spec: {switch: d, vif: {}, qos: gold}}
- {kind: PortGroup, metadata: {name: g, tenant: t}, spec: {ports: [v1, b-r], include: [h]}}
- {kind: PortGroup, metadata: {name: h, tenant: t}, spec: {selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: Exists}]}, include: [i]}}
- {kind: PortGroup, metadata: {name: i, tenant: t}, spec: {ports: [v3, v3]}}
- {kind: Policy, metadata: {name: p1, tenant: t}, spec: {appliesTo: {groups: [g], ports: [v2]}, rules: [{name: a, direction: toPort, action: allow, peer: {sets: [s], ports: [v3], selector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}}, services: [web, {protocol: udp}], log: {meter: slow}}, {name: b, direction: fromPort, action: allow, peer: {groups: [i]}, ethertype: arp}]}}
- {kind: Policy, metadata: {name: p2, tenant: t}, spec: {appliesTo: {switches: [c]}, defaultAction: drop, rules: [{name: a, direction: toPort, action: drop, match: {destination: {sets: [s]}}}]}}
- {kind: Policy, metadata: {name: p3}, spec: {tier: operatorFirst, appliesTo: {selector: {matchLabels: {app: web}}}, rules: [{name: a, direction: toPort, action: drop, peer: {sets: [s], selector: {}}}]}}
- {kind: ExternalPool, metadata: {name: world}, spec: {prefixes: [198.51.100.0/24], tenants: [t]}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {router: r, kind: snat, external: 198.51.100.1, logical: 10.1.0.0/24, exempt: [s], match: {source: {groups: [h]}, services: [web]}}}
- {kind: LoadBalancer, metadata: {name: lb, tenant: t}, spec: {vip: 10.6.6.6, protocol: tcp, backends: [{logicalPort: v1, port: 80}, {ip: 10.2.0.9}, {logicalPort: v2, weight: 3}], attach: [{switch: b}, {router: q}, {switch: c}]}}
";
