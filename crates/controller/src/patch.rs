//! Patches of objects: merge patches (RFC 7396) and JSON patches (RFC 6902).

use json_patch::{PatchErrorKind, PatchOperation};
use logical::objects::{Kind, Object};
use serde_json::Value;

use crate::members;

/// The media type of JSON patches. Whatever else is said of a body, it is a merge patch.
pub const JSON_PATCH: &str = "application/json-patch+json";

/// The most operations of a JSON patch.
const OPERATIONS: usize = 1_000;

/// The most steps of an operation's path. Objects have fewer.
const STEPS: usize = 32;

/// What is to be changed of an object.
#[derive(Debug)]
pub enum Patch {
    /// Fields as they are to be; what is null is taken out.
    Merge(Value),
    /// Operations, one after another, all of them or none.
    Operations(json_patch::Patch),
}

/// Why a patch changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// It cannot be read.
    #[error("the body is no {0}: {1}")]
    Unreadable(&'static str, serde_json::Error),
    /// It is too long.
    #[error("the patch has {0} operations: at most {OPERATIONS} are taken")]
    TooMany(usize),
    /// Nothing of an object lies so deep.
    #[error("operation {0}: no field lies as deep as its `path`")]
    TooDeep(usize),
    /// By these an object could become as large as one likes.
    #[error("operation {0}: `move` and `copy` are not taken, say `add` and `remove`")]
    Unsupported(usize),
    /// The object is not as the patch has it.
    #[error("operation {0}: `{1}` is not what the patch tests for")]
    Untrue(usize, String),
    /// There is no such place in the object.
    #[error("operation {0}: there is no `{1}`")]
    Nowhere(usize, String),
}

impl Patch {
    /// Reads a patch of this media type.
    ///
    /// # Errors
    ///
    /// [`PatchError`]: it is none, or asks for more than is done.
    pub fn read(media_type: &str, body: &str) -> Result<Self, PatchError> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(JSON_PATCH) {
            let patch = serde_json::from_str(body);
            return patch
                .map(Self::Merge)
                .map_err(|error| PatchError::Unreadable("merge patch", error));
        }
        let patch: json_patch::Patch = serde_json::from_str(body)
            .map_err(|error| PatchError::Unreadable("JSON patch", error))?;
        if patch.len() > OPERATIONS {
            return Err(PatchError::TooMany(patch.len()));
        }
        for (number, operation) in patch.iter().enumerate() {
            if matches!(operation, PatchOperation::Move(_) | PatchOperation::Copy(_)) {
                return Err(PatchError::Unsupported(number));
            }
            if operation.path().count() > STEPS {
                return Err(PatchError::TooDeep(number));
            }
        }
        Ok(Self::Operations(patch))
    }

    /// Whether it may be that nothing but members of a long list come and go, in an object of this
    /// kind.
    pub fn may_be_of_members(&self, kind: Kind) -> bool {
        matches!((self, kind), (Self::Operations(_), Kind::PortGroup | Kind::AddressSet))
    }

    /// The object as it is once changed, if nothing but members of a long list come and go.
    /// `None`: that is for [`Patch::apply`] to say.
    pub fn of_members(&self, object: &Object) -> Option<Object> {
        match self {
            Self::Merge(_) => None,
            Self::Operations(patch) => members::changed(object, patch),
        }
    }

    /// Changes a value, whole or not at all.
    ///
    /// # Errors
    ///
    /// [`PatchError`]: an operation has no place in the value, or tests for another.
    pub fn apply(&self, value: &mut Value) -> Result<(), PatchError> {
        match self {
            Self::Merge(patch) => json_patch::merge(value, patch),
            Self::Operations(patch) => json_patch::patch(value, patch).map_err(|error| {
                let (number, path) = (error.operation, error.path.to_string());
                match error.kind {
                    PatchErrorKind::TestFailed => PatchError::Untrue(number, path),
                    _ => PatchError::Nowhere(number, path),
                }
            })?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(media_type: &str, patch: &Value) -> Result<Value, PatchError> {
        let mut value = json!({"spec": {"addresses": ["10.0.0.1"], "mtu": 1500}});
        Patch::read(media_type, &patch.to_string())?.apply(&mut value)?;
        Ok(value)
    }

    #[test]
    fn the_media_type_says_which_patch_it_is() {
        let merged = json!({"spec": {"addresses": ["10.0.0.2"]}});
        for media_type in ["", "application/json", "application/merge-patch+json; charset=utf-8"] {
            let patch = json!({"spec": {"addresses": ["10.0.0.2"], "mtu": null}});
            assert_eq!(patched(media_type, &patch).unwrap(), merged);
        }
        let added = json!({"spec": {"addresses": ["10.0.0.1", "10.0.0.2"], "mtu": 1500}});
        for media_type in [JSON_PATCH, "Application/JSON-Patch+json;charset=utf-8"] {
            let patch = json!([
                {"op": "test", "path": "/spec/addresses/0", "value": "10.0.0.1"},
                {"op": "add", "path": "/spec/addresses/-", "value": "10.0.0.2"},
            ]);
            assert_eq!(patched(media_type, &patch).unwrap(), added);
        }
    }

    #[test]
    fn members_are_those_of_operations_on_groups_and_sets() {
        let operations = Patch::read(JSON_PATCH, "[]").unwrap();
        let of: Vec<_> = Kind::ALL.iter().filter(|it| operations.may_be_of_members(**it)).collect();
        assert_eq!(of, [&Kind::PortGroup, &Kind::AddressSet]);
        let merge = Patch::read("", "{}").unwrap();
        assert!(!Kind::ALL.iter().any(|it| merge.may_be_of_members(*it)));
    }

    #[test]
    fn a_patch_that_does_not_fit_or_asks_for_too_much_is_refused_by_a_sentence() {
        let operation = |op: &str, path: &str| json!([{"op": op, "path": path, "value": 1}]);
        let deep = "/a".repeat(STEPS + 1);
        let many: Value = (0..=OPERATIONS).map(|_| operation("add", "/a")[0].clone()).collect();
        let moved = json!([{"op": "copy", "from": "/spec", "path": "/spec/a"}]);
        for (patch, sentence) in [
            (operation("test", "/spec/mtu"), "operation 0: `/spec/mtu` is not what"),
            (operation("replace", "/spec/none"), "operation 0: there is no `/spec/none`"),
            (operation("add", "/spec/addresses/7"), "operation 0: there is no"),
            (operation("add", &deep), "operation 0: no field lies as deep"),
            (operation("add", "spec"), "the body is no JSON patch"),
            (json!({"spec": {}}), "the body is no JSON patch"),
            (many, "the patch has 1001 operations"),
            (moved, "operation 0: `move` and `copy` are not taken"),
        ] {
            let error = patched(JSON_PATCH, &patch).unwrap_err().to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
    }
}
