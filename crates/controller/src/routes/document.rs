//! This API as an OpenAPI 3.1 document.
//!
//! Objects of tenants and of the operator are asked for by the same functions. So paths of tenants
//! are described, and those of the operator follow.

use logical::objects::{Kind, Owner};
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::{ObjectBuilder, PathItem, RefOr, Schema, Type};

pub const APPLY: &str = "/v1/apply";
pub const TRACE: &str = "/v1/trace";
pub const WHOAMI: &str = "/v1/whoami";
pub const AUDIT: &str = "/v1/audit";
pub const REVISION: &str = "/v1/revisions/{revision}";
pub const READY: &str = "/v1/ready";
pub const OPENAPI: &str = "/v1/openapi.json";
pub const LIST: &str = "/v1/tenants/{tenant}/{kind}";
pub const OBJECT: &str = "/v1/tenants/{tenant}/{kind}/{name}";
pub const ADD: &str = "/v1/tenants/{tenant}/{kind}/{name}:add";
pub const REMOVE: &str = "/v1/tenants/{tenant}/{kind}/{name}:remove";

/// The same path of the operator's objects.
pub fn of_operator(path: &str) -> String {
    path.replace("/tenants/{tenant}", "")
}

/// This API as an OpenAPI 3.1 document.
pub fn document() -> utoipa::openapi::OpenApi {
    #[derive(OpenApi)]
    #[openapi(
        info(
            title = "zovn controller",
            version = "1",
            description = "Logical networks, declared by tenants and the operator. Another path is answered with \
                           404, another method with 405, and either with a Problem (RFC 9457).",
        ),
        paths(
            super::list,
            super::read,
            super::write,
            super::merge,
            super::members,
            super::remove,
            super::apply,
            super::audited::audit,
            super::progress::revision,
            super::trace,
            super::whoami,
            super::ready,
            super::openapi
        )
    )]
    struct Document;
    let mut document = Document::openapi();
    // One function does both.
    if let Some(mut item) = document.paths.paths.get(ADD).cloned() {
        for operation in operations(&mut item) {
            operation.operation_id = Some("members_remove".into());
        }
        document.paths.paths.insert(REMOVE.into(), item);
    }
    for path in [LIST, OBJECT, ADD, REMOVE] {
        let Some(of_tenants) = document.paths.paths.get_mut(path) else { continue };
        let mut item = of_tenants.clone();
        let kinds: &[Kind] = match path {
            ADD | REMOVE => &[Kind::PortGroup, Kind::AddressSet],
            _ => Kind::ALL,
        };
        for operation in operations(of_tenants) {
            describe(operation, Owner::Tenant, kinds);
        }
        for operation in operations(&mut item) {
            describe(operation, Owner::Operator, kinds);
        }
        document.paths.paths.insert(of_operator(path), item);
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, patch, delete, .. } = item;
    [get, put, post, patch, delete].into_iter().flatten()
}

/// Says what words there can be in a path of one's objects of some kinds.
fn describe(operation: &mut Operation, owner: Owner, kinds: &[Kind]) {
    if owner == Owner::Operator {
        operation.operation_id =
            operation.operation_id.take().map(|id| format!("{id}_of_operator"));
        let parameters = operation.parameters.iter_mut();
        parameters.for_each(|all| all.retain(|it| !is(it, "tenant")));
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        let words = is(parameter, "kind").then(|| {
            let kinds = kinds.iter().filter(|it| [owner, Owner::Either].contains(&it.owner()));
            ObjectBuilder::new()
                .schema_type(Type::String)
                .enum_values(Some(kinds.map(|it| it.path())))
        });
        let label = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";
        let is_name = is(parameter, "tenant") || is(parameter, "name");
        let name =
            is_name.then(|| ObjectBuilder::new().schema_type(Type::String).pattern(Some(label)));
        if let (RefOr::T(parameter), Some(schema)) = (parameter, words.or(name)) {
            parameter.schema = Some(RefOr::T(Schema::Object(schema.build())));
        }
    }
}

fn is(parameter: &RefOr<Parameter>, name: &str) -> bool {
    matches!(parameter, RefOr::T(it) if it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE=1 cargo test -p controller` writes it anew.
    #[test]
    fn the_document_in_the_repository_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/controller.openapi.json");
        let current = document().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &current).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == current,
            "docs/controller.openapi.json is old: UPDATE=1 cargo test -p controller writes it anew"
        );
    }

    #[test]
    fn the_operator_has_paths_without_tenants() {
        let document = serde_json::to_value(document()).unwrap();
        let kinds = |path: &str| {
            let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
            let kind = parameters.iter().find(|it| it["name"] == "kind").unwrap();
            kind["schema"]["enum"].as_array().unwrap().clone()
        };
        let (tenants, operators) = (kinds(LIST), kinds("/v1/{kind}"));
        assert!(tenants.contains(&"logical-ports".into()) && tenants.contains(&"policies".into()));
        assert!(operators.contains(&"policies".into()) && operators.contains(&"tenants".into()));
        assert!(!operators.contains(&"logical-ports".into()), "{operators:?}");
    }
}
