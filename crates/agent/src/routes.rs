//! The local API: HTTP requests in, orders to the switch's thread, JSON out.
//!
//! A request that cannot be done is answered with a status code and an [`api::Problem`], whose
//! sentence says what to do. The OpenAPI document is made from these functions, and kept in
//! docs/openapi.json.

mod objects;
mod refusal;

use std::time::Duration;

use api::{LogicalNetworks, Problem};
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use model::{
    AddressStatus, AgentStatus, CaptureDirection, CaptureSpec, ConnectionsPage, Generation,
    HandoverTaken, LogicalApplied, MOST_CONNECTIONS, NetworkName, NetworkSpec, NetworksReplaced,
    NetworksStatus, PacketTrace, PacketTraceSpec, PortChange, PortName, PortSpec, PortStatus,
    RuleHits, TraceReport, TraceSpec, mistake,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use utoipa::OpenApi;
use utoipa::openapi::{RefOr, Schema};

use self::refusal::Json;
pub use self::refusal::Refusal;
use crate::host::{ConnectionsAsked, Proof};
use crate::worker::{Condition, Handle, Stopped};
use crate::{capture, metrics};

/// The longest body that is read: a port's declaration is a few hundred bytes.
const BODY_LIMIT_BYTES: usize = 64 << 10;

/// The longest body with virtual networks that is read: 63,000 members with an address of each
/// family are 10 MB.
const NETWORKS_LIMIT_BYTES: usize = 32 << 20;

/// How many connections there are in a page if nobody says it.
const PAGE: u32 = 100;

/// The longest body with a frame that is read: two digits for each byte of 64 KiB.
const FRAME_LIMIT_BYTES: usize = 192 << 10;

/// The longest body with what goes with a port to another host: a connection is 120 bytes, and
/// names.
const HANDOVER_LIMIT_BYTES: usize = 64 << 20;

/// How long a body may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The API, answered by the worker behind `handle`.
pub fn router(handle: Handle) -> Router {
    Router::new()
        .route(api::STATUS, get(status))
        .route(api::PORTS, get(ports).post(attach))
        .route(api::PORT, get(port).put(put_port).patch(change).delete(detach))
        .route(api::CONNECTIONS, get(connections))
        .route(
            api::HANDOVER,
            get(hand_over).put(take_over).layer(DefaultBodyLimit::max(HANDOVER_LIMIT_BYTES)),
        )
        .route(api::ADDRESSES, get(addresses))
        .route(
            api::NETWORKS,
            get(networks).put(replace).layer(DefaultBodyLimit::max(NETWORKS_LIMIT_BYTES)),
        )
        .route(
            api::NETWORK,
            put(set_network)
                .delete(remove_network)
                .layer(DefaultBodyLimit::max(NETWORKS_LIMIT_BYTES)),
        )
        .route(
            api::LOGICAL,
            get(logical).put(apply).layer(DefaultBodyLimit::max(NETWORKS_LIMIT_BYTES)),
        )
        .route(api::LOGICAL_RULES, get(rules))
        .route(
            api::LOGICAL_TRACE,
            post(trace_packet).layer(DefaultBodyLimit::max(FRAME_LIMIT_BYTES)),
        )
        .route(api::CAPTURE, get(capture))
        .route(api::TRACE, post(trace))
        .route(api::READY, get(ready))
        .route(api::OPENAPI, get(openapi))
        .route(api::METRICS, get(scrape))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .with_state(handle)
}

/// This API as an OpenAPI 3.1 document.
pub fn document() -> utoipa::openapi::OpenApi {
    #[derive(OpenApi)]
    #[openapi(
        info(
            title = "zovn agent",
            version = "1",
            description = "The local API of a host's virtual switch, over HTTP on a Unix socket. Another path is \
                           answered with 404, another method with 405, and either with a Problem.",
        ),
        paths(
            status,
            ports,
            attach,
            port,
            put_port,
            change,
            detach,
            connections,
            hand_over,
            take_over,
            addresses,
            networks,
            replace,
            set_network,
            remove_network,
            logical,
            apply,
            rules,
            trace_packet,
            capture,
            trace,
            ready,
            openapi,
            scrape
        ),
        // What only a query names.
        components(schemas(CaptureDirection, NetworkName, PortName))
    )]
    struct Document;
    let mut document = Document::openapi();
    bound_weights(&mut document);
    document
}

/// Says that weights are eight: an array's length is not in a schema that is derived.
fn bound_weights(document: &mut utoipa::openapi::OpenApi) {
    let schemas = document.components.as_mut().map(|components| &mut components.schemas);
    let Some(RefOr::T(Schema::OneOf(scheduling))) =
        schemas.and_then(|schemas| schemas.get_mut("Scheduling"))
    else {
        return;
    };
    for way in &mut scheduling.items {
        if let RefOr::T(Schema::Object(object)) = way
            && let Some(RefOr::T(Schema::Array(weights))) = object.properties.get_mut("weighted")
        {
            (weights.min_items, weights.max_items) = (Some(8), Some(8));
        }
    }
}

type Answer<T> = Result<Json<T>, Refusal>;

/// The generation of the networks, as HTTP has it.
type Tag = [(HeaderName, String); 1];

type Tagged<T> = Result<(Tag, Json<T>), Refusal>;

/// The whole agent at this moment.
#[utoipa::path(get, path = api::STATUS, responses(
    (status = 200, body = AgentStatus, description = "Everything the agent knows of itself."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn status(State(switch): State<Handle>) -> Answer<AgentStatus> {
    Ok(Json(switch.status(Proof::Now).await?))
}

/// Every port at this moment, by name.
#[utoipa::path(get, path = api::PORTS, responses(
    (status = 200, body = [PortStatus], description = "Every port."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn ports(State(switch): State<Handle>) -> Answer<Vec<PortStatus>> {
    Ok(Json(switch.status(Proof::LastRound).await?.ports))
}

/// Attaches a port. As its declaration, what GET says of a port is taken, too.
#[utoipa::path(post, path = api::PORTS, request_body = PortSpec, responses(
    (status = 201, body = PortStatus, description = "Attached."),
    (status = 400, body = Problem, description = "The body is not a port's declaration."),
    (status = 409, body = Problem, description = "Another port has this name."),
    (status = 413, body = Problem, description = "The body is longer than 64 KiB."),
    (status = 422, body = Problem, description = "The port cannot be attached."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn attach(
    State(switch): State<Handle>,
    Declared(spec): Declared,
) -> Result<(StatusCode, Json<PortStatus>), Refusal> {
    spec.check()?;
    let port = switch.attach(spec).await??;
    Ok((StatusCode::CREATED, Json(port)))
}

/// One port at this moment.
#[utoipa::path(get, path = api::PORT, params(("name" = PortName, Path, description = "The port's name.")), responses(
    (status = 200, body = PortStatus, description = "The port."),
    (status = 404, body = Problem, description = "There is no such port."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn port(State(switch): State<Handle>, Name(name): Name<PortName>) -> Answer<PortStatus> {
    switch.port(name.clone()).await?.map(Json).ok_or_else(|| {
        Refusal(
            StatusCode::NOT_FOUND,
            format!("there is no port `{name}`: GET {} lists them", api::PORTS),
        )
    })
}

/// Has a port be as it is declared here: attaches it, changes it, or does nothing. As its
/// declaration, what GET says of a port is taken, too: its settings count, its figures do not.
#[utoipa::path(put, path = api::PORT, params(("name" = PortName, Path, description = "The port's name.")),
request_body = PortSpec, responses(
    (status = 200, body = PortStatus, description = "It was attached, and is so now."),
    (status = 201, body = PortStatus, description = "Attached."),
    (status = 400, body = Problem, description = "The body is not a port's declaration, or has another name."),
    (status = 409, body = Problem, description = "It is attached otherwise: to another place, network or address."),
    (status = 413, body = Problem, description = "The body is longer than 64 KiB."),
    (status = 422, body = Problem, description = "The port cannot be so."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn put_port(
    State(switch): State<Handle>,
    Name(name): Name<PortName>,
    Declared(spec): Declared,
) -> Result<(StatusCode, Json<PortStatus>), Refusal> {
    if spec.name != name {
        let problem = format!("the port's name is `{}`, and that of the path `{name}`", spec.name);
        return Err(Refusal(StatusCode::BAD_REQUEST, problem));
    }
    spec.check()?;
    let (is_new, port) = switch.put(spec).await??;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(port)))
}

/// Changes a port; what the change does not name stays as it is.
#[utoipa::path(patch, path = api::PORT, params(("name" = PortName, Path, description = "The port's name.")),
request_body = PortChange, responses(
    (status = 200, body = PortStatus, description = "Changed."),
    (status = 400, body = Problem, description = "The body is not a change."),
    (status = 404, body = Problem, description = "There is no such port."),
    (status = 413, body = Problem, description = "The body is longer than 64 KiB."),
    (status = 422, body = Problem, description = "The port cannot be so, or stays as it is in that while it is attached."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn change(
    State(switch): State<Handle>,
    Name(name): Name<PortName>,
    Change(change): Change,
) -> Answer<PortStatus> {
    let port = switch.change(name, change).await??;
    tracing::info!(port = %port.name, "port changed");
    Ok(Json(port))
}

/// Drains and detaches a port. The answer is what it was at its end.
#[utoipa::path(delete, path = api::PORT, params(("name" = PortName, Path, description = "The port's name.")), responses(
    (status = 200, body = PortStatus, description = "Detached."),
    (status = 404, body = Problem, description = "There is no such port."),
    (status = 500, body = Problem, description = "Detached, but its interface may remain."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn detach(State(switch): State<Handle>, Name(name): Name<PortName>) -> Answer<PortStatus> {
    let port = switch.detach(name).await??;
    Ok(Json(port))
}

/// Which connections are asked for.
#[derive(Deserialize)]
struct Page {
    limit: Option<u32>,
    after: Option<String>,
}

/// The connections that are followed of a logical port of this host, some at a time. Each that
/// stays is in one of the pages at least. If the last of a page is no more when the next is asked
/// for, that begins anew.
#[utoipa::path(get, path = api::CONNECTIONS, params(
    ("name" = PortName, Path, description = "The host's port, or the logical one: `shop%2Fweb-1`."),
    ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most; 100 if it is not said."),
    ("after" = Option<String>, Query, description = "`next` of the page before."),
), responses(
    (status = 200, body = ConnectionsPage, description = "Some connections, and how to go on."),
    (status = 400, body = Problem, description = "The query is not understood."),
    (status = 404, body = Problem, description = "The port is not on this host."),
    (status = 422, body = Problem, description = "It is no logical port, or no logical network here has it."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn connections(
    State(switch): State<Handle>,
    Name(port): Name<PortName>,
    query: Result<Query<Page>, QueryRejection>,
) -> Answer<ConnectionsPage> {
    let wrong = |what: String| Refusal(StatusCode::BAD_REQUEST, what);
    let Query(Page { limit, after }) = query.map_err(|error| wrong(error.body_text()))?;
    let limit = limit.unwrap_or(PAGE);
    if !(1..=MOST_CONNECTIONS).contains(&limit) {
        return Err(wrong(format!("`limit` lies outside 1 to {MOST_CONNECTIONS}")));
    }
    let not_ours = || wrong("`after` is not what a page says in `next`".into());
    let after = after.map(|it| ConnectionsAsked::read_id(&it).ok_or_else(not_ours)).transpose()?;
    Ok(Json(switch.connections(ConnectionsAsked { port, limit, after }).await??))
}

/// Whether a port that is handed over stays for now.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stays {
    #[serde(default)]
    stays: bool,
}

/// What another host needs to go on with a logical port of this one, and with the ports behind its
/// tags: connections, translated flows, packets in fragments, groups. Only agents read it. Nothing
/// changes here.
#[utoipa::path(get, path = api::HANDOVER, params(
    ("name" = PortName, Path, description = "The host's port, or the logical one: `shop%2Fweb-1`."),
    ("stays" = Option<bool>, Query, description = "The port's packets go on passing this host, so windows of TCP are not told."),
), responses(
    (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "To be PUT to the other host's agent."),
    (status = 400, body = Problem, description = "The query is not understood."),
    (status = 404, body = Problem, description = "The port is not on this host."),
    (status = 422, body = Problem, description = "It is no logical port, or no logical network here has it."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn hand_over(
    State(switch): State<Handle>,
    Name(port): Name<PortName>,
    query: Result<Query<Stays>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(Stays { stays }) =
        query.map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.body_text()))?;
    let bytes = switch.hand_over(port, stays).await??;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Goes on with a logical port as another host had it, in place of what is known of the port here.
/// The port is attached here before. What is refused changes nothing.
#[utoipa::path(put, path = api::HANDOVER, params(
    ("name" = PortName, Path, description = "The host's port, or the logical one: `shop%2Fweb-1`."),
), request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "What the other host's agent has told."), responses(
    (status = 200, body = HandoverTaken, description = "How much goes on here."),
    (status = 400, body = Problem, description = "This agent cannot read the body."),
    (status = 404, body = Problem, description = "The port is not on this host."),
    (status = 413, body = Problem, description = "The body is longer than 64 MiB."),
    (status = 422, body = Problem, description = "The body is another port's; or it is no logical port, or no logical network here has it."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn take_over(
    State(switch): State<Handle>,
    Name(port): Name<PortName>,
    request: Request,
) -> Answer<HandoverTaken> {
    let bytes = read(request, &switch).await?;
    Ok(Json(switch.take_over(port, bytes).await??))
}

/// Where each Ethernet address is reached, as far as it was learned or pinned.
#[utoipa::path(get, path = api::ADDRESSES, responses(
    (status = 200, body = [AddressStatus], description = "Every address, in order."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn addresses(State(switch): State<Handle>) -> Answer<Vec<AddressStatus>> {
    Ok(Json(switch.addresses().await?))
}

/// The virtual networks at this moment.
#[utoipa::path(get, path = api::NETWORKS, responses(
    (status = 200, body = NetworksStatus, description = "All of them, and of which generation they are."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn networks(State(switch): State<Handle>) -> Tagged<NetworksStatus> {
    let status = switch.networks().await?;
    Ok(([(header::ETAG, status.generation.tag())], Json(status)))
}

/// Replaces all virtual networks at once. Those that are refused change nothing.
#[utoipa::path(put, path = api::NETWORKS, params(
    ("If-Match" = Option<String>, Header, description = "Only if the networks are of this generation: `\"7\"`."),
    ("dry_run" = Option<bool>, Query, description = "Change nothing: only say whether it could be done."),
), request_body = [NetworkSpec], responses(
    (status = 200, body = NetworksReplaced, description = "Replaced."),
    (status = 400, body = Problem, description = "The body is not a list of networks."),
    (status = 412, body = Problem, description = "The networks are of another generation; told of a valid body alone."),
    (status = 413, body = Problem, description = "The body is longer than 32 MiB."),
    (status = 422, body = Problem, description = "The networks cannot stand, or not beside the ports that are attached."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn replace(
    State(switch): State<Handle>,
    When(condition): When,
    Body(networks): Body<Vec<NetworkSpec>>,
) -> Tagged<NetworksReplaced> {
    let is_done = !condition.dry_run;
    let generation = switch.set_networks(condition, networks).await??;
    if is_done {
        tracing::info!(%generation, "networks replaced");
    }
    Ok(replaced(generation))
}

/// Adds a virtual network, or replaces the one with its name. If it is refused, nothing changes.
#[utoipa::path(put, path = api::NETWORK, params(
    ("name" = NetworkName, Path, description = "The network's name."),
    ("If-Match" = Option<String>, Header, description = "Only if the networks are of this generation: `\"7\"`."),
    ("dry_run" = Option<bool>, Query, description = "Change nothing: only say whether it could be done."),
), request_body = NetworkSpec, responses(
    (status = 200, body = NetworksReplaced, description = "Added or replaced."),
    (status = 400, body = Problem, description = "The body is no network, or has another name."),
    (status = 412, body = Problem, description = "The networks are of another generation; told of a valid body alone."),
    (status = 413, body = Problem, description = "The body is longer than 32 MiB."),
    (status = 422, body = Problem, description = "The network cannot stand, or not beside others and the ports that are attached."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn set_network(
    State(switch): State<Handle>,
    Name(name): Name<NetworkName>,
    When(condition): When,
    Body(network): Body<NetworkSpec>,
) -> Tagged<NetworksReplaced> {
    if network.name != name {
        let problem =
            format!("the network's name is `{}`, and that of the path `{name}`", network.name);
        return Err(Refusal(StatusCode::BAD_REQUEST, problem));
    }
    let is_done = !condition.dry_run;
    let generation = switch.set_network(condition, network).await??;
    if is_done {
        tracing::info!(%generation, network = %name, "network replaced");
    }
    Ok(replaced(generation))
}

/// Removes a virtual network. If a port is in it, nothing changes.
#[utoipa::path(delete, path = api::NETWORK, params(
    ("name" = NetworkName, Path, description = "The network's name."),
    ("If-Match" = Option<String>, Header, description = "Only if the networks are of this generation: `\"7\"`."),
    ("dry_run" = Option<bool>, Query, description = "Change nothing: only say whether it could be done."),
), responses(
    (status = 200, body = NetworksReplaced, description = "Removed."),
    (status = 400, body = Problem, description = "The query is not understood."),
    (status = 404, body = Problem, description = "There is no such network."),
    (status = 412, body = Problem, description = "The networks are of another generation."),
    (status = 422, body = Problem, description = "A port that is attached is in it."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn remove_network(
    State(switch): State<Handle>,
    Name(name): Name<NetworkName>,
    When(condition): When,
) -> Tagged<NetworksReplaced> {
    let is_done = !condition.dry_run;
    let generation = switch.remove_network(condition, name.clone()).await??;
    if is_done {
        tracing::info!(%generation, network = %name, "network removed");
    }
    Ok(replaced(generation))
}

fn replaced(generation: Generation) -> (Tag, Json<NetworksReplaced>) {
    ([(header::ETAG, generation.tag())], Json(NetworksReplaced { generation }))
}

/// The logical networks at this moment, and what this host's ports are to them.
#[utoipa::path(get, path = api::LOGICAL, responses(
    (status = 200, body = LogicalNetworks, description = "All of them, and of which generation they are."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn logical(State(switch): State<Handle>) -> Tagged<LogicalNetworks> {
    let logical = switch.logical().await;
    let ports = switch.status(Proof::LastRound).await?.ports;
    let networks = objects::told(&logical, &ports, switch.silence())
        .map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::ETAG, networks.generation.tag())], Json(networks)))
}

/// Replaces all objects of logical networks at once. Those that are refused change nothing. The
/// body is a list of objects, or YAML of them.
#[utoipa::path(put, path = api::LOGICAL, params(
    ("If-Match" = Option<String>, Header, description = "Only if the logical networks are of this generation: `\"7\"`."),
    ("dry_run" = Option<bool>, Query, description = "Change nothing: only say what would change."),
), request_body(content = Vec<serde_json::Value>, description = "Objects, as docs/logical.schema.json describes them."), responses(
    (status = 200, body = LogicalApplied, description = "Applied, and what that has changed."),
    (status = 400, body = Problem, description = "The body is no text, or empty; or a parameter is not understood."),
    (status = 412, body = Problem, description = "The logical networks are of another generation; told of valid objects alone."),
    (status = 413, body = Problem, description = "The body is longer than 32 MiB."),
    (status = 422, body = Problem, description = "The objects cannot stand: `errors` has all that is wrong."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn apply(
    State(switch): State<Handle>,
    When(condition): When,
    request: Request,
) -> Result<(Tag, Json<LogicalApplied>), objects::Refused> {
    let body = read(request, &switch).await?;
    let is_done = !condition.dry_run;
    let objects = objects::parse(body).await?;
    let applied = match switch.apply(condition, objects).await.map_err(Refusal::from)? {
        Ok(applied) => applied,
        Err(error) => {
            tracing::warn!(%error, "logical networks are not applied");
            return Err(error.into());
        }
    };
    if is_done {
        let (objects, domains) = (applied.objects.len(), applied.domains.len());
        tracing::info!(generation = %applied.generation, objects, domains, "logical networks applied");
    }
    Ok(([(header::ETAG, applied.generation.tag())], Json(applied)))
}

/// Frames as they come by, as a pcapng file (draft-ietf-opsawg-pcapng) that goes on until its
/// reader hangs up, the agent stops, or as much was captured as was asked for.
///
/// Each place is an interface of it: `web ingress`, `web egress`, `uplink`, `refused`. With neither
/// `port` nor `uplink` nor `refused` it has everything. The switch never waits for the reader: up
/// to 16 MiB wait, and what finds no room is counted in interface statistics blocks.
#[utoipa::path(get, path = api::CAPTURE, params(
    ("port" = Option<Vec<String>>, Query, description = "Frames of this port; of what is refused, only what concerns it."),
    ("uplink" = Option<bool>, Query, description = "Packets in the underlay; their headers of Ethernet are made up."),
    ("refused" = Option<bool>, Query, description = "What is refused; a comment says why."),
    ("direction" = Option<CaptureDirection>, Query, description = "Into the switch or out of it; both if absent."),
    ("filter" = Option<String>, Query, description = "What frames have to be, as tcpdump says it: `host 10.0.0.2 and tcp port 80`."),
    ("snap" = Option<u32>, Query, minimum = 1, description = "The most bytes of a frame that are kept."),
    ("count" = Option<u64>, Query, minimum = 1, description = "How many frames."),
    ("duration" = Option<String>, Query, description = "For how long: `10s`."),
), responses(
    (status = 200, content_type = "application/x-pcapng", body = Vec<u8>, description = "The file's beginning; it goes on."),
    (status = 400, body = Problem, description = "The query is not understood."),
    (status = 404, body = Problem, description = "There is no such port."),
    (status = 429, body = Problem, description = "Too many captures are under way."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn capture(
    State(switch): State<Handle>,
    pairs: Query<Vec<(String, String)>>,
) -> Result<Response, Refusal> {
    let Query(pairs) = pairs;
    let spec = CaptureSpec::from_query(pairs)
        .map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?;
    let duration = spec.duration;
    let reader = switch.capture(spec).await??;
    let file = capture::File::new(reader, duration);
    Ok(([(header::CONTENT_TYPE, "application/x-pcapng")], axum::body::Body::new(file))
        .into_response())
}

/// What would become of a frame that came now. Nothing changes.
#[utoipa::path(post, path = api::TRACE, request_body = TraceSpec, responses(
    (status = 200, body = TraceReport, description = "Where it would come, and its end."),
    (status = 400, body = Problem, description = "The body describes no frame."),
    (status = 404, body = Problem, description = "There is no such port."),
    (status = 422, body = Problem, description = "There can be no such frame, or nobody is known by the address."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn trace(State(switch): State<Handle>, Body(spec): Body<TraceSpec>) -> Answer<TraceReport> {
    Ok(Json(switch.trace(spec).await??))
}

/// Which rules are asked for.
#[derive(Deserialize)]
struct Rules {
    port: Option<PortName>,
}

/// What each rule of the logical networks has admitted and refused on this host, by name.
#[utoipa::path(get, path = api::LOGICAL_RULES, params(
    ("port" = Option<String>, Query, description = "Only rules that hold for this port: the host's, or the logical one."),
), responses(
    (status = 200, body = [RuleHits], description = "Each rule of policies that hold for ports of this host."),
    (status = 404, body = Problem, description = "The port is not on this host."),
    (status = 422, body = Problem, description = "It is no logical port, or no logical network here has it."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn rules(
    State(switch): State<Handle>,
    Query(Rules { port }): Query<Rules>,
) -> Answer<Vec<RuleHits>> {
    Ok(Json(switch.rules(port).await??))
}

/// What would become of a packet of a logical port that came now: each step, with the object and
/// the rule that decides it. Nothing changes.
#[utoipa::path(post, path = api::LOGICAL_TRACE, request_body = PacketTraceSpec, responses(
    (status = 200, body = PacketTrace, description = "Its steps, and its end."),
    (status = 400, body = Problem, description = "The body has no frame."),
    (status = 404, body = Problem, description = "The port is not on this host."),
    (status = 413, body = Problem, description = "The body is longer than 192 KiB."),
    (status = 422, body = Problem, description = "No logical network here has the port."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn trace_packet(
    State(switch): State<Handle>,
    Body(spec): Body<PacketTraceSpec>,
) -> Answer<PacketTrace> {
    Ok(Json(switch.trace_packet(spec).await??))
}

/// Whether frames flow.
#[utoipa::path(get, path = api::READY, responses(
    (status = 204, description = "Frames flow."),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn ready(State(switch): State<Handle>) -> Result<StatusCode, Refusal> {
    if switch.is_stopping() { Err(Stopped.into()) } else { Ok(StatusCode::NO_CONTENT) }
}

/// This document.
#[utoipa::path(get, path = api::OPENAPI, responses((status = 200, description = "An OpenAPI 3.1 document.")))]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}

/// Everything counted, as OpenMetrics text, or as Prometheus' older text if `Accept` prefers that.
#[utoipa::path(get, path = api::METRICS, params(
    ("Accept" = Option<String>, Header, description = "The media types that are wanted."),
), responses(
    (status = 200, description = "Metrics.", content(
        (String = "application/openmetrics-text"),
        (String = "text/plain"),
    )),
    (status = 503, body = Problem, description = "The agent is stopping."),
))]
async fn scrape(State(switch): State<Handle>, headers: HeaderMap) -> Result<Response, Refusal> {
    let format = metrics::Format::asked_by(&headers);
    Ok(metrics_response(metrics_page(&switch, format).await?, format))
}

/// Everything counted, as text.
pub async fn metrics_page(switch: &Handle, format: metrics::Format) -> Result<String, Stopped> {
    Ok(metrics::render(switch.status(Proof::LastRound).await?, format))
}

/// Such a text as an answer.
pub fn metrics_response(page: impl IntoResponse, format: metrics::Format) -> Response {
    let head = [(header::CONTENT_TYPE, format.media_type()), (header::VARY, "accept")];
    (head, page).into_response()
}

async fn nowhere() -> Refusal {
    Refusal(
        StatusCode::NOT_FOUND,
        format!("there is nothing here: GET {} says what there is", api::OPENAPI),
    )
}

/// What a path is told that is asked by another method than it has.
pub async fn not_so() -> Refusal {
    let problem = format!("this path is not asked so: GET {} says how", api::OPENAPI);
    Refusal(StatusCode::METHOD_NOT_ALLOWED, problem)
}

/// The name of a port or a network in a path.
struct Name<T>(T);

impl<T: DeserializeOwned + Send> FromRequestParts<Handle> for Name<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &Handle) -> Result<Self, Refusal> {
        let name = Path::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name)).map_err(|error| {
            // Nothing can be put there, and there is nothing else.
            let is_put = parts.method == Method::PUT;
            let status = if is_put { StatusCode::BAD_REQUEST } else { StatusCode::NOT_FOUND };
            Refusal(status, format!("no port or network has such a name: {}", error.body_text()))
        })
    }
}

/// `If-Match` and `?dry_run=`.
struct When(Condition);

impl FromRequestParts<Handle> for When {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Handle) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Asked {
            #[serde(default)]
            dry_run: bool,
        }

        let Query(Asked { dry_run }) = Query::try_from_uri(&parts.uri)
            .map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.body_text()))?;
        // RFC 9110 §13.1.1: any generation, or one of a list. What is no generation of ours is none
        // that there could be.
        let tags = parts.headers.get_all(header::IF_MATCH).iter();
        let tags: Vec<_> = tags.flat_map(|tags| tags.as_bytes().split(|it| *it == b',')).collect();
        let generation = |tag: &&[u8]| {
            let tag = tag.trim_ascii().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            str::from_utf8(tag).ok()?.parse().map(Generation).ok()
        };
        let is_asked = !tags.is_empty() && tags.iter().all(|tag| tag.trim_ascii() != b"*");
        let generations = is_asked.then(|| tags.iter().filter_map(generation).collect());
        Ok(Self(Condition { generations, dry_run }))
    }
}

/// A JSON body, whatever its content type says.
struct Body<T>(T);

impl<T: DeserializeOwned> FromRequest<Handle> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &Handle) -> Result<Self, Refusal> {
        parse(&read(request, state).await?).map(Self)
    }
}

/// A port's declaration as the body, or its status, of which the settings count.
struct Declared(PortSpec);

impl FromRequest<Handle> for Declared {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &Handle) -> Result<Self, Refusal> {
        let body = read(request, state).await?;
        // Only a status says how a port is.
        let fields = serde_json::from_slice::<serde_json::Map<_, _>>(&body).unwrap_or_default();
        if !fields.contains_key("state") {
            return parse(&body).map(Self);
        }
        let status: PortStatus = parse(&body)?;
        let known = serde_json::to_value(&status).unwrap_or_default();
        let known: Vec<_> =
            known.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let is_unknown = |(field, value): &(&String, &serde_json::Value)| {
            !value.is_null() && !known.contains(&field.as_str())
        };
        match fields.iter().find(is_unknown) {
            None => Ok(Self(status.declaration())),
            Some((field, _)) => {
                let what = mistake::unknown(field, &known);
                let problem = format!("the body is a port's status, as it has `state`; {what}");
                Err(Refusal(StatusCode::BAD_REQUEST, problem))
            }
        }
    }
}

/// A change of a port, as the body. What stays as long as a port is attached is refused as that.
struct Change(PortChange);

impl FromRequest<Handle> for Change {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &Handle) -> Result<Self, Refusal> {
        let body = read(request, state).await?;
        parse(&body).map(Self).map_err(|refusal| fixed(&body).unwrap_or(refusal))
    }
}

/// Why a change is refused that names what stays as long as a port is attached.
fn fixed(body: &[u8]) -> Option<Refusal> {
    let change: serde_json::Map<_, _> = serde_json::from_slice(body).ok()?;
    let field = PortSpec::FIXED.into_iter().find(|field| change.contains_key(*field))?;
    let problem =
        format!("`{field}` stays while a port is attached: detach the port, then attach it so");
    Some(Refusal(StatusCode::UNPROCESSABLE_ENTITY, problem))
}

/// Reads a body.
async fn read(request: Request, state: &Handle) -> Result<Bytes, Refusal> {
    let read = timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await;
    let read = read.map_err(|_| {
        let problem = format!("the body has not come within {} s", BODY_TIMEOUT.as_secs());
        Refusal(StatusCode::REQUEST_TIMEOUT, problem)
    })?;
    read.map_err(|error| {
        Refusal(error.status(), format!("the body cannot be read: {}", error.body_text()))
    })
}

/// Takes a body for what it should be.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let said = error.to_string();
        let what = match said.strip_suffix(&place) {
            Some(message) if error.is_data() => mistake::plain(message) + &place,
            _ => said,
        };
        Refusal(StatusCode::BAD_REQUEST, format!("the body is not what it should be: {what}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE=1 cargo test -p agent` writes it anew.
    #[test]
    fn the_document_in_the_repository_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let current = document().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &current).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == current,
            "docs/openapi.json is old: UPDATE=1 cargo test -p agent writes it anew"
        );
    }

    /// Calls `tell` with each reference in a document.
    fn references(document: &serde_json::Value, tell: &mut impl FnMut(&str)) {
        match document {
            serde_json::Value::Object(fields) => {
                fields.get("$ref").and_then(|it| it.as_str()).into_iter().for_each(&mut *tell);
                fields.values().for_each(|it| references(it, tell));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|it| references(it, tell)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let document = serde_json::to_value(document()).unwrap();
        let mut count = 0;
        references(&document, &mut |reference| {
            count += 1;
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        });
        assert!(count > 30, "{count}");
        let weighted = &document["components"]["schemas"]["Scheduling"]["oneOf"][1]["properties"];
        assert_eq!(weighted["weighted"]["minItems"], 8, "{weighted}");
    }

    /// Calls `tell` with the name of each property in a schema.
    fn properties(schema: &serde_json::Value, tell: &mut impl FnMut(&str)) {
        if let Some(properties) = schema.get("properties").and_then(|all| all.as_object()) {
            properties.keys().for_each(|name| tell(name));
        }
        match schema {
            serde_json::Value::Object(fields) => {
                fields.values().for_each(|it| properties(it, tell))
            }
            serde_json::Value::Array(items) => items.iter().for_each(|it| properties(it, tell)),
            _ => {}
        }
    }

    /// The names in the code that makes metrics: of `page.counter("…"`, `page.gauge("…"` and
    /// tables.
    fn families(source: &str) -> impl Iterator<Item = &str> {
        let calls = source.split("page.").filter_map(|call| {
            let rest = call.strip_prefix("counter(").or_else(|| call.strip_prefix("gauge("))?;
            rest.trim_start().strip_prefix('"')?.split('"').next()
        });
        let rows = source.lines().filter_map(|line| line.trim_start().strip_prefix("(\"peer_"));
        let rows = rows.chain(source.split("(\n        \"peer_").skip(1));
        calls.chain(rows.filter_map(|row| source.get(offset(source, row)..)?.split('"').next()))
    }

    /// Where a row's name begins, in the source that it is a part of.
    fn offset(source: &str, row: &str) -> usize {
        row.as_ptr() as usize - source.as_ptr() as usize - "peer_".len()
    }

    #[test]
    fn the_glossary_has_every_figure() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/glossary.md");
        let glossary = std::fs::read_to_string(path).unwrap();
        let document = serde_json::to_value(document()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let told = schemas.iter().filter(|(name, _)| {
            name.ends_with("Status")
                || name.starts_with("Trace")
                || matches!(&name[..], "Ledgers" | "LargeSegments" | "ThreadUse")
        });
        let mut missing = Vec::new();
        for (_, schema) in told {
            properties(schema, &mut |name| {
                if !glossary.contains(&format!("`{name}`")) {
                    missing.push(name.to_owned());
                }
            });
        }
        let sources = [
            include_str!("metrics.rs"),
            include_str!("metrics/peers.rs"),
            include_str!("metrics/logical.rs"),
            include_str!("metrics/thread.rs"),
        ];
        let families: Vec<_> = sources.into_iter().flat_map(families).collect();
        assert!(families.len() > 40, "{families:?}");
        let unknown = families.iter().filter(|name| !glossary.contains(&format!("`zovn_{name}")));
        missing.extend(unknown.map(|name| (*name).to_owned()));
        assert!(missing.is_empty(), "docs/glossary.md does not have {missing:?}");
    }
}
