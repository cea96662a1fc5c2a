//! Lines of a watch: each is an event, and they arrive in parts.

/// The longest line. A slice of a thousand endpoints, the maximum, has about 500 kB.
const LONGEST: usize = 8 << 20;

/// The beginning of an incomplete line.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// Adds data and returns the lines that it completes.
    ///
    /// # Errors
    /// A line is too long.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut ended = Vec::new();
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = rest.split_at(end);
            self.0.extend_from_slice(line);
            ended.push(std::mem::take(&mut self.0));
            rest = behind.get(1..).unwrap_or_default();
        }
        self.0.extend_from_slice(rest);
        if self.0.len() > LONGEST {
            return Err(format!("an event of more than {} MiB", LONGEST >> 20));
        }
        ended.retain(|line| !line.iter().all(u8::is_ascii_whitespace));
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"ab").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(
            lines.take(b"c\nd\r\n\n\nef").unwrap(),
            [b"abc".to_vec(), b"d\r".to_vec()]
        );
        assert_eq!(lines.take(b"\n").unwrap(), [b"ef"]);
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut lines = Lines::default();
        let piece = vec![b'a'; 1 << 20];
        let outcome: Result<Vec<_>, _> = (0..10).map(|_| lines.take(&piece)).collect();
        assert!(outcome.is_err());
    }
}
