//! Reads objects from a text, and tells of all that is wrong with it at once.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tree::{Misfit, Node, NotYaml, Position, Value};

use crate::fault::Fault;
use crate::objects::{Identity, Kind, Name, Object};
use crate::resolve::resolve_among;
use crate::topology::Topology;

/// How many faults of form are told of one object.
const MOST_MISFITS: usize = 100;

/// What was read of a text.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The objects whose form is right, in the text's order.
    pub objects: Vec<Object>,
    /// What is wrong with the form of the others.
    pub faults: Vec<Fault>,
    /// Whether the text says nothing: not even, by an empty list, that there are none.
    pub is_empty: bool,
    /// The nodes of [`Source::objects`].
    nodes: Vec<Node>,
    /// Objects that are there, but whose form is wrong: references to them are not at fault.
    broken: BTreeSet<Identity>,
}

/// An object that was read already: faults have no places in a text.
impl From<Object> for Source {
    fn from(object: Object) -> Self {
        Self { objects: alloc::vec![object], ..Self::default() }
    }
}

impl Source {
    /// Checks the objects together: the topology, or all that is wrong, in the text's order.
    pub fn resolve(self) -> Result<Topology, Vec<Fault>> {
        self.resolve_beside(Vec::new())
    }

    /// Checks the objects together with others that are not in the text. Of what is wrong with
    /// those, no position is told.
    pub fn resolve_beside(mut self, mut others: Vec<Object>) -> Result<Topology, Vec<Fault>> {
        self.objects.append(&mut others);
        let objects: Vec<_> = self.objects.iter().collect();
        let resolved = resolve_among(&objects, &self.broken);
        let mut found = match resolved {
            Ok(topology) if self.faults.is_empty() => return Ok(topology),
            Ok(_) => Vec::new(),
            Err(found) => found,
        };
        for fault in &mut found {
            let node = fault.index.and_then(|index| self.nodes.get(index));
            fault.position = node.map(|node| node.locate(&fault.path));
        }
        self.faults.append(&mut found);
        self.faults.sort_by_key(|fault| fault.position);
        Err(self.faults)
    }
}

/// Reads a text of YAML documents, or of JSON; each is an object or a list of objects.
pub fn read(text: &str) -> Source {
    let mut source = Source::default();
    let documents = match tree::documents(text) {
        Ok(documents) => documents,
        Err(NotYaml { at, message }) => {
            source.faults.push(Fault {
                index: None,
                object: String::new(),
                path: String::new(),
                message,
                position: Some(at),
            });
            return source;
        }
    };
    source.is_empty = documents.is_empty();
    for document in documents {
        match document.value {
            Value::List(items) => items.into_iter().for_each(|(_, node)| source.add(node)),
            _ => source.add(document),
        }
    }
    source
}

/// Reads a text and resolves what it declares.
pub fn load(text: &str) -> Result<Topology, Vec<Fault>> {
    read(text).resolve()
}

impl Source {
    /// Reads one object.
    fn add(&mut self, node: Node) {
        let mut rest = node.clone();
        let kind = rest.take("kind");
        let word = kind.as_ref().and_then(Node::text);
        let kind = match word.map(str::parse::<Kind>) {
            Some(Ok(kind)) => kind,
            Some(Err(message)) => return self.complain("", "/kind", message, node.locate("/kind")),
            None => {
                let message = "`kind` is missing: say what this is, as `kind: LogicalSwitch`";
                return self.complain("", "", message.into(), node.at);
            }
        };
        let name = |key| node.get("metadata")?.get(key)?.text()?.parse::<Name>().ok();
        let identity = name("name").map(|name| Identity { kind, tenant: name_of(&node), name });
        let object = identity.as_ref().map_or_else(|| kind.to_string(), Identity::to_string);

        // What does not fit is taken out and the rest read again, until no more can be told.
        let mut fits = None;
        for attempt in 0..MOST_MISFITS {
            match Object::read(kind, &rest) {
                Ok(object) if attempt == 0 => fits = Some(object),
                Ok(_) => {}
                Err(misfit) => {
                    let path = misfit.path();
                    let at = misfit.at.unwrap_or(node.at);
                    // A field that was taken out is not missing.
                    if attempt == 0 || !is_missing(&misfit, &node) {
                        let message = model::mistake::plain(&misfit.message);
                        self.complain(&object, &path, message, at);
                    }
                    if rest.remove(&path) {
                        continue;
                    }
                }
            }
            break;
        }
        match fits {
            Some(object) => {
                self.objects.push(object);
                self.nodes.push(node);
            }
            None => self.broken.extend(identity),
        }
    }

    fn complain(&mut self, object: &str, path: &str, message: String, at: Position) {
        let (object, path) = (object.to_string(), path.to_string());
        self.faults.push(Fault { index: None, object, path, message, position: Some(at) });
    }
}

fn name_of(node: &Node) -> Option<Name> {
    node.get("metadata")?.get("tenant")?.text()?.parse().ok()
}

/// Whether a field is said to be missing that was there.
fn is_missing(misfit: &Misfit, node: &Node) -> bool {
    let field = misfit.message.strip_prefix("missing field `");
    field.and_then(|it| it.strip_suffix('`')).is_some_and(|field| {
        let path = format!("{}/{field}", misfit.path());
        let mut node = node.clone();
        node.remove(&path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn told(text: &str) -> Vec<String> {
        load(text).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_empty_list_says_more_than_nothing() {
        for (text, is_empty) in [("", true), ("# a\n---\n", true), ("null", true), ("[]", false)] {
            let source = read(text);
            assert_eq!((source.is_empty, source.objects.len()), (is_empty, 0), "{text}");
            assert!(source.resolve().is_ok(), "{text}");
        }
    }

    #[test]
    fn every_fault_of_form_is_told_at_once_with_its_place() {
        let text = "\
kind: LogicalSwitch
metadata: {name: web, tenant: shop}
spec:
  subnet: [10.0.0.0/24]
  mtu: much
  subnets: [10.0.0.0/24, 10.0.0.0, x]
---
kind: LogicalSwich
---
- kind: Tenant
  metadata: {name: shop}
  spec: {}
- metadata: {}
";
        assert_eq!(
            told(text),
            [
                "4:3: LogicalSwitch/shop/web /spec/subnet: `subnet` is not known here: did you mean `subnets`?",
                "5:8: LogicalSwitch/shop/web /spec/mtu: this is the word \"much\": write a whole number from 0 to 65535",
                "6:26: LogicalSwitch/shop/web /spec/subnets/1: `10.0.0.0` is not an address with a prefix: write it as 10.0.0.1/24 or fd00::1/64",
                "6:36: LogicalSwitch/shop/web /spec/subnets/2: `x` is not an address with a prefix: write it as 10.0.0.1/24 or fd00::1/64",
                "8:7: no kind of object: `LogicalSwich` is not known here: did you mean `LogicalSwitch`?",
                "13:3: `kind` is missing: say what this is, as `kind: LogicalSwitch`",
            ]
        );
    }

    #[test]
    fn a_reference_to_an_object_of_wrong_form_is_not_at_fault() {
        let text = "\
[{\"kind\": \"Tenant\", \"metadata\": {\"name\": \"shop\"}, \"spec\": {}},
 {\"kind\": \"LogicalSwitch\", \"metadata\": {\"name\": \"web\", \"tenant\": \"shop\"}, \"spec\": {\"mtu\": []}},
 {\"kind\": \"LogicalPort\", \"metadata\": {\"name\": \"a\", \"tenant\": \"shop\"},
  \"spec\": {\"switch\": \"web\", \"vif\": {}}}]";
        let faults = load(text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].path, "/spec/mtu");
    }

    #[test]
    fn what_is_no_yaml_is_one_fault() {
        assert_eq!(told("a: [").len(), 1);
        assert_eq!(
            told("kind: 7"),
            vec!["1:1: `kind` is missing: say what this is, as `kind: LogicalSwitch`"]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(kind: |LogicalPort|spec|: |\\{|\\}|\\[|\\]|a|1|, |\n|  |- )*") {
            let _ = load(&text);
        }
    }
}
