//! The objects as a JSON Schema (2020-12), so that editors complete and check files as they are
//! written. What several objects have to agree on is not in it; [`resolve`] tells.
//!
//! [`resolve`]: crate::resolve()

use alloc::string::{String, ToString};

use utoipa::ToSchema;
use utoipa::openapi::{ComponentsBuilder, RefOr, Schema};

use crate::objects::Object;

/// Where the document has its parts, and where a JSON Schema has them.
const PARTS: [&str; 2] = ["#/components/schemas/", "#/$defs/"];

/// The schema, as text.
pub fn schema() -> String {
    let mut parts: alloc::vec::Vec<(String, RefOr<Schema>)> = alloc::vec::Vec::new();
    Object::schemas(&mut parts);
    parts.push((Object::name().to_string(), <Object as utoipa::PartialSchema>::schema()));
    let parts = ComponentsBuilder::new().schemas_from_iter(parts).build();
    let parts = serde_json::to_value(&parts.schemas).unwrap_or_default();
    let whole = serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zovn's logical networks",
        "$ref": "#/components/schemas/Object",
        "$defs": parts,
    });
    let text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    text.replace(PARTS[0], PARTS[1]) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE=1 cargo test -p logical` writes it anew.
    #[test]
    fn the_schema_in_the_repository_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/logical.schema.json");
        let current = schema();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &current).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == current,
            "docs/logical.schema.json is old: UPDATE=1 cargo test -p logical writes it anew"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let whole: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        let mut open = alloc::vec![&whole];
        while let Some(next) = open.pop() {
            match next {
                serde_json::Value::Object(fields) => {
                    if let Some(to) = fields.get("$ref").and_then(|it| it.as_str()) {
                        assert!(whole.pointer(&to[1..]).is_some(), "{to} leads nowhere");
                    }
                    open.extend(fields.values());
                }
                serde_json::Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
    }
}
