//! A rule file as words and signs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::source::{Faults, Spot};

/// A word or a sign, and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token<'a> {
    pub spot: Spot,
    pub kind: Kind<'a>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Kind<'a> {
    Name(&'a str),
    Int(u64),
    Text(String),
    /// One of `( ) , ; : = _ :- ->`.
    Sign(&'static str),
    /// The end of the file.
    End,
}

/// The tokens of a file, the last of which is its end. Characters that belong to none are faults,
/// and are left out.
pub(crate) fn tokens<'a>(file: u32, text: &'a str, faults: &mut Faults) -> Vec<Token<'a>> {
    let mut lexer = Lexer { rest: text, spot: Spot { file, line: 1, column: 1 } };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let spot = lexer.spot;
        match lexer.next() {
            Ok(Kind::End) => {
                tokens.push(Token { spot, kind: Kind::End });
                return tokens;
            }
            Ok(kind) => tokens.push(Token { spot, kind }),
            Err(message) => faults.add(spot, message),
        }
    }
}

/// Two-character signs come first, so that `:-` is not read as `:`.
const SIGNS: [&str; 8] = [":-", "->", "(", ")", ",", ";", ":", "="];

struct Lexer<'a> {
    rest: &'a str,
    spot: Spot,
}

impl<'a> Lexer<'a> {
    /// Takes so many bytes, which end at a character's end.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        for character in taken.chars() {
            if character == '\n' {
                self.spot.line += 1;
                self.spot.column = 1;
            } else {
                self.spot.column += 1;
            }
        }
        self.rest = rest;
        taken
    }

    /// Takes characters while they are of a sort.
    fn take_while(&mut self, sort: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|it| !sort(it)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest.starts_with('#') {
                return;
            }
            self.take_while(|it| it != '\n');
        }
    }

    fn next(&mut self) -> Result<Kind<'a>, String> {
        let Some(first) = self.rest.chars().next() else { return Ok(Kind::End) };
        if first.is_ascii_alphabetic() || first == '_' {
            let name = self.take_while(|it| it.is_ascii_alphanumeric() || it == '_');
            return Ok(if name == "_" { Kind::Sign("_") } else { Kind::Name(name) });
        }
        if first.is_ascii_digit() {
            let digits = self.take_while(|it| it.is_ascii_alphanumeric() || it == '_');
            return match digits.parse() {
                Ok(number) => Ok(Kind::Int(number)),
                Err(_) => Err(format!("{digits} is no number: write one from 0 to {}", u64::MAX)),
            };
        }
        if first == '"' {
            return self.text();
        }
        if let Some(sign) = SIGNS.into_iter().find(|sign| self.rest.starts_with(sign)) {
            self.take(sign.len());
            return Ok(Kind::Sign(sign));
        }
        self.take(first.len_utf8());
        Err(format!("{first:?} means nothing here: remove it"))
    }

    /// A text in quotes, in which `\"` and `\\` stand for the second character.
    fn text(&mut self) -> Result<Kind<'a>, String> {
        self.take(1);
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|it| !matches!(it, '"' | '\\' | '\n')));
            match self.rest.as_bytes() {
                [b'"', ..] => {
                    self.take(1);
                    return Ok(Kind::Text(text));
                }
                [b'\\', b'"' | b'\\', ..] => text.push_str(&self.take(2)[1..]),
                [b'\\', ..] => {
                    self.take(1);
                    return Err(String::from("write \\\" or \\\\: no other escape is known"));
                }
                _ => return Err(String::from("a text ends on its line: add a quote")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<Kind<'_>>, Vec<String>) {
        let mut faults = Faults::default();
        let kinds = tokens(0, text, &mut faults).into_iter().map(|token| token.kind).collect();
        let faults = faults.named(&["f".into()]).iter().map(|it| alloc::format!("{it}")).collect();
        (kinds, faults)
    }

    #[test]
    fn words_signs_numbers_and_texts_are_told_apart() {
        let (kinds, faults) = kinds("a_1(_, 23) :- \"say \\\"x\\\"\"; # no more\n");
        assert_eq!(faults, [""; 0]);
        let (sign, name) = (Kind::Sign, Kind::Name);
        let text = Kind::Text("say \"x\"".into());
        let expected = [
            name("a_1"),
            sign("("),
            sign("_"),
            sign(","),
            Kind::Int(23),
            sign(")"),
            sign(":-"),
            text,
            sign(";"),
            Kind::End,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_is_no_token_is_a_fault_at_its_place() {
        let (_, faults) = kinds("é\n  12ab \"open\n \"a\\n\"");
        assert_eq!(
            faults,
            [
                "f:1:1: 'é' means nothing here: remove it",
                "f:2:3: 12ab is no number: write one from 0 to 18446744073709551615",
                "f:2:8: a text ends on its line: add a quote",
                "f:3:2: write \\\" or \\\\: no other escape is known",
                "f:3:6: a text ends on its line: add a quote",
            ]
        );
    }
}
