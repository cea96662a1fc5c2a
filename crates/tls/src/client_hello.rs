//! The first message of a TLS client, read without answering it: the name that it asks for, and its protocols.
//!
//! For connections that are passed on by name. The library that terminates TLS has a parser, too, which refuses clients
//! that it cannot serve; here the server behind decides that. Pure: the caller reads the bytes.
//!
//! Must never: return a name that another reader of the same bytes could understand differently. So a message with two
//! names, or with an extension twice, is refused.

use thiserror::Error;

/// Longest beginning of a connection in which the whole message must be: the plaintext of one record (RFC 8446 §5.1)
/// with its head. Messages with large key shares have two thousand bytes.
pub const MOST_HELLO_BYTES: usize = 5 + (1 << 14);

/// Values of RFC 8446 §5.1 and §4, RFC 6066 §3, RFC 7301 §3.1.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const ALPN: u16 = 16;

/// Longest name (RFC 1035 §2.3.4).
const LONGEST_NAME: usize = 255;

/// The wishes of a TLS client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsHello {
    /// The name, in lower case and without a trailing period; empty: it asks for none.
    pub server_name: String,
    /// The protocols that it offers, in its order.
    pub protocols: Vec<Vec<u8>>,
}

/// The progress of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloProgress {
    /// More bytes are needed.
    Incomplete,
    /// It is complete.
    Complete(TlsHello),
}

/// Why the bytes are no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HelloError {
    /// They are no TLS.
    #[error("it does not begin with a TLS handshake")]
    NotTls,
    /// They are invalid, or ambiguous.
    #[error("its first TLS message is malformed")]
    Malformed,
    /// The message is longer than [`MOST_HELLO_BYTES`].
    #[error("its first TLS message is longer than {MOST_HELLO_BYTES} bytes")]
    TooLong,
}

/// Reads the message from the beginning of a connection. What follows it is not looked at.
///
/// # Errors
/// [`HelloError`], at the first byte that shows it. The connection is to be closed.
pub fn read_hello(bytes: &[u8]) -> Result<HelloProgress, HelloError> {
    let incomplete = || match bytes.len() >= MOST_HELLO_BYTES {
        true => Err(HelloError::TooLong),
        false => Ok(HelloProgress::Incomplete),
    };
    let mut records = Fields(bytes);
    // The message may be split over records.
    let mut message = Vec::new();
    loop {
        if let Some(length) = message_length(&message)?
            && let Some(body) = message.get(4..4 + length)
        {
            let hello = read_body(body).ok_or(HelloError::Malformed)?;
            return Ok(HelloProgress::Complete(hello));
        }
        match record(&mut records)? {
            Some(fragment) => message.extend_from_slice(fragment),
            None => return incomplete(),
        }
    }
}

/// The next fragment of handshake messages, as far as it has come; `None`: nothing of it has.
fn record<'b>(records: &mut Fields<'b>) -> Result<Option<&'b [u8]>, HelloError> {
    let head = records.0;
    if head.first().is_some_and(|kind| *kind != HANDSHAKE)
        || head.get(1).is_some_and(|major| *major != 3)
    {
        return Err(HelloError::NotTls);
    }
    let (Some([high, low]), Some(rest)) = (head.get(3..5), head.get(5..)) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    // RFC 8446 §5.1: neither empty nor longer than 2^14.
    if length == 0 || length > 1 << 14 {
        return Err(HelloError::Malformed);
    }
    let fragment = rest.get(..length).unwrap_or(rest);
    if fragment.is_empty() {
        return Ok(None);
    }
    records.0 = rest.get(length..).unwrap_or_default();
    Ok(Some(fragment))
}

/// The length of the message whose beginning this is, once it is known.
fn message_length(message: &[u8]) -> Result<Option<usize>, HelloError> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(HelloError::NotTls);
    }
    let Some([high, middle, low]) = message.get(1..4) else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([0, *high, *middle, *low]);
    match usize::try_from(length) {
        Ok(length) if length <= MOST_HELLO_BYTES => Ok(Some(length)),
        _ => Err(HelloError::TooLong),
    }
}

/// Reads the body (RFC 8446 §4.1.2); `None`: it is malformed.
fn read_body(body: &[u8]) -> Option<TlsHello> {
    let mut fields = Fields(body);
    // The version and the random number.
    fields.take(2 + 32)?;
    let session = fields.short_vector()?;
    let ciphers = fields.long_vector()?;
    let compressions = fields.short_vector()?;
    if session.len() > 32 || ciphers.is_empty() || ciphers.len() % 2 != 0 || compressions.is_empty()
    {
        return None;
    }
    let mut hello = TlsHello::default();
    if fields.is_empty() {
        // Clients before TLS 1.2 may have no extensions (RFC 5246 §7.4.1.2).
        return Some(hello);
    }
    let mut extensions = Fields(fields.long_vector()?);
    if !fields.is_empty() {
        return None;
    }
    let (mut has_name, mut has_protocols) = (false, false);
    while !extensions.is_empty() {
        let kind = extensions.number()?;
        let value = extensions.long_vector()?;
        match kind {
            SERVER_NAME if !std::mem::replace(&mut has_name, true) => {
                hello.server_name = server_name(value)?;
            }
            ALPN if !std::mem::replace(&mut has_protocols, true) => {
                hello.protocols = protocols(value)?;
            }
            SERVER_NAME | ALPN => return None,
            _ => {}
        }
    }
    Some(hello)
}

/// Reads the one name of the list (RFC 6066 §3).
fn server_name(value: &[u8]) -> Option<String> {
    let mut value = Fields(value);
    let mut list = Fields(value.long_vector()?);
    let [HOST_NAME] = list.take(1)? else {
        return None;
    };
    let name = list.long_vector()?;
    if !value.is_empty() || !list.is_empty() {
        return None;
    }
    let name = name.strip_suffix(b".").unwrap_or(name);
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.iter().all(is_letter) {
        return None;
    }
    let name = String::from_utf8(name.to_ascii_lowercase());
    name.ok()
}

/// Reads the list of protocols, none of which may be empty (RFC 7301 §3.1).
fn protocols(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut value = Fields(value);
    let mut list = Fields(value.long_vector()?);
    if !value.is_empty() || list.is_empty() {
        return None;
    }
    let mut protocols = Vec::new();
    while !list.is_empty() {
        let protocol = list.short_vector()?;
        if protocol.is_empty() {
            return None;
        }
        protocols.push(protocol.to_vec());
    }
    Some(protocols)
}

/// The rest of some bytes, read from the front.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let [high, low] = self.take(2)? else {
            return None;
        };
        Some(u16::from_be_bytes([*high, *low]))
    }

    /// A vector whose length has one byte.
    fn short_vector(&mut self) -> Option<&'b [u8]> {
        let [length] = self.take(1)? else {
            return None;
        };
        self.take(usize::from(*length))
    }

    /// A vector whose length has two bytes.
    fn long_vector(&mut self) -> Option<&'b [u8]> {
        let length = self.number()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection};

    use super::*;

    fn vector(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap();
        [&length.to_be_bytes(), bytes].concat()
    }

    fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes(), &*vector(value)].concat()
    }

    fn name(name: &[u8]) -> Vec<u8> {
        extension(0, &vector(&[&[0], &*vector(name)].concat()))
    }

    /// A message with these extensions, without its record.
    fn message(extensions: &[u8]) -> Vec<u8> {
        let start = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0]].concat();
        let body = [&start[..], &*vector(extensions)].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &length[1..], &*body].concat()
    }

    fn record(fragment: &[u8]) -> Vec<u8> {
        [&[22, 3, 1][..], &*vector(fragment)].concat()
    }

    fn complete(bytes: &[u8]) -> Result<TlsHello, HelloError> {
        match read_hello(bytes)? {
            HelloProgress::Complete(hello) => Ok(hello),
            HelloProgress::Incomplete => panic!("incomplete"),
        }
    }

    #[test]
    fn the_message_of_a_real_client_is_read_at_its_last_byte() {
        let mut config: ClientConfig = Arc::unwrap_or_clone(crate::unverified_client().unwrap());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let to = ServerName::try_from("Shop.example.com").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), to).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        for length in 0..bytes.len() {
            let read = read_hello(&bytes[..length]);
            assert_eq!(read, Ok(HelloProgress::Incomplete), "{length}");
        }
        let hello = complete(&bytes).unwrap();
        assert_eq!(hello.server_name, "shop.example.com");
        assert_eq!(hello.protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        bytes.extend_from_slice(b"early data");
        assert_eq!(complete(&bytes), Ok(hello));
    }

    #[test]
    fn a_message_in_many_records_is_read() {
        let message = message(&name(b"a.example."));
        let records: Vec<u8> = message.chunks(1).flat_map(record).collect();
        assert_eq!(complete(&records).unwrap().server_name, "a.example");
    }

    #[test]
    fn a_client_without_extensions_asks_for_nothing() {
        assert_eq!(complete(&record(&message(b""))), Ok(TlsHello::default()));
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        let two_names = vector(&[&[0], &*vector(b"a"), &[0], &*vector(b"b")].concat());
        for extensions in [
            [name(b"a.example"), name(b"b.example")].concat(),
            extension(0, &two_names),
            name(b""),
            name(b"a\0b"),
            name(b"a b"),
            name(&[b'a'; 256]),
            [name(b"a"), vec![0]].concat(),
            extension(16, &vector(b"")),
            extension(16, &vector(b"\0")),
            [
                extension(16, &vector(b"\x02h2")),
                extension(16, &vector(b"\x02h3")),
            ]
            .concat(),
        ] {
            let bytes = record(&message(&extensions));
            assert_eq!(
                complete(&bytes),
                Err(HelloError::Malformed),
                "{extensions:?}"
            );
        }
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_bytes() {
        for bytes in [&b"GET / HTTP/1.1"[..], b"SSH-2.0", &[0x80, 0x2e], &[22, 4]] {
            assert_eq!(read_hello(bytes), Err(HelloError::NotTls), "{bytes:?}");
        }
        let other_message = record(&[2, 0, 0, 0]);
        assert_eq!(read_hello(&other_message), Err(HelloError::NotTls));
        assert_eq!(read_hello(&[22, 3, 1, 0, 0]), Err(HelloError::Malformed));
        assert_eq!(
            read_hello(&[22, 3, 1, 0xff, 0xff]),
            Err(HelloError::Malformed)
        );
    }

    #[test]
    fn the_length_is_bounded() {
        let announced = record(&[1, 0xff, 0xff, 0xff]);
        assert_eq!(read_hello(&announced), Err(HelloError::TooLong));
        // One byte in each record: six bytes for one.
        let message = message(&extension(99, &[0; 9000]));
        let records: Vec<u8> = message.chunks(1).flat_map(record).collect();
        let seen = &records[..MOST_HELLO_BYTES];
        assert_eq!(read_hello(seen), Err(HelloError::TooLong));
    }
}
