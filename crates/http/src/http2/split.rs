//! The head of a request as the server writes it for HTTP/1, as a list of fields for a server of HTTP/2.

use memchr::memchr;

use crate::http2::is_connection_specific;
use crate::known::Known;

/// A request's head, as it is written for HTTP/1: the method, the target and the fields. `None` if it is not whole.
pub fn split_request(text: &[u8]) -> Option<(&[u8], &[u8], RequestFields<'_>)> {
    let (line, fields) = text.split_at_checked(memchr(b'\n', text)? + 1)?;
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next()?, words.next()?);
    Some((method, target, RequestFields { text: fields }))
}

/// The fields that may be sent in HTTP/2, in order, without those that speak of the connection (RFC 9113 §8.2.2). Names are in the
/// case they were written in.
#[derive(Clone, Debug)]
pub struct RequestFields<'a> {
    text: &'a [u8],
}

impl<'a> Iterator for RequestFields<'a> {
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
    fn a_request_is_split() {
        let text = b"POST /a?b HTTP/1.1\r\nHost: h\r\nConnection: TE\r\nTE: trailers\r\n\r\n";
        let (method, target, fields) = split_request(text).unwrap();
        assert_eq!((method, target), (&b"POST"[..], &b"/a?b"[..]));
        let expected: Vec<(&[u8], &[u8])> = vec![(b"Host", b"h"), (b"TE", b"trailers")];
        assert_eq!(fields.collect::<Vec<_>>(), expected);
        assert!(split_request(b"GET /").is_none());
    }
}
