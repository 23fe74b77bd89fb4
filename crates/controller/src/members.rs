//! JSON patches of long lists: members come and go, and nobody reads or writes the others.
//!
//! What is done here is what the same patch does to the object's JSON. Whatever else a patch asks
//! for, and what is wrong with it, is for that way to say.

use std::collections::HashSet;
use std::fmt::Display;
use std::str::FromStr;

use json_patch::PatchOperation;
use logical::objects::Object;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Whether members come or go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// They are in it afterwards.
    Add,
    /// They are not in it afterwards.
    Remove,
}

impl Change {
    /// What a path asks for, and what is before that.
    pub fn split(path: &str) -> Option<(&str, Self)> {
        let (before, word) = path.rsplit_once(':')?;
        match word {
            "add" => Some((before, Self::Add)),
            "remove" => Some((before, Self::Remove)),
            _ => None,
        }
    }

    /// The action that the audit log tells.
    pub fn action(self) -> &'static str {
        match self {
            Self::Add => "POST :add",
            Self::Remove => "POST :remove",
        }
    }
}

/// Members of a group or a set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Members {
    /// LogicalPorts of a PortGroup.
    Ports(Vec<String>),
    /// Addresses, prefixes and ranges of an AddressSet.
    Addresses(Vec<String>),
}

/// Why members do not change.
#[derive(Debug)]
pub enum MembersError {
    /// The object has no such members.
    Kind,
    /// This field of the body is no member.
    Field(String, String),
}

impl Members {
    /// A group or a set once these have come or gone.
    ///
    /// # Errors
    ///
    /// [`MembersError`]: these are no members of it.
    pub fn change(&self, object: &Object, change: Change) -> Result<Object, MembersError> {
        match (object, self) {
            (Object::PortGroup(it), Self::Ports(ports)) => {
                let mut it = it.clone();
                alter(&mut it.spec.ports, "/ports/", ports, change)?;
                Ok(Object::PortGroup(it))
            }
            (Object::AddressSet(it), Self::Addresses(addresses)) => {
                let mut it = it.clone();
                alter(&mut it.spec.addresses, "/addresses/", addresses, change)?;
                Ok(Object::AddressSet(it))
            }
            _ => Err(MembersError::Kind),
        }
    }
}

/// Adds members that are not in a list, or removes those that are. They are compared as they are
/// kept, in linear time.
fn alter<T: Display + FromStr<Err: Display>>(
    list: &mut Vec<T>,
    place: &str,
    words: &[String],
    change: Change,
) -> Result<(), MembersError> {
    let mut members = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        let wrong = |error: T::Err| MembersError::Field(format!("{place}{at}"), error.to_string());
        members.push(word.parse::<T>().map_err(wrong)?);
    }
    match change {
        Change::Add => {
            let mut there: HashSet<_> = list.iter().map(T::to_string).collect();
            list.extend(members.into_iter().filter(|it| there.insert(it.to_string())));
        }
        Change::Remove => {
            let gone: HashSet<_> = members.iter().map(T::to_string).collect();
            list.retain(|it| !gone.contains(&it.to_string()));
        }
    }
    Ok(())
}

/// A group or a set whose members are changed by these operations. `None`: something else is, or an
/// operation does not fit.
pub fn changed(object: &Object, operations: &[PatchOperation]) -> Option<Object> {
    match object {
        Object::PortGroup(it) => {
            let mut it = it.clone();
            edit(&mut it.spec.ports, "/spec/ports/", operations)?;
            Some(Object::PortGroup(it))
        }
        Object::AddressSet(it) => {
            let mut it = it.clone();
            edit(&mut it.spec.addresses, "/spec/addresses/", operations)?;
            Some(Object::AddressSet(it))
        }
        _ => None,
    }
}

/// Edits a list that is at this place.
fn edit<T: Display + FromStr>(
    list: &mut Vec<T>,
    place: &str,
    operations: &[PatchOperation],
) -> Option<()> {
    // One that is empty is left out of the object's JSON: there is no place in it.
    if list.is_empty() {
        return None;
    }
    for operation in operations {
        let at = operation.path().as_str().strip_prefix(place)?;
        let below = |end: usize| index(at).filter(|it| *it < end);
        match operation {
            PatchOperation::Add(it) => {
                let at = if at == "-" { list.len() } else { below(list.len() + 1)? };
                list.insert(at, read(&it.value)?);
            }
            PatchOperation::Remove(_) => drop(list.remove(below(list.len())?)),
            PatchOperation::Replace(it) => {
                let at = below(list.len())?;
                list[at] = read(&it.value)?;
            }
            PatchOperation::Test(it) => {
                let is_so = it.value.as_str()? == list[below(list.len())?].to_string();
                is_so.then_some(())?;
            }
            PatchOperation::Move(_) | PatchOperation::Copy(_) => return None,
        }
    }
    Some(())
}

/// A place in a list, as JSON pointers have it (RFC 6901, section 4).
fn index(word: &str) -> Option<usize> {
    let is_number = word == "0" || word.starts_with(|it: char| ('1'..='9').contains(&it));
    word.parse().ok().filter(|_| is_number)
}

/// A member that is kept as it is written here: a later test may ask for these letters.
fn read<T: Display + FromStr>(value: &Value) -> Option<T> {
    let word = value.as_str()?;
    word.parse().ok().filter(|it: &T| it.to_string() == word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, spec: &Value) -> Object {
        let text = json!({"kind": kind, "metadata": {"name": "a", "tenant": "t"}, "spec": spec});
        let read = logical::read(&text.to_string());
        assert!(read.faults.is_empty(), "{:?}", read.faults);
        read.objects.into_iter().next().unwrap()
    }

    /// The same by the object's JSON.
    fn slow(object: &Object, patch: &json_patch::Patch) -> Option<Object> {
        let mut value = serde_json::to_value(object).unwrap();
        json_patch::patch(&mut value, patch).ok()?;
        let kind = object.kind();
        value.as_object_mut()?.remove("kind");
        Object::read(kind, &value).ok()
    }

    #[test]
    fn members_change_as_they_do_in_json() {
        let group = object("PortGroup", &json!({"ports": ["a", "u/b", "c"], "include": ["h"]}));
        let set = object("AddressSet", &json!({"addresses": ["10.0.0.1", "10.1.0.0/16"]}));
        let (none, empty) =
            (object("PortGroup", &json!({})), object("AddressSet", &json!({"addresses": []})));
        let one =
            |op: &str, path: &str, value: &str| json!([{"op": op, "path": path, "value": value}]);
        let mut patches = vec![
            json!([]),
            json!([{"op": "add", "path": "/spec/ports/-", "value": 7}]),
            json!([
                {"op": "test", "path": "/spec/ports/1", "value": "u/b"},
                {"op": "remove", "path": "/spec/ports/1"},
                {"op": "add", "path": "/spec/ports/0", "value": "z"},
                {"op": "replace", "path": "/spec/ports/2", "value": "y"},
            ]),
            json!([
                {"op": "test", "path": "/spec/addresses/1", "value": "10.1.0.0/16"},
                {"op": "remove", "path": "/spec/addresses/1"},
                {"op": "remove", "path": "/spec/addresses/0"},
                {"op": "add", "path": "/spec/addresses/-", "value": "10.2.0.1-10.2.0.9"},
            ]),
            json!([{"op": "replace", "path": "/spec", "value": {}}]),
            json!([
                {"op": "add", "path": "/spec/addresses/-", "value": "fd00::1"},
                {"op": "test", "path": "/spec/addresses/2", "value": "fd00::1"},
            ]),
            json!([{"op": "add", "path": "/spec/include/-", "value": "i"}]),
        ];
        // What is not written as it is kept.
        for op in ["add", "replace"] {
            for (written, kept) in [
                ("10.0.0.0-10.0.0.255", "10.0.0.0/24"),
                ("10.0.0.7-10.0.0.7", "10.0.0.7"),
                ("10.0.0.7/32", "10.0.0.7"),
                ("FD00::1", "fd00::1"),
            ] {
                for tested in [written, kept] {
                    patches.push(json!([
                        {"op": op, "path": "/spec/addresses/1", "value": written},
                        {"op": "test", "path": "/spec/addresses/1", "value": tested},
                    ]));
                }
            }
        }
        for op in ["add", "remove", "replace", "test"] {
            for list in ["ports", "addresses"] {
                for at in ["-", "0", "1", "2", "3", "4", "01", "+1", "", "x", "0/0", "~0"] {
                    for value in ["a", "10.0.0.1", "u/b", "NONE"] {
                        patches.push(one(op, &format!("/spec/{list}/{at}"), value));
                    }
                }
            }
        }
        let mut fast = 0;
        for object in [&group, &set, &none, &empty] {
            for patch in &patches {
                let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
                if let Some(it) = changed(object, &patch) {
                    assert_eq!(Some(it), slow(object, &patch), "{patch:?}");
                    fast += 1;
                }
            }
        }
        assert!(fast > 30, "{fast} patches change members alone");
    }
}
