//! A rule file as it was written: items, before anybody knows what the names in it mean.

use alloc::string::String;
use alloc::vec::Vec;

use crate::source::Spot;

#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub spot: Spot,
    pub text: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Type(TypeItem),
    Table(TableItem),
    Function(FunctionItem),
    Rule(RuleItem),
}

/// `type lport = text;`
#[derive(Clone, Debug)]
pub(crate) struct TypeItem {
    pub name: Name,
    pub base: Name,
}

/// Whence a table's tuples come, and where they go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Declared `input`: the program's user inserts and deletes its tuples.
    Input,
    /// Declared `table`: rules derive its tuples, and only rules read them.
    Internal,
    /// Declared `output`: rules derive its tuples, and every commit tells which came and went.
    Output,
}

/// `input log_port(port: lport, datapath: datapath) key(port);`
#[derive(Clone, Debug)]
pub(crate) struct TableItem {
    pub role: Role,
    pub name: Name,
    pub columns: Vec<ColumnItem>,
    pub key: Vec<Name>,
}

/// `port: lport`, or `ports: set lport`
#[derive(Clone, Debug)]
pub(crate) struct ColumnItem {
    pub name: Name,
    pub is_set: bool,
    pub of: Name,
}

/// `function flow_output_action(port: int) -> (actions: action);`
#[derive(Clone, Debug)]
pub(crate) struct FunctionItem {
    pub name: Name,
    pub inputs: Vec<ColumnItem>,
    pub outputs: Vec<ColumnItem>,
}

/// `head(...) :- literal, literal;`
#[derive(Clone, Debug)]
pub(crate) struct RuleItem {
    pub head: Name,
    pub terms: Vec<HeadTerm>,
    pub body: Vec<Literal>,
}

#[derive(Clone, Debug)]
pub(crate) enum HeadTerm {
    Term(Term),
    /// `count()`, `sum(x)`, `min(x)`, `max(x)` or `set(x)`.
    Aggregate(Name, Option<Name>),
}

/// `port(a, _)`, `not port(a, _)`, `not_equal(a, b)`
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub negated: bool,
    pub name: Name,
    pub terms: Vec<Term>,
}

#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub spot: Spot,
    pub kind: TermKind,
}

#[derive(Clone, Debug)]
pub(crate) enum TermKind {
    Variable(String),
    /// `_`
    Any,
    Constant(Constant),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Constant {
    Bool(bool),
    Int(u64),
    Text(String),
}
