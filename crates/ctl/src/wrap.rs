//! Long sentences wrapped to the width of a terminal.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

/// Columns if the width is unknown.
pub(crate) const WIDTH: usize = 80;

/// Columns of the terminal to which this output goes, if it is one.
pub(crate) fn columns(output: impl AsFd + IsTerminal) -> Option<usize> {
    let is_terminal = output.is_terminal();
    is_terminal.then(|| match rustix::termios::tcgetwinsize(output) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => WIDTH,
    })
}

/// Wraps a sentence for standard output that begins after `begun` columns; further lines are indented.
pub(crate) fn for_stdout(text: &str, begun: usize, indent: usize) -> String {
    wrapped(text, begun, indent, columns(io::stdout()).unwrap_or(WIDTH))
}

/// Wraps a sentence for standard error.
pub(crate) fn for_stderr(text: &str, begun: usize, indent: usize) -> String {
    wrapped(text, begun, indent, columns(io::stderr()).unwrap_or(WIDTH))
}

/// Wraps a sentence to this many columns. A word longer than a line is broken, as a terminal would do.
pub(crate) fn wrapped(text: &str, begun: usize, indent: usize, width: usize) -> String {
    let width = width.max(indent + 1);
    let mut wrapped = String::new();
    let mut column = begun;
    let mut is_first = true;
    let begin_line = |wrapped: &mut String| {
        wrapped.push('\n');
        wrapped.extend(std::iter::repeat_n(' ', indent));
        indent
    };
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let gap = usize::from(!is_first);
        if column + gap + length <= width {
            wrapped.extend(std::iter::repeat_n(' ', gap));
            column += gap;
        } else if column > indent || !is_first {
            column = begin_line(&mut wrapped);
        }
        for letter in word.chars() {
            if column >= width {
                column = begin_line(&mut wrapped);
            }
            wrapped.push(letter);
            column += 1;
        }
        is_first = false;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("one two three", 0, 2, 80), "one two three");
        assert_eq!(wrapped("one two three", 0, 2, 8), "one two\n  three");
        assert_eq!(wrapped("one two", 5, 2, 8), "one\n  two");
        assert_eq!(wrapped("three", 6, 2, 8), "\n  three");
        assert_eq!(wrapped("  one\n two ", 0, 0, 80), "one two");
        assert_eq!(wrapped("", 3, 2, 80), "");
    }

    #[test]
    fn no_line_is_longer_than_there_is_room() {
        let text = "a sentence with `/a/path/that/is/rather/long/and/has/no/blank` in it, and more";
        for width in 5..90 {
            for (begun, indent) in [(0, 0), (4, 2), (3, 4)] {
                let whole = format!(
                    "{}{}",
                    "x".repeat(begun),
                    wrapped(text, begun, indent, width)
                );
                for line in whole.lines() {
                    assert!(line.chars().count() <= width.max(begun), "{width}: {whole}");
                }
                let letters = |text: &str| text.split_whitespace().collect::<String>();
                assert_eq!(letters(&whole), "x".repeat(begun) + &letters(text));
            }
        }
    }
}
