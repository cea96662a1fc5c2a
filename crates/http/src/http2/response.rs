//! Heads as the server writes them for HTTP/1, as lists of fields.

use memchr::{memchr, memmem};

use crate::http2::is_connection_specific;
use crate::known::Known;

/// Takes the head off the front of `text`: the status, the fields and what follows. `None` until the head is whole.
///
/// For heads that the server has written; what comes from elsewhere is read by [`ResponseHead`](crate::ResponseHead).
pub fn split_response(text: &[u8]) -> Option<(u16, ResponseFields<'_>, &[u8])> {
    let end = memmem::find(text, b"\r\n\r\n")?;
    let (head, rest) = text.split_at_checked(end + 4)?;
    let line_end = memchr(b'\n', head)? + 1;
    let (line, fields) = head.split_at_checked(line_end)?;
    // `HTTP/1.1 200 OK`
    let status = line.get(9..12)?.iter().try_fold(0_u16, |status, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        Some(status * 10 + u16::from(digit))
    })?;
    Some((status, ResponseFields { text: fields }, rest))
}

/// A request's head, as it is written for HTTP/1: the method, the target and the fields. `None` if it is not whole.
pub fn split_request(text: &[u8]) -> Option<(&[u8], &[u8], ResponseFields<'_>)> {
    let (line, fields) = text.split_at_checked(memchr(b'\n', text)? + 1)?;
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next()?, words.next()?);
    Some((method, target, ResponseFields { text: fields }))
}

/// The fields that may be sent in HTTP/2, in order, without those that speak of the connection (RFC 9113 §8.2.2). Names are in the
/// case they were written in.
#[derive(Clone, Debug)]
pub struct ResponseFields<'a> {
    text: &'a [u8],
}

impl<'a> Iterator for ResponseFields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (line, rest) = self.text.split_at_checked(memchr(b'\n', self.text)? + 1)?;
            self.text = rest;
            let (name, value) = line.split_at_checked(memchr(b':', line)?)?;
            // Without the colon and the line end.
            let value = value.get(1..)?.trim_ascii();
            if !is_connection_specific(Known::from_name(name)) {
                return Some((name, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_split_off_once_it_is_whole() {
        let text = b"HTTP/1.1 404 Not Found\r\nServer: Tutti\r\nX-A:b:  c \r\nConnection: close\r\nkeep-alive: 5\r\n\
            Transfer-Encoding: chunked\r\nUpgrade: x\r\nEmpty:\r\n\r\nbody\r\n\r\n";
        let (status, fields, rest) = split_response(text).unwrap();
        assert_eq!(status, 404);
        let expected: Vec<(&[u8], &[u8])> =
            vec![(b"Server", b"Tutti"), (b"X-A", b"b:  c"), (b"Empty", b"")];
        assert_eq!(fields.collect::<Vec<_>>(), expected);
        assert_eq!(rest, b"body\r\n\r\n");
        let head = text.len() - rest.len();
        for end in 0..head {
            assert!(split_response(&text[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn a_request_is_split_too() {
        let text = b"POST /a?b HTTP/1.1\r\nHost: h\r\nConnection: TE\r\nTE: trailers\r\n\r\n";
        let (method, target, fields) = split_request(text).unwrap();
        assert_eq!((method, target), (&b"POST"[..], &b"/a?b"[..]));
        let expected: Vec<(&[u8], &[u8])> = vec![(b"Host", b"h"), (b"TE", b"trailers")];
        assert_eq!(fields.collect::<Vec<_>>(), expected);
        assert!(split_request(b"GET /").is_none());
    }

    #[test]
    fn a_head_without_fields_has_none() {
        let (status, mut fields, rest) = split_response(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        assert_eq!((status, fields.next(), rest), (100, None, &b""[..]));
    }
}
