//! Which frames of a place are wanted: the part of tcpdump's expressions (pcap-filter(7)) that asks
//! for machines, ports and protocols.
//!
//! ```text
//! host 10.0.0.2 and (tcp port 80 or icmp) and not ether host 02:00:00:00:00:01
//! ```

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use units::{Mac, Prefix};

/// The longest expression, in bytes. Each frame that comes by is held against all of it.
pub const LONGEST_FILTER: usize = 1024;

/// How deep parentheses and `not` may be nested.
const DEEPEST: u32 = 32;

/// What frames have to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Filter {
    text: String,
    expression: Expression,
}

/// A condition, made of tests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Expression {
    /// One test.
    Test(Test),
    /// The other way round.
    Not(Box<Expression>),
    /// All of them.
    All(Vec<Expression>),
    /// At least one of them.
    Any(Vec<Expression>),
}

/// What one word asks of a frame. VLAN tags are looked through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Test {
    /// It carries this.
    Protocol(Protocol),
    /// An IP address of it, or one that ARP asks or answers for, lies within this.
    Net(Side, Prefix),
    /// It is TCP or UDP, not a later fragment, and has this port.
    Port(Side, u16),
    /// It has this Ethernet address.
    Ether(Side, Mac),
    /// It has a tag, with this VLAN if one is named.
    Vlan(Option<u16>),
}

/// Whose address or port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The sender's.
    Source,
    /// The receiver's.
    Destination,
    /// Of either.
    Either,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// ARP.
    Arp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP.
    Icmp,
    /// ICMP of IPv6.
    Icmp6,
}

/// Why a text is no filter.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidFilter {
    /// A word is not understood where it is.
    #[error(
        "`{0}` is not understood: write host, net, port, ether host, vlan, ip, ip6, arp, tcp, udp, icmp or icmp6, with and, or, not and parentheses"
    )]
    Word(String),
    /// Something has to follow.
    #[error("it ends too early, after `{0}`")]
    End(String),
    /// There is none.
    #[error("it is empty: leave it out")]
    Empty,
    /// It is too long, or nested too deep.
    #[error("it is longer than {LONGEST_FILTER} bytes, or nested more than {DEEPEST} deep")]
    TooLong,
}

impl Filter {
    /// What it asks.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Filter {
    type Err = InvalidFilter;

    fn from_str(text: &str) -> Result<Self, InvalidFilter> {
        if text.len() > LONGEST_FILTER {
            return Err(InvalidFilter::TooLong);
        }
        let mut words = Words { words: split(text), next: 0 };
        if words.words.is_empty() {
            return Err(InvalidFilter::Empty);
        }
        let expression = words.joined(0)?;
        match words.peek() {
            Some(word) => Err(InvalidFilter::Word(word.into())),
            None => Ok(Self { text: text.into(), expression }),
        }
    }
}

/// Words, parentheses and tcpdump's signs.
fn split(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_sign = |c: char| matches!(c, '(' | ')' | '!');
        let len = if rest.starts_with("&&") || rest.starts_with("||") {
            2
        } else if is_sign(first) {
            1
        } else {
            let ends = |c: char| c.is_whitespace() || is_sign(c) || matches!(c, '&' | '|');
            // A lone `&` is a word that nobody understands.
            rest.find(ends)
                .filter(|len| *len > 0)
                .unwrap_or_else(|| if ends(first) { first.len_utf8() } else { rest.len() })
        };
        let (word, behind) = rest.split_at(len);
        words.push(word);
        rest = behind.trim_start();
    }
    words
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self, any: &[&str]) -> Option<&'a str> {
        let word = self.peek().filter(|word| any.contains(word))?;
        self.next += 1;
        Some(word)
    }

    /// The next word, which there has to be.
    fn word(&mut self) -> Result<&'a str, InvalidFilter> {
        let word = self.peek().ok_or_else(|| {
            let before = self.next.checked_sub(1).map_or("", |last| self.words[last]);
            InvalidFilter::End(before.into())
        })?;
        self.next += 1;
        Ok(word)
    }

    /// The next word as something.
    fn value<T: FromStr>(&mut self) -> Result<T, InvalidFilter> {
        let word = self.word()?;
        word.parse().map_err(|_| InvalidFilter::Word(word.into()))
    }

    /// Tests joined by `and` and `or`, which bind alike, from left to right: pcap-filter(7).
    fn joined(&mut self, depth: u32) -> Result<Expression, InvalidFilter> {
        let mut joined = self.not(depth)?;
        while let Some(word) = self.take(&["and", "&&", "or", "||"]) {
            let next = self.not(depth)?;
            let parts = Vec::from([joined, next]);
            joined = match word {
                "and" | "&&" => Expression::All(parts),
                _ => Expression::Any(parts),
            };
        }
        Ok(joined)
    }

    fn not(&mut self, depth: u32) -> Result<Expression, InvalidFilter> {
        if depth == DEEPEST {
            return Err(InvalidFilter::TooLong);
        }
        if self.take(&["not", "!"]).is_some() {
            return Ok(Expression::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.take(&["("]).is_some() {
            let inside = self.joined(depth + 1)?;
            return match self.word()? {
                ")" => Ok(inside),
                word => Err(InvalidFilter::Word(word.into())),
            };
        }
        self.primitive()
    }

    /// `tcp`, `tcp port 80`, `src host 10.0.0.1`, `ether dst 02:00:00:00:00:01`, `vlan 7`.
    fn primitive(&mut self) -> Result<Expression, InvalidFilter> {
        if self.take(&["vlan"]).is_some() {
            let id = self.peek().and_then(|word| word.parse().ok());
            self.next += usize::from(id.is_some());
            return Ok(Expression::Test(Test::Vlan(id)));
        }
        if self.take(&["ether"]).is_some() {
            let side = self.side().unwrap_or(Side::Either);
            self.take(&["host"]);
            return Ok(Expression::Test(Test::Ether(side, self.value()?)));
        }
        let protocol = self.peek().and_then(protocol);
        self.next += usize::from(protocol.is_some());
        let test = self.qualified(protocol.is_none())?;
        let protocol = protocol.map(|it| Expression::Test(Test::Protocol(it)));
        let parts: Vec<_> = protocol.into_iter().chain(test.map(Expression::Test)).collect();
        Ok(one_or(parts, Expression::All))
    }

    /// What may follow a protocol, and has to follow if there is none.
    fn qualified(&mut self, needed: bool) -> Result<Option<Test>, InvalidFilter> {
        let side = self.side();
        let needed = needed || side.is_some();
        let side = side.unwrap_or(Side::Either);
        match self.take(&["host", "net", "port"]) {
            Some("port") => Ok(Some(Test::Port(side, self.value()?))),
            Some("net") => Ok(Some(Test::Net(side, self.value()?))),
            Some(_) => Ok(Some(Test::Net(side, self.host()?))),
            // `src 10.0.0.1` means a host.
            None if needed => Ok(Some(Test::Net(side, self.host()?))),
            None => Ok(None),
        }
    }

    fn side(&mut self) -> Option<Side> {
        Some(match self.take(&["src", "dst"])? {
            "src" => Side::Source,
            _ => Side::Destination,
        })
    }

    fn host(&mut self) -> Result<Prefix, InvalidFilter> {
        let address: core::net::IpAddr = self.value()?;
        Ok(Prefix { address, length: if address.is_ipv4() { 32 } else { 128 } })
    }
}

fn protocol(word: &str) -> Option<Protocol> {
    Some(match word {
        "ip" => Protocol::Ip,
        "ip6" => Protocol::Ip6,
        "arp" => Protocol::Arp,
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "icmp" => Protocol::Icmp,
        "icmp6" => Protocol::Icmp6,
        _ => return None,
    })
}

/// The only part, or all of them in one.
fn one_or(mut parts: Vec<Expression>, all: fn(Vec<Expression>) -> Expression) -> Expression {
    match (parts.pop(), parts.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            parts.extend(last);
            all(parts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Expression::{All, Any, Not};
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn parse(text: &str) -> Expression {
        text.parse::<Filter>().unwrap().expression
    }

    fn test(test: Test) -> Expression {
        Expression::Test(test)
    }

    fn net(side: Side, prefix: &str) -> Expression {
        test(Test::Net(side, prefix.parse().unwrap()))
    }

    #[test]
    fn words_mean_what_they_mean_to_tcpdump() {
        let tcp = || test(Test::Protocol(Protocol::Tcp));
        let udp = || test(Test::Protocol(Protocol::Udp));
        let port = |side, port| test(Test::Port(side, port));
        let mac = Mac::local(1);
        for (text, meant) in [
            ("tcp", tcp()),
            ("host 10.0.0.2", net(Side::Either, "10.0.0.2/32")),
            ("src fd00::1", net(Side::Source, "fd00::1/128")),
            ("dst net 10.0.0.0/8", net(Side::Destination, "10.0.0.0/8")),
            ("port 80", port(Side::Either, 80)),
            ("tcp dst port 80", All(vec![tcp(), port(Side::Destination, 80)])),
            ("ether src 02:00:00:00:00:01", test(Test::Ether(Side::Source, mac))),
            ("ether host 02:00:00:00:00:01", test(Test::Ether(Side::Either, mac))),
            ("vlan", test(Test::Vlan(None))),
            ("vlan 7 and tcp", All(vec![test(Test::Vlan(Some(7))), tcp()])),
            ("not tcp", Not(Box::new(tcp()))),
            ("!(tcp||port 7)", Not(Box::new(Any(vec![tcp(), port(Side::Either, 7)])))),
            // `and` and `or` bind alike, from left to right.
            ("tcp or udp && port 7", All(vec![Any(vec![tcp(), udp()]), port(Side::Either, 7)])),
            ("tcp && port 7 or udp", Any(vec![All(vec![tcp(), port(Side::Either, 7)]), udp()])),
            ("tcp or (udp and port 7)", Any(vec![tcp(), All(vec![udp(), port(Side::Either, 7)])])),
        ] {
            assert_eq!(parse(text), meant, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let wrong = |text: &str| text.parse::<Filter>().unwrap_err().to_string();
        for (text, named) in [
            ("hots 10.0.0.1", "`hots`"),
            ("host example.org", "`example.org`"),
            ("port http", "`http`"),
            ("tcp or", "after `or`"),
            ("(tcp", "after `tcp`"),
            ("tcp)", "`)`"),
            ("tcp & udp", "`&`"),
            (" ", "it is empty"),
            ("port 70000", "`70000`"),
        ] {
            assert!(wrong(text).contains(named), "{text}: {}", wrong(text));
        }
        assert_eq!(
            ["(".repeat(200), "x".repeat(2000)].map(|text| text.parse::<Filter>()),
            [Err(InvalidFilter::TooLong), Err(InvalidFilter::TooLong)]
        );
    }
}
