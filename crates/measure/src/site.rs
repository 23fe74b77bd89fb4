//! The labs that experiments stand in.

use std::net::SocketAddr;

use lab::{EndpointSpec, Home, Lab, LabError, LabSpec};

use crate::{Bench, MeasureError};

/// Brings the lab up, unless the user wants no more.
pub fn raise(bench: &Bench<'_>, spec: &LabSpec) -> Result<Lab, MeasureError> {
    Lab::up_unless(spec, &Home::system(), bench.stop).map_err(unmade)
}

/// Why there is no lab, or no rig: the user may have wanted no more.
pub fn unmade(error: LabError) -> MeasureError {
    match error {
        LabError::Interrupted => MeasureError::Interrupted,
        error => error.into(),
    }
}

/// An endpoint that says nothing by itself: every frame that is counted is one of ours.
pub fn quiet_endpoint(name: String, number: u32) -> Result<EndpointSpec, MeasureError> {
    let mut endpoint = EndpointSpec::new(name);
    let address = u8::try_from(number)
        .ok()
        .filter(|number| (1..=254).contains(number))
        .and_then(|number| format!("10.0.0.{number}/24").parse().ok())
        .ok_or_else(|| MeasureError::Config("a lab holds 254 endpoints: ask for fewer".into()))?;
    endpoint.addresses = vec![address];
    // IPv6 announces itself and asks for routers and groups.
    for scope in ["all", "default"] {
        endpoint.sysctls.insert(format!("net.ipv6.conf.{scope}.disable_ipv6"), "1".into());
    }
    Ok(endpoint)
}

/// The address of `endpoint` and a port there.
pub fn address(lab: &Lab, endpoint: &str, port: u16) -> Result<SocketAddr, MeasureError> {
    let ip = lab
        .endpoints()
        .iter()
        .find(|candidate| candidate.name == endpoint)
        .and_then(lab::Endpoint::ipv4);
    let ip = ip.ok_or_else(|| {
        MeasureError::Config(format!("endpoint `{endpoint}` has no IPv4 address"))
    })?;
    Ok(SocketAddr::from((ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_and_everybody_are_no_endpoints() {
        let is = |number| quiet_endpoint("a".into(), number).is_ok();
        assert_eq!([0, 1, 254, 255, 256].map(is), [false, true, true, false, false]);
    }
}
