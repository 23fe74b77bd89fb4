//! Changes of a topology's tree: objects added, removed, replaced; fields set.
//!
//! ```text
//! { add: { acls: [..] } }   { remove: { acls: [a] } }   { replace: { acls: [..] } }
//! { set: { ports.a1.enabled: false } }                  { delete: ports.a1 }
//! ```
//!
//! A path's steps are keys of maps, and the names of what is in lists.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tree::{Key, Node, Value};

/// One write: realized everywhere before the next.
#[derive(Clone, Debug)]
pub enum Op {
    /// Objects are added: a map of kinds.
    Add(Node),
    /// Objects are removed, by their names.
    Remove(Node),
    /// Objects of the same names take the place of others.
    Replace(Node),
    /// Fields are set, by their paths.
    Set(Node),
    /// What paths lead to is removed.
    Delete(Vec<String>),
    /// A port's machine is taken away.
    Detach(String),
    /// A port's machine is there again.
    Attach {
        /// The port.
        port: String,
        /// The host, if it is another.
        at: Option<String>,
    },
    /// A port's machine moves.
    Move(Move),
    /// A host says that it has a port.
    Claim {
        /// The port.
        port: String,
        /// The host.
        by: String,
    },
    /// A program is restarted.
    Restart(String),
    /// An agent has no controller.
    Cut {
        /// The agent's host.
        agent: String,
        /// For how many seconds.
        seconds: f64,
    },
}

/// A move of a port's machine to another host.
#[derive(Clone, Debug)]
pub struct Move {
    /// The port.
    pub port: String,
    /// The host that it moves to.
    pub to: String,
    /// How far the move goes: `prepare`, `activate`, `finish`; all of it if absent.
    pub stage: Option<String>,
}

impl Op {
    /// Reads one.
    pub fn read(node: &Node) -> Result<Self, String> {
        let Value::Map(entries) = &node.value else {
            return Err("a change is a map, as { remove: { acls: [a] } }".to_owned());
        };
        let [(key, value)] = entries.as_slice() else {
            return Err("a change is one thing: write each in an entry of its own".to_owned());
        };
        let text = |node: &Node| {
            node.text().map(ToOwned::to_owned).ok_or_else(|| format!("`{}` names one", key.text))
        };
        let field = |name: &str| {
            let found = value.get(name).and_then(Node::text).map(ToOwned::to_owned);
            found.ok_or_else(|| format!("`{}` has no `{name}`: write it", key.text))
        };
        Ok(match key.text.as_str() {
            "add" => Self::Add(value.clone()),
            "remove" => Self::Remove(value.clone()),
            "replace" => Self::Replace(value.clone()),
            "set" => Self::Set(value.clone()),
            "delete" => Self::Delete(words(value)),
            "detach" => Self::Detach(text(value).or_else(|_| field("port"))?),
            "attach" => Self::Attach {
                port: text(value).or_else(|_| field("port"))?,
                at: field("at").or_else(|_| field("to")).ok(),
            },
            "move" => Self::Move(Move {
                port: field("port")?,
                to: field("to")?,
                stage: field("stage").ok(),
            }),
            "claim" => Self::Claim { port: field("port")?, by: field("by")? },
            "restart" => Self::Restart(text(value)?),
            "cut" => Self::Cut {
                agent: field("agent")?,
                seconds: value.get("s").and_then(number).unwrap_or(1.0),
            },
            other => {
                return Err(format!(
                    "`{other}` is no change: write add, remove, replace, set, delete, detach, \
                     attach, move, claim, restart or cut"
                ));
            }
        })
    }

    /// Makes the change in a topology's tree.
    pub fn apply(&self, tree: &mut Node) -> Result<(), String> {
        match self {
            Self::Add(what) => merge(tree, what, false),
            Self::Replace(what) => merge(tree, what, true),
            Self::Remove(what) => remove(tree, what),
            Self::Set(fields) => {
                let Value::Map(fields) = &fields.value else {
                    return Err(
                        "`set` is a map of paths, as { ports.a1.enabled: false }".to_owned()
                    );
                };
                fields.iter().try_for_each(|(path, value)| put(tree, &path.text, value.clone()))
            }
            Self::Delete(paths) => paths.iter().try_for_each(|path| {
                let (parent, last) = split(path);
                let parent = find(tree, &parent).ok_or_else(|| nothing(path))?;
                if take(parent, last) { Ok(()) } else { Err(nothing(path)) }
            }),
            Self::Detach(port) => put(tree, &format!("ports.{port}.enabled"), bool(false)),
            Self::Attach { port, at } => {
                if let Some(at) = at {
                    put(tree, &format!("ports.{port}.at"), text(at))?;
                }
                put(tree, &format!("ports.{port}.enabled"), bool(true))
            }
            Self::Move(Move { port, to, stage }) => match stage.as_deref() {
                // The old host has it until the new one is active.
                Some("prepare" | "finish") => Ok(()),
                _ => put(tree, &format!("ports.{port}.at"), text(to)),
            },
            Self::Claim { port, by } => put(tree, &format!("ports.{port}.at"), text(by)),
            Self::Restart(_) | Self::Cut { .. } => Ok(()),
        }
    }
}

/// A number of a node.
pub fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Unsigned(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

/// The words that a node is: one, or several.
pub fn words(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Text(text) => alloc::vec![text.clone()],
        Value::List(items) => {
            items.iter().filter_map(|(_, it)| it.text().map(ToOwned::to_owned)).collect()
        }
        Value::Map(entries) => entries
            .iter()
            .flat_map(|(key, value)| {
                words(value).into_iter().map(move |word| format!("{}.{word}", key.text))
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn nothing(path: &str) -> String {
    format!("there is no {path}")
}

fn bool(value: bool) -> Node {
    Node { at: tree::Position { line: 0, column: 0 }, value: Value::Bool(value) }
}

fn text(value: &str) -> Node {
    Node { at: tree::Position { line: 0, column: 0 }, value: Value::Text(value.to_owned()) }
}

/// A path's parent, and its last step.
fn split(path: &str) -> (String, &str) {
    path.rsplit_once('.').map_or((String::new(), path), |(parent, last)| (parent.to_owned(), last))
}

/// What an item of a list is called.
fn name_of(node: &Node) -> Option<&str> {
    node.get("name").and_then(Node::text).or_else(|| node.text())
}

fn step<'a>(node: &'a mut Node, word: &str) -> Option<&'a mut Node> {
    match &mut node.value {
        Value::Map(entries) => {
            entries.iter_mut().find(|(key, _)| key.text == word).map(|(_, node)| node)
        }
        Value::List(items) => items
            .iter_mut()
            .find(|(i, node)| name_of(node) == Some(word) || i.to_string() == word)
            .map(|(_, node)| node),
        _ => None,
    }
}

fn find<'a>(node: &'a mut Node, path: &str) -> Option<&'a mut Node> {
    path.split('.').filter(|word| !word.is_empty()).try_fold(node, step)
}

/// Sets what a path leads to; maps on the way are made.
fn put(tree: &mut Node, path: &str, value: Node) -> Result<(), String> {
    let (parent, last) = split(path);
    let mut node = tree;
    for word in parent.split('.').filter(|word| !word.is_empty()) {
        if step(node, word).is_none() {
            let Value::Map(entries) = &mut node.value else { return Err(nothing(path)) };
            let empty = Node { at: value.at, value: Value::Map(Vec::new()) };
            entries.push((Key { at: value.at, text: word.to_owned() }, empty));
        }
        node = step(node, word).ok_or_else(|| nothing(path))?;
    }
    if let Some(old) = step(node, last) {
        *old = value;
        return Ok(());
    }
    match &mut node.value {
        Value::Map(entries) => entries.push((Key { at: value.at, text: last.to_owned() }, value)),
        Value::List(items) => items.push((items.len(), value)),
        _ => return Err(nothing(path)),
    }
    Ok(())
}

/// Takes an entry out of a map, or an item of that name out of a list.
fn take(node: &mut Node, name: &str) -> bool {
    match &mut node.value {
        Value::Map(_) => node.take(name).is_some(),
        Value::List(items) => {
            let before = items.len();
            items.retain(|(_, it)| name_of(it) != Some(name));
            items.len() < before
        }
        _ => false,
    }
}

/// Adds maps' entries and lists' items. `replaces`: what has the same name goes.
fn merge(tree: &mut Node, what: &Node, replaces: bool) -> Result<(), String> {
    let Value::Map(entries) = &what.value else {
        return Err("what is added is a map, as { acls: [{ name: a, … }] }".to_owned());
    };
    for (key, value) in entries {
        match step(tree, &key.text) {
            None => put(tree, &key.text, value.clone())?,
            Some(old) => match (&mut old.value, &value.value) {
                (Value::List(items), Value::List(more)) => {
                    for (_, item) in more {
                        let name = name_of(item);
                        let same = name.and_then(|name| {
                            items.iter_mut().find(|(_, it)| name_of(it) == Some(name))
                        });
                        match same {
                            Some((_, old)) if replaces => *old = item.clone(),
                            _ => items.push((items.len(), item.clone())),
                        }
                    }
                }
                (Value::Map(_), Value::Map(more)) if !replaces => {
                    for (key, value) in more {
                        let deeper = Node {
                            at: key.at,
                            value: Value::Map(alloc::vec![(key.clone(), value.clone())]),
                        };
                        merge(old, &deeper, false)?;
                    }
                }
                (Value::Map(_), Value::Map(more)) => {
                    more.iter().try_for_each(|(key, value)| put(old, &key.text, value.clone()))?;
                }
                _ => *old = value.clone(),
            },
        }
    }
    Ok(())
}

/// Removes what is named: of each map or list, entries by name; a path deeper, by maps.
fn remove(tree: &mut Node, what: &Node) -> Result<(), String> {
    let Value::Map(entries) = &what.value else {
        return words(what).iter().try_for_each(|word| {
            let (parent, last) = split(word);
            let gone = find(tree, &parent).is_some_and(|parent| take(parent, last));
            if gone { Ok(()) } else { Err(nothing(word)) }
        });
    };
    for (key, names) in entries {
        let node = step(tree, &key.text).ok_or_else(|| nothing(&key.text))?;
        match &names.value {
            Value::Map(_) => remove(node, names)?,
            _ => {
                for name in words(names) {
                    if !take(node, &name) {
                        return Err(nothing(&format!("{}.{name}", key.text)));
                    }
                }
            }
        }
    }
    Ok(())
}
