//! The engine against what it promises.

mod dataflow;
mod naive;
mod random;
mod recursion;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Datum, Engine, Library, Program, TableId, Tuple, Value, Values};

/// A value that belongs to no engine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Plain {
    Bool(bool),
    Int(u64),
    Text(String),
    Bytes(Vec<u8>),
    Id(u32),
    Set(Vec<Plain>),
}

impl From<Datum<'_>> for Plain {
    fn from(datum: Datum<'_>) -> Self {
        match datum {
            Datum::Bool(it) => Self::Bool(it),
            Datum::Int(it) => Self::Int(it),
            Datum::Text(it) => Self::Text(it.to_owned()),
            Datum::Bytes(it) => Self::Bytes(it.to_owned()),
            Datum::Id(it) => Self::Id(it),
            Datum::Set(it) => Self::Set(it.into_iter().map(Self::from).collect()),
        }
    }
}

impl Plain {
    fn value(&self, values: &mut Values) -> Value {
        match self {
            Self::Bool(it) => values.bool(*it),
            Self::Int(it) => values.int(*it),
            Self::Text(it) => values.text(it),
            Self::Bytes(it) => values.bytes(it),
            Self::Id(it) => values.id(*it),
            Self::Set(_) => panic!("inputs of tests have no sets"),
        }
    }
}

/// A table: its tuples, each with the number of its derivations.
pub(crate) type Table = BTreeMap<Vec<Plain>, u64>;

fn program(text: &str) -> Program {
    Program::parse(&[("rules", text)]).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn engine(program: Program) -> Engine {
    Engine::new(program, Library::new(), Values::new(1)).expect("tests' programs need no library")
}

fn plain(engine: &Engine, tuple: Tuple<'_>) -> Vec<Plain> {
    tuple.values().map(|value| engine.values().datum(value).into()).collect()
}

/// All tables of an engine, with numbers.
fn tables(engine: &Engine) -> Vec<Table> {
    let table = |table: TableId| {
        let tuples = engine.tuples(table).map(|tuple| {
            let values: Vec<Value> = tuple.values().collect();
            (plain(engine, tuple), engine.derivations(table, &values))
        });
        tuples.collect()
    };
    engine.tables().map(table).collect()
}
