//! Questions for names, and what answers have: as far as cases speak of them (RFC 1035 §4).

use alloc::string::String;
use alloc::vec::Vec;

use crate::layers::word;
use crate::scalar::{Scalar, number_of};

/// What may be asked of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// The name that is asked for.
    Name,
    /// What is asked of it.
    Kind,
    /// The first record of that type that answers.
    Record(u16),
}

/// Types of records.
pub const A: u16 = 1;
pub const PTR: u16 = 12;
pub const AAAA: u16 = 28;

/// Bytes before the question.
const HEADER: usize = 12;

/// Through how many labels and jumps a name is followed.
const MOST_STEPS: usize = 128;

/// What a message says.
pub fn get(message: &[u8], part: Part) -> Option<Scalar> {
    let (asked, mut at) = name(message, HEADER)?;
    let wanted = match part {
        Part::Name => return Some(Scalar::Bytes(asked.into_bytes())),
        Part::Kind => return word(message, at).map(|kind| Scalar::Number(kind.into())),
        Part::Record(kind) => kind,
    };
    at += 4;
    for _ in 0..word(message, 6)? {
        let (_, behind) = name(message, at)?;
        let data = behind + 10;
        at = data + usize::from(word(message, behind + 8)?);
        let value = message.get(data..at)?;
        match word(message, behind)? {
            kind if kind != wanted => {}
            PTR => return Some(Scalar::Bytes(name(message, data)?.0.into_bytes())),
            _ => return Some(Scalar::Number(number_of(value))),
        }
    }
    None
}

/// The name at a place, and where what is behind it begins.
fn name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut end = None;
    for _ in 0..MOST_STEPS {
        match *message.get(at)? {
            0 => return Some((text, end.unwrap_or(at + 1))),
            len @ 1..=63 => {
                let label = message.get(at + 1..at + 1 + usize::from(len))?;
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&String::from_utf8_lossy(label));
                at += 1 + usize::from(len);
            }
            // A jump to where the rest of the name stands (§4.1.4).
            0xc0.. => {
                end = end.or(Some(at + 2));
                at = usize::from(word(message, at)? & 0x3fff);
            }
            _ => return None,
        }
    }
    None
}

/// A question for a name.
pub fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut message = alloc::vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|it| (1..=63).contains(&it.len())) {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read() {
        let message = question("web.shop", AAAA);
        assert_eq!(get(&message, Part::Name), Some(Scalar::Bytes(b"web.shop".to_vec())));
        assert_eq!(get(&message, Part::Kind), Some(Scalar::Number(28)));
        assert_eq!(get(&message, Part::Record(A)), None);
    }

    #[test]
    fn a_name_that_leads_to_itself_is_none() {
        let mut message = question("a", A);
        message[HEADER..HEADER + 2].copy_from_slice(&[0xc0, HEADER as u8]);
        assert_eq!(get(&message, Part::Name), None);
    }
}
