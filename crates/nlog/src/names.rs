//! What the names in rule files stand for: types, tables and functions.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::kinds::{Kind, Scalar};
use crate::program::{Builtin, Callee, Column, Function, MAX_COLUMNS, Table, Type};
use crate::source::{Faults, Spot};
use crate::syntax::{ColumnItem, FunctionItem, Item, Name, TableItem, TypeItem};

/// What a rule's body can name.
#[derive(Clone, Copy)]
pub(crate) enum Meaning {
    Table(usize),
    Function(Callee),
}

#[derive(Default)]
pub(crate) struct Names {
    types: BTreeMap<String, Type>,
    meanings: BTreeMap<String, (Option<Spot>, Meaning)>,
    pub tables: Vec<Table>,
    pub functions: Vec<Function>,
}

impl Names {
    /// All declarations among the items. The order of items does not matter.
    pub fn of(items: &[Item], faults: &mut Faults) -> Self {
        let mut names = Self::default();
        for (name, builtin) in Builtin::ALL {
            let meaning = Meaning::Function(Callee::Builtin(builtin));
            names.meanings.insert(name.to_string(), (None, meaning));
        }
        for item in items {
            if let Item::Type(item) = item {
                names.add_type(item, faults);
            }
        }
        for item in items {
            match item {
                Item::Table(item) => names.add_table(item, faults),
                Item::Function(item) => names.add_function(item, faults),
                Item::Type(_) | Item::Rule(_) => {}
            }
        }
        names
    }

    /// What a body means by a name.
    pub fn meaning(&self, name: &Name, faults: &mut Faults) -> Option<Meaning> {
        let meaning = self.meanings.get(&name.text).map(|(_, meaning)| *meaning);
        if meaning.is_none() {
            let message = format!("nothing is called {}: declare a table or a function", name.text);
            faults.add(name.spot, message);
        }
        meaning
    }

    fn add_type(&mut self, item: &TypeItem, faults: &mut Faults) {
        let name = &item.name.text;
        let Some(base) = Scalar::named(&item.base.text) else {
            let message =
                format!("{} is no base type: use bool, int, text, bytes or id", item.base.text);
            return faults.add(item.base.spot, message);
        };
        let ty = Type { name: name.clone(), kind: Kind::One(base) };
        if Scalar::named(name).is_some() || self.types.insert(name.clone(), ty).is_some() {
            faults.add(item.name.spot, format!("there is a type {name} already: rename this one"));
        }
    }

    fn add_table(&mut self, item: &TableItem, faults: &mut Faults) {
        let columns = self.columns(&item.columns, faults);
        let mut key = Vec::new();
        for name in &item.key {
            match columns.iter().position(|column| column.name == name.text) {
                Some(column) if !key.contains(&column) => key.push(column),
                Some(_) => faults.add(name.spot, "this column is twice in the key: remove one"),
                None => {
                    let message = format!("the table has no column {}: correct it", name.text);
                    faults.add(name.spot, message);
                }
            }
        }
        key.sort_unstable();
        if let Some(first) = item.key.first()
            && item.role != crate::syntax::Role::Input
        {
            faults.add(first.spot, "only input tables have keys: remove this one");
        }
        let meaning = Meaning::Table(self.tables.len());
        if self.add_meaning(&item.name, meaning, faults) {
            self.tables.push(Table {
                name: item.name.text.clone(),
                role: item.role,
                columns,
                key,
                stratum: 0,
                rules: Vec::new(),
            });
        }
    }

    fn add_function(&mut self, item: &FunctionItem, faults: &mut Faults) {
        let inputs = self.columns(&item.inputs, faults);
        let outputs = self.columns(&item.outputs, faults);
        let meaning = Meaning::Function(Callee::Declared(self.functions.len()));
        if self.add_meaning(&item.name, meaning, faults) {
            let (name, spot) = (item.name.text.clone(), item.name.spot);
            self.functions.push(Function { name, spot, inputs, outputs });
        }
    }

    /// Whether the name is new.
    fn add_meaning(&mut self, name: &Name, meaning: Meaning, faults: &mut Faults) -> bool {
        match self.meanings.get(&name.text) {
            None => {
                self.meanings.insert(name.text.clone(), (Some(name.spot), meaning));
                true
            }
            Some((first, _)) => {
                let whose = match first {
                    Some(first) => format!("line {} has", first.line),
                    None => String::from("every program has"),
                };
                let message = format!("{whose} a {} already: rename this one", name.text);
                faults.add(name.spot, message);
                false
            }
        }
    }

    fn columns(&self, items: &[ColumnItem], faults: &mut Faults) -> Vec<Column> {
        if items.len() > MAX_COLUMNS {
            let message = format!("{} columns are too many: at most {MAX_COLUMNS}", items.len());
            faults.add(items[MAX_COLUMNS].name.spot, message);
        }
        let mut columns: Vec<Column> = Vec::new();
        for item in items {
            if columns.iter().any(|column| column.name == item.name.text) {
                let message = format!("there is a column {} already: rename this", item.name.text);
                faults.add(item.name.spot, message);
            }
            columns.push(Column { name: item.name.text.clone(), ty: self.ty(item, faults) });
        }
        columns
    }

    fn ty(&self, item: &ColumnItem, faults: &mut Faults) -> Type {
        let name = &item.of.text;
        let known = match Scalar::named(name) {
            Some(scalar) => Some(Type { name: name.clone(), kind: Kind::One(scalar) }),
            None => self.types.get(name).cloned(),
        };
        let of = known.unwrap_or_else(|| {
            faults.add(item.of.spot, format!("no type is called {name}: declare it by type"));
            Type { name: name.clone(), kind: Kind::One(Scalar::Id) }
        });
        match of.kind {
            Kind::One(scalar) if item.is_set => {
                Type { name: format!("set {}", of.name), kind: Kind::Set(scalar) }
            }
            _ => of,
        }
    }
}
