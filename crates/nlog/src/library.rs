//! Functions that rules call and that are written in Rust.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use crate::kinds::{Kind, Scalar};
use crate::program::{Column, MAX_COLUMNS};
use crate::values::{Datum, Value, Values};

/// What a function says of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// There is a row: the outputs that were given.
    Row,
    /// There is none.
    Nothing,
}

/// A call of a function: its inputs, and where its outputs go.
pub struct Call<'a> {
    pub(crate) values: &'a mut Values,
    pub(crate) inputs: &'a [Column],
    pub(crate) outputs: &'a [Column],
    pub(crate) given: &'a [u32],
    pub(crate) row: [u32; MAX_COLUMNS],
    pub(crate) len: usize,
}

impl Call<'_> {
    /// An input, by its index.
    pub fn input(&self, index: usize) -> Value {
        Value { kind: self.inputs[index].ty.kind, word: self.given[index] }
    }

    /// What an input is.
    pub fn datum(&self, index: usize) -> Datum<'_> {
        self.values.datum(self.input(index))
    }

    /// An input that is a number.
    ///
    /// # Panics
    ///
    /// If it was declared as something else.
    pub fn int(&self, index: usize) -> u64 {
        assert_eq!(self.inputs[index].ty.kind, Kind::One(Scalar::Int), "input {index}");
        self.values.int_of(self.given[index])
    }

    /// The engine's values, to make outputs of.
    pub fn values(&mut self) -> &mut Values {
        self.values
    }

    /// Gives the next output.
    ///
    /// # Panics
    ///
    /// If the function was declared without it, or with another type.
    pub fn give(&mut self, value: Value) {
        assert_eq!(self.outputs[self.len].ty.kind, value.kind, "output {}", self.len);
        self.row[self.len] = value.word;
        self.len += 1;
    }
}

type Implementation = Box<dyn Fn(&mut Call<'_>) -> Result<Answer, String> + Send + Sync>;

/// What the functions of a program do.
///
/// A function depends on nothing but its inputs: the engine calls it when a derivation comes and
/// again when it goes, and what it says must be the same. An error refuses the whole batch.
#[derive(Default)]
pub struct Library {
    functions: BTreeMap<String, Implementation>,
}

impl Library {
    /// No functions: for programs that declare none.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more, which replaces one of the same name.
    #[must_use]
    pub fn with(
        mut self,
        name: &str,
        function: impl Fn(&mut Call<'_>) -> Result<Answer, String> + Send + Sync + 'static,
    ) -> Self {
        self.functions.insert(name.to_string(), Box::new(function));
        self
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Implementation> {
        self.functions.remove(name)
    }
}

/// The functions of a program, by their indexes.
pub(crate) type Functions = alloc::vec::Vec<Implementation>;
