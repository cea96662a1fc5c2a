//! The size limits of a head (RFC 9110 §5.4, RFC 9112 §3): no line is longer than `large_header_buffer_size`, and the head no longer than
//! `large_header_buffers` times that.
//!
//! An incomplete head is only measured by what can only grow, so whether a head is accepted never depends on how the bytes were split; only
//! how soon it is refused does.

use crate::error::HeadError;
use crate::limits::MessageLimits;

/// Measures an incomplete head: its last line, and its length so far. Earlier lines are checked when it is complete.
pub(super) fn of_part(part: &[u8], limits: &MessageLimits) -> Result<(), HeadError> {
    let longest = limits.large_header_buffer_size;
    if part.len() <= longest {
        return Ok(());
    }
    let line = part.rsplit(|byte| *byte == b'\n').next().unwrap_or(part);
    // A CR at its end may belong to the line end.
    if without_cr(line).len() > longest {
        return Err(of_line(part, part.len() - line.len(), longest));
    }
    // At least one more byte must follow.
    if part.len() < limits.max_head_bytes() {
        Ok(())
    } else {
        Err(HeadError::FieldsTooLarge)
    }
}

/// Measures a complete head.
pub(super) fn of_whole(head: &[u8], limits: &MessageLimits) -> Result<(), HeadError> {
    let longest = limits.large_header_buffer_size;
    if head.len() <= longest {
        return Ok(());
    }
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', head) {
        let line = head.get(start..end).unwrap_or_default();
        if without_cr(line).len() > longest {
            return Err(of_line(head, start, longest));
        }
        start = end + 1;
    }
    if head.len() <= limits.max_head_bytes() {
        Ok(())
    } else {
        Err(HeadError::FieldsTooLarge)
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The request line and a field have different statuses, and a line whose first word does not end is no request line: it has no target
/// that could be too long. Empty lines may precede the request line (RFC 9112 §2.2).
fn of_line(head: &[u8], start: usize, longest: usize) -> HeadError {
    let request_line = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    if request_line.is_some_and(|at| start > at) {
        return HeadError::FieldsTooLarge;
    }
    let line = head.get(start..start + longest).unwrap_or_default();
    if memchr::memchr(b' ', line).is_some() {
        HeadError::RequestLineTooLong
    } else {
        HeadError::StartLine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> MessageLimits {
        MessageLimits {
            large_header_buffer_size: 10,
            large_header_buffers: 3,
            ..MessageLimits::default()
        }
    }

    #[test]
    fn each_line_and_the_whole_are_limited() {
        for (head, outcome) in [
            ("0123456789\r\n\r\n", Ok(())),
            ("G 23456789a\r\n\r\n", Err(HeadError::RequestLineTooLong)),
            ("\r\nG 23456789a\n\n", Err(HeadError::RequestLineTooLong)),
            ("0123456789a\r\n\r\n", Err(HeadError::StartLine)),
            ("\r\n0123456789 b\n\n", Err(HeadError::StartLine)),
            ("x\r\n0123456789\n\n", Ok(())),
            ("x\r\n0123456789a\n\n", Err(HeadError::FieldsTooLarge)),
            ("0123456789\n0123456789\n012345\n\n", Ok(())),
            (
                "0123456789\n0123456789\n0123456\n\n",
                Err(HeadError::FieldsTooLarge),
            ),
        ] {
            assert_eq!(of_whole(head.as_bytes(), &limits()), outcome, "{head:?}");
            // If the whole head is accepted, so is each of its prefixes.
            for end in 0..head.len() {
                let part = of_part(&head.as_bytes()[..end], &limits());
                assert!(part.is_ok() || part == outcome, "{head:?} {end}");
            }
        }
    }

    #[test]
    fn an_incomplete_head_is_refused_as_soon_as_it_cannot_fit() {
        assert_eq!(of_part(b"0123456789\r", &limits()), Ok(()));
        assert_eq!(
            of_part(b"G 23456789a", &limits()),
            Err(HeadError::RequestLineTooLong)
        );
        assert_eq!(
            of_part(b"0123456789a", &limits()),
            Err(HeadError::StartLine)
        );
        assert_eq!(
            of_part(b"x\n0123456789a", &limits()),
            Err(HeadError::FieldsTooLarge)
        );
        assert_eq!(
            of_part(b"0123456789\n0123456789\n0123456", &limits()),
            Ok(())
        );
        assert_eq!(
            of_part(b"0123456789\n0123456789\n01234567", &limits()),
            Err(HeadError::FieldsTooLarge)
        );
    }
}
