//! Rule files into items.
//!
//! ```text
//! item     = "type" name "=" name ";"
//!          | ("input" | "table" | "output") name "(" column {"," column} ")" [key] ";"
//!          | "function" name "(" column {"," column} ")" ["->" "(" column {"," column} ")"] ";"
//!          | name "(" headterm {"," headterm} ")" ":-" literal {"," literal} ";"
//! key      = "key" "(" name {"," name} ")"
//! column   = name ":" ["set"] name
//! headterm = term | "count" "(" ")" | ("sum" | "min" | "max" | "set") "(" name ")"
//! literal  = ["not"] name "(" term {"," term} ")"
//! term     = name | "_" | number | text | "true" | "false"
//! ```
//!
//! `#` begins a comment. After a fault the parser goes on behind the next semicolon, so one run
//! finds the faults of all items.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::lex::{Kind, Token, tokens};
use crate::source::{Faults, Spot};
use crate::syntax::{
    ColumnItem, Constant, FunctionItem, HeadTerm, Item, Literal, Name, Role, RuleItem, TableItem,
    Term, TermKind, TypeItem,
};

/// The items of a file that could be read.
pub(crate) fn parse(file: u32, text: &str, faults: &mut Faults) -> Vec<Item> {
    let tokens = tokens(file, text, faults);
    let mut parser = Parser { tokens: &tokens };
    let mut items = Vec::new();
    while parser.tokens[0].kind != Kind::End {
        match parser.item() {
            Ok(item) => items.push(item),
            Err((spot, message)) => {
                faults.add(spot, message);
                parser.skip_item();
            }
        }
    }
    items
}

type Parsed<T> = Result<T, (Spot, String)>;

/// What is left to read. The last token is the file's end, which is never passed.
struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
}

impl<'a> Parser<'_, 'a> {
    fn spot(&self) -> Spot {
        self.tokens[0].spot
    }

    fn advance(&mut self) {
        if self.tokens.len() > 1 {
            self.tokens = &self.tokens[1..];
        }
    }

    /// To behind the next semicolon.
    fn skip_item(&mut self) {
        while !self.take(";") {
            if self.tokens[0].kind == Kind::End {
                return;
            }
            self.advance();
        }
    }

    /// Whether the next token is this sign, which is passed if so.
    fn take(&mut self, sign: &'static str) -> bool {
        let is = self.tokens[0].kind == Kind::Sign(sign);
        if is {
            self.advance();
        }
        is
    }

    fn expect(&mut self, sign: &'static str, here: &str) -> Parsed<()> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&format!("{sign} {here}"))) }
    }

    fn unexpected(&self, wanted: &str) -> (Spot, String) {
        let found = match &self.tokens[0].kind {
            Kind::Name(name) => (*name).to_string(),
            Kind::Int(number) => number.to_string(),
            Kind::Text(text) => format!("{text:?}"),
            Kind::Sign(sign) => (*sign).to_string(),
            Kind::End => String::from("the end of the file"),
        };
        (self.spot(), format!("found {found}: write {wanted}"))
    }

    fn name(&mut self, what: &str) -> Parsed<Name> {
        let Kind::Name(text) = self.tokens[0].kind else {
            return Err(self.unexpected(what));
        };
        let name = Name { spot: self.spot(), text: text.to_string() };
        self.advance();
        Ok(name)
    }

    /// `( one, one, ... )`, with at least one.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.expect("(", "before a list")?;
        let mut all = alloc::vec![one(self)?];
        while self.take(",") {
            all.push(one(self)?);
        }
        self.expect(")", "or , after what is listed")?;
        Ok(all)
    }

    /// The word at which the parser stands, if another name follows: then it is a keyword.
    fn keyword(&self) -> Option<&'a str> {
        match self.tokens {
            [Token { kind: Kind::Name(word), .. }, Token { kind: Kind::Name(_), .. }, ..] => {
                Some(word)
            }
            _ => None,
        }
    }

    fn item(&mut self) -> Parsed<Item> {
        let Some(keyword) = self.keyword() else { return self.rule() };
        let spot = self.spot();
        self.advance();
        let item = match keyword {
            "type" => {
                let name = self.name("the type's name")?;
                self.expect("=", "after the type's name")?;
                let base = self.name("bool, int, text, bytes or id")?;
                Item::Type(TypeItem { name, base })
            }
            "input" => self.table(Role::Input)?,
            "table" => self.table(Role::Internal)?,
            "output" => self.table(Role::Output)?,
            "function" => {
                let name = self.name("the function's name")?;
                let inputs = self.list(Self::column)?;
                let outputs = if self.take("->") { self.list(Self::column)? } else { Vec::new() };
                Item::Function(FunctionItem { name, inputs, outputs })
            }
            word => {
                let items = "type, input, table, output, function or a rule";
                return Err((spot, format!("{word} begins no item: write {items}")));
            }
        };
        self.expect(";", "at the item's end")?;
        Ok(item)
    }

    fn table(&mut self, role: Role) -> Parsed<Item> {
        let name = self.name("the table's name")?;
        let columns = self.list(Self::column)?;
        let has_key = self.tokens[0].kind == Kind::Name("key");
        let key = if has_key {
            self.advance();
            self.list(|parser| parser.name("a column's name"))?
        } else {
            Vec::new()
        };
        Ok(Item::Table(TableItem { role, name, columns, key }))
    }

    fn column(&mut self) -> Parsed<ColumnItem> {
        let name = self.name("a column's name")?;
        self.expect(":", "and a type after the column's name")?;
        let is_set = self.keyword() == Some("set");
        if is_set {
            self.advance();
        }
        let of = self.name("the column's type")?;
        Ok(ColumnItem { name, is_set, of })
    }

    fn rule(&mut self) -> Parsed<Item> {
        let head = self.name("an item")?;
        let terms = self.list(Self::head_term)?;
        self.expect(":-", "and what the head follows from")?;
        let mut body = alloc::vec![self.literal()?];
        while self.take(",") {
            body.push(self.literal()?);
        }
        self.expect(";", "or , after a condition")?;
        Ok(Item::Rule(RuleItem { head, terms, body }))
    }

    fn head_term(&mut self) -> Parsed<HeadTerm> {
        let [Token { kind: Kind::Name(_), .. }, Token { kind: Kind::Sign("("), .. }, ..] =
            self.tokens
        else {
            return Ok(HeadTerm::Term(self.term()?));
        };
        let name = self.name("an aggregate")?;
        self.advance();
        let argument = if self.take(")") {
            return Ok(HeadTerm::Aggregate(name, None));
        } else {
            self.name("the variable that is aggregated")?
        };
        self.expect(")", "after the variable")?;
        Ok(HeadTerm::Aggregate(name, Some(argument)))
    }

    fn literal(&mut self) -> Parsed<Literal> {
        let negated = self.keyword() == Some("not");
        if negated {
            self.advance();
        }
        let name = self.name("a table or a function")?;
        let terms = self.list(Self::term)?;
        Ok(Literal { negated, name, terms })
    }

    fn term(&mut self) -> Parsed<Term> {
        let kind = match &self.tokens[0].kind {
            Kind::Name("true") => TermKind::Constant(Constant::Bool(true)),
            Kind::Name("false") => TermKind::Constant(Constant::Bool(false)),
            Kind::Name(name) => TermKind::Variable((*name).to_string()),
            Kind::Int(number) => TermKind::Constant(Constant::Int(*number)),
            Kind::Text(text) => TermKind::Constant(Constant::Text(text.clone())),
            Kind::Sign("_") => TermKind::Any,
            _ => return Err(self.unexpected("a variable, _, a number or a text")),
        };
        let spot = self.spot();
        self.advance();
        Ok(Term { spot, kind })
    }
}
