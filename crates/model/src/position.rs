//! Where something stands in a text that people write.

/// A line of a text and a place in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Position<'t> {
    /// The line's number, from 1.
    pub line: usize,
    /// The place in the line, in characters, from 1.
    pub column: usize,
    /// The line's text, without spaces around it.
    pub text: &'t str,
}

impl<'t> Position<'t> {
    /// The position of a byte of `text`; that of the end if `text` is not as long.
    pub fn of(text: &'t str, byte: usize) -> Self {
        let (before, behind) = text.split_at(text.floor_char_boundary(byte));
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = before.len() + behind.find('\n').unwrap_or(behind.len());
        Self {
            line: 1 + before.matches('\n').count(),
            column: 1 + before[begin..].chars().count(),
            text: text[begin..end].trim(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let text = "a = 1\r\n  ä = 2\n";
        for (byte, line, column, words) in
            [(0, 1, 1, "a = 1"), (4, 1, 5, "a = 1"), (9, 2, 3, "ä = 2"), (12, 2, 5, "ä = 2")]
        {
            assert_eq!(Position::of(text, byte), Position { line, column, text: words });
        }
    }

    #[test]
    fn a_byte_within_a_character_or_behind_the_end_has_a_position() {
        assert_eq!(Position::of("ä", 1).column, 1);
        let end = Position { line: 2, column: 1, text: "" };
        assert_eq!(Position::of("a\n", usize::MAX), end);
        assert_eq!(Position::of("", 0), Position { line: 1, column: 1, text: "" });
    }
}
