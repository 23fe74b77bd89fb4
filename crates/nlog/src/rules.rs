//! Checks rules: that their names are known, their types agree and their variables have values.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::kinds::{Kind, Scalar};
use crate::names::{Meaning, Names};
use crate::program::{
    Aggregate, Atom, Builtin, Callee, MAX_ATOMS, MAX_SLOTS, Rule, Slot, SlotInfo, Sort, Summary,
    Type,
};
use crate::source::{Faults, Spot};
use crate::syntax::{Constant, HeadTerm, Literal, Name, Role, RuleItem, Term, TermKind};

/// The rule, unless it has faults.
pub(crate) fn rule(item: &RuleItem, names: &Names, faults: &mut Faults) -> Option<Rule> {
    let mut found = Faults::default();
    let rule =
        Checker { names, faults: &mut found, slots: Vec::new(), uses: BTreeMap::new() }.rule(item);
    let is_good = found.is_empty();
    faults.append(found);
    rule.filter(|_| is_good)
}

struct Checker<'c> {
    names: &'c Names,
    faults: &'c mut Faults,
    /// Variables and constants, with their types where they are known.
    slots: Vec<(SlotInfo, Option<Type>)>,
    /// Where variables are, by name: the first place, and how many there are.
    uses: BTreeMap<String, (Spot, usize)>,
}

impl Checker<'_> {
    fn rule(mut self, item: &RuleItem) -> Option<Rule> {
        let head = self.head_table(&item.head);
        if item.body.len() > MAX_ATOMS {
            let message = format!("more than {MAX_ATOMS} conditions: split the rule");
            self.faults.add(item.head.spot, message);
            return None;
        }
        let body: Vec<Atom> = item.body.iter().filter_map(|it| self.atom(it)).collect();
        if body.len() < item.body.len() {
            return None;
        }
        self.infer(&body);
        let (terms, aggregate) = self.head(item, head?)?;
        if self.slots.len() > MAX_SLOTS {
            let message = format!("more than {MAX_SLOTS} variables and constants: split the rule");
            self.faults.add(item.head.spot, message);
            return None;
        }
        let unbound = self.unbound(&body, &terms, item.head.spot);
        self.once_used(&unbound);
        let slots = self.slots.into_iter().map(|(info, _)| info).collect();
        let (spot, is_recursive) = (item.head.spot, false);
        Some(Rule { spot, head: head?, terms, aggregate, body, slots, is_recursive })
    }

    fn head_table(&mut self, name: &Name) -> Option<usize> {
        match self.names.meaning(name, self.faults)? {
            Meaning::Table(table) if self.names.tables[table].role != Role::Input => Some(table),
            Meaning::Table(_) => {
                let message = format!("{} is an input: derive into another table", name.text);
                self.faults.add(name.spot, message);
                None
            }
            Meaning::Function(_) => {
                let message = format!("{} is a function: derive into a table", name.text);
                self.faults.add(name.spot, message);
                None
            }
        }
    }

    /// The slot of a variable, which is new if it was not seen before.
    fn variable(&mut self, name: &str, spot: Spot) -> Slot {
        self.uses.entry(name.to_string()).or_insert((spot, 0)).1 += 1;
        let known = self.slots.iter().position(|(it, _)| it.constant.is_none() && it.name == name);
        self.slot(known, name.to_string(), None)
    }

    fn constant(&mut self, constant: &Constant, ty: Option<&Type>) -> Slot {
        let known = self.slots.iter().position(|(it, known)| {
            it.constant.as_ref() == Some(constant) && known.as_ref() == ty && ty.is_some()
        });
        let name = match constant {
            Constant::Bool(it) => it.to_string(),
            Constant::Int(it) => it.to_string(),
            Constant::Text(it) => format!("{it:?}"),
        };
        let slot = self.slot(known, name, Some(constant.clone()));
        if let Some(ty) = ty {
            self.slots[usize::from(slot)].1 = Some(ty.clone());
        }
        slot
    }

    /// Slots beyond what a `Slot` can count share the last one: the rule is refused anyway.
    fn slot(&mut self, known: Option<usize>, name: String, constant: Option<Constant>) -> Slot {
        let index = known.unwrap_or_else(|| {
            let ty = Type { name: String::new(), kind: Kind::One(Scalar::Id) };
            self.slots.push((SlotInfo { name, ty, constant }, None));
            self.slots.len() - 1
        });
        Slot::try_from(index).unwrap_or(Slot::MAX)
    }

    /// A condition, whose slots have the types that its columns tell.
    fn atom(&mut self, literal: &Literal) -> Option<Atom> {
        let meaning = self.names.meaning(&literal.name, self.faults)?;
        let (sort, types): (Sort, Vec<Option<&Type>>) = match meaning {
            Meaning::Table(table) => {
                let columns = self.names.tables[table].columns.iter();
                let sort = if literal.negated { Sort::Absent(table) } else { Sort::Table(table) };
                (sort, columns.map(|column| Some(&column.ty)).collect())
            }
            Meaning::Function(_) if literal.negated => {
                let message = "functions cannot be negated: use one that says the opposite";
                self.faults.add(literal.name.spot, message);
                return None;
            }
            Meaning::Function(callee @ Callee::Builtin(builtin)) => (
                Sort::Call(callee, Builtin::INPUTS),
                alloc::vec![None; Builtin::INPUTS + builtin.outputs()],
            ),
            Meaning::Function(callee @ Callee::Declared(function)) => {
                let function = &self.names.functions[function];
                let columns = function.inputs.iter().chain(&function.outputs);
                let types = columns.map(|column| Some(&column.ty)).collect();
                (Sort::Call(callee, function.inputs.len()), types)
            }
        };
        self.arity(&literal.name, types.len(), literal.terms.len())?;
        let inputs = if let Sort::Call(_, inputs) = sort { inputs } else { 0 };
        let mut terms = Vec::new();
        for (at, (term, ty)) in literal.terms.iter().zip(types).enumerate() {
            if matches!(term.kind, TermKind::Any) && at < inputs {
                self.faults.add(term.spot, "a function needs this value: write a variable");
            }
            terms.push(self.term(term, ty));
        }
        Some(Atom { spot: literal.name.spot, sort, terms })
    }

    fn arity(&mut self, name: &Name, expected: usize, found: usize) -> Option<()> {
        if expected != found {
            let message = format!("{} has {expected} columns: {found} are given", name.text);
            self.faults.add(name.spot, message);
            return None;
        }
        Some(())
    }

    fn term(&mut self, term: &Term, ty: Option<&Type>) -> Option<Slot> {
        match &term.kind {
            TermKind::Any => None,
            TermKind::Variable(name) => {
                let slot = self.variable(name, term.spot);
                if let Some(ty) = ty {
                    self.agree(slot, ty, term.spot);
                }
                Some(slot)
            }
            TermKind::Constant(constant) => {
                if let Some(ty) = ty {
                    self.fits(constant, ty, term.spot);
                }
                Some(self.constant(constant, ty))
            }
        }
    }

    /// Gives the slot the type, or finds that it has another.
    fn agree(&mut self, slot: Slot, ty: &Type, spot: Spot) {
        let Some((info, known)) = self.slots.get_mut(usize::from(slot)) else { return };
        match known {
            None => *known = Some(ty.clone()),
            Some(known) if known == ty => {}
            Some(known) => {
                let message = format!(
                    "{} is of type {}, and {} is wanted: use another variable",
                    info.name, known.name, ty.name
                );
                self.faults.add(spot, message);
            }
        }
    }

    fn fits(&mut self, constant: &Constant, ty: &Type, spot: Spot) {
        let scalar = match constant {
            Constant::Bool(_) => Scalar::Bool,
            Constant::Int(_) => Scalar::Int,
            Constant::Text(_) => Scalar::Text,
        };
        if ty.kind != Kind::One(scalar) {
            let message = format!("this is of type {scalar}, and {} is wanted: change it", ty.name);
            self.faults.add(spot, message);
        }
    }

    /// Types of what only builtins use, from their other arguments; then everything has a type.
    fn infer(&mut self, body: &[Atom]) {
        // A builtin's result may be another's argument, in any order.
        for _ in 0..body.len() {
            for atom in body {
                self.builtin(atom);
            }
        }
        for at in 0..self.slots.len() {
            let (info, known) = &mut self.slots[at];
            match known {
                Some(ty) => info.ty = ty.clone(),
                None => {
                    let name = info.name.clone();
                    let spot = body
                        .iter()
                        .find(|it| it.terms.iter().flatten().any(|slot| usize::from(*slot) == at))
                        .map(|it| it.spot);
                    if let Some(spot) = spot {
                        let message =
                            format!("nothing tells the type of {name}: use it in a table");
                        self.faults.add(spot, message);
                    }
                }
            }
        }
    }

    /// All arguments of a builtin have one type.
    fn builtin(&mut self, atom: &Atom) {
        let Sort::Call(Callee::Builtin(builtin), _) = atom.sort else { return };
        let slots: Vec<Slot> = atom.terms.iter().flatten().copied().collect();
        let types = slots.iter().filter_map(|it| self.slots.get(usize::from(*it))?.1.clone());
        let Some(ty) = types.into_iter().next() else { return };
        if builtin.takes_numbers() && ty.kind != Kind::One(Scalar::Int) {
            let message = format!("{} takes numbers, not {}: ", builtin.name(), ty.name);
            self.faults.add(atom.spot, message + "compare or compute something else");
        }
        for slot in slots {
            let Some((info, known)) = self.slots.get(usize::from(slot)) else { continue };
            if let (Some(constant), None) = (info.constant.clone(), known) {
                self.fits(&constant, &ty, atom.spot);
            }
            self.agree(slot, &ty, atom.spot);
        }
    }

    fn head(
        &mut self,
        item: &RuleItem,
        table: usize,
    ) -> Option<(Vec<Option<Slot>>, Option<Aggregate>)> {
        let names = self.names;
        let columns = &names.tables[table].columns;
        self.arity(&item.head, columns.len(), item.terms.len())?;
        let (mut terms, mut aggregate) = (Vec::new(), None);
        for (at, (term, column)) in item.terms.iter().zip(columns).enumerate() {
            let slot = match term {
                HeadTerm::Term(term) => {
                    if matches!(term.kind, TermKind::Any) {
                        self.faults.add(term.spot, "a head needs this value: write a variable");
                    }
                    self.term(term, Some(&column.ty))
                }
                HeadTerm::Aggregate(name, argument) => {
                    let argument = argument.as_ref();
                    let (summary, slot) = self.summary(name, argument, &column.ty);
                    if aggregate.is_some() {
                        let message = "a head has one aggregate: derive this one by another rule";
                        self.faults.add(name.spot, message);
                    }
                    aggregate = summary.map(|summary| Aggregate { summary, column: at });
                    slot
                }
            };
            terms.push(slot);
        }
        // The types of constants in the head are known only now.
        for (info, known) in &mut self.slots {
            if let Some(ty) = known {
                info.ty = ty.clone();
            }
        }
        Some((terms, aggregate))
    }

    fn summary(
        &mut self,
        name: &Name,
        argument: Option<&Name>,
        ty: &Type,
    ) -> (Option<Summary>, Option<Slot>) {
        let summary = match (name.text.as_str(), argument) {
            ("count", None) => Summary::Count,
            ("sum", Some(_)) => Summary::Sum,
            ("min", Some(_)) => Summary::Min,
            ("max", Some(_)) => Summary::Max,
            ("set", Some(_)) => Summary::Set,
            _ => {
                let message =
                    "this is no aggregate: write count(), sum(x), min(x), max(x) or set(x)";
                self.faults.add(name.spot, message);
                return (None, None);
            }
        };
        let slot = argument.map(|it| self.variable(&it.text, it.spot));
        let known = slot.and_then(|slot| self.slots.get(usize::from(slot))?.1.clone());
        let is_int = ty.kind == Kind::One(Scalar::Int);
        let (fits, wanted) = match (summary, known) {
            (Summary::Count, _) => (is_int, String::from("a number")),
            // A variable that the body lacks is found where all variables are looked at.
            (_, None) => (true, String::new()),
            (Summary::Sum, Some(of)) => (is_int && of == *ty, String::from("a number")),
            (Summary::Min | Summary::Max, Some(of)) => {
                (of == *ty && matches!(of.kind, Kind::One(_)), of.name)
            }
            (Summary::Set, Some(of)) => {
                (ty.name == format!("set {}", of.name), format!("set {}", of.name))
            }
        };
        if !fits {
            let message =
                format!("the column is of type {}: {} gives {wanted}", ty.name, name.text);
            self.faults.add(name.spot, message);
        }
        (Some(summary), slot)
    }

    /// A variable that nothing else names is a name that was mistyped, or means nothing.
    fn once_used(&mut self, unbound: &BTreeSet<Slot>) {
        for (slot, (info, _)) in (0..).zip(&self.slots) {
            if let Some((spot, 1)) = self.uses.get(&info.name)
                && info.constant.is_none()
                && !unbound.contains(&slot)
            {
                let message = format!("{} is used once: write _, or correct the name", info.name);
                self.faults.add(*spot, message);
            }
        }
    }

    /// Every variable has its values from a table, or from a function of such variables. Returns
    /// those that have not.
    fn unbound(&mut self, body: &[Atom], head: &[Option<Slot>], spot: Spot) -> BTreeSet<Slot> {
        let constants = (0..).zip(&self.slots).filter(|(_, it)| it.0.constant.is_some());
        let mut bound: BTreeSet<Slot> = constants.map(|(slot, _)| slot).collect();
        let mut has_table = false;
        for atom in body {
            if let Sort::Table(_) = atom.sort {
                has_table = true;
                bound.extend(atom.terms.iter().flatten());
            }
        }
        if !has_table {
            self.faults.add(spot, "nothing makes this rule begin: read a table in its body");
        }
        for _ in body {
            for atom in body {
                if let Sort::Call(_, inputs) = atom.sort {
                    let (inputs, outputs) = atom.terms.split_at(inputs);
                    if inputs.iter().flatten().all(|slot| bound.contains(slot)) {
                        bound.extend(outputs.iter().flatten());
                    }
                }
            }
        }
        let mut unbound = BTreeSet::new();
        let uses = body.iter().map(|atom| (atom.spot, &atom.terms[..]));
        for (spot, terms) in uses.chain([(spot, head)]) {
            for slot in terms.iter().flatten().filter(|slot| !bound.contains(slot)) {
                if unbound.insert(*slot) {
                    let name = &self.slots[usize::from(*slot)].0.name;
                    let message = format!("{name} has no value: use it in a table of the body");
                    self.faults.add(spot, message);
                }
            }
        }
        unbound
    }
}
