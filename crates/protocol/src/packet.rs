//! The encoding of a message: one SEQPACKET packet of JSON with its descriptors, or a memory file for a long one.

use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tutti_sys::{memfd, seqpacket};

/// An encoded message and the descriptors to send with it.
#[derive(Debug)]
pub struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Packet {
    /// Encodes a message.
    pub fn new<T: Serialize>(message: &T, descriptors: Vec<OwnedFd>) -> io::Result<Packet> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() <= seqpacket::MAX_MESSAGE {
            return Ok(Packet { bytes, descriptors });
        }
        let mut all = vec![memfd::document("tutti-message", &bytes)?];
        all.extend(descriptors);
        Ok(Packet {
            bytes: vec![LARGE],
            descriptors: all,
        })
    }

    /// Sends it; `WouldBlock` means that no byte was sent.
    pub fn send(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let descriptors: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
        seqpacket::send(socket, &self.bytes, &descriptors)
    }
}

/// A packet of this single byte: the message is in the first descriptor. JSON cannot begin with it.
const LARGE: u8 = 0;

/// Longest message in a memory file that main and the controller send: a configuration of this size is refused before it is parsed.
pub const LONGEST: u64 = 256 * 1024 * 1024;

/// The same for a router: its longest message is the start document of an application.
pub const LONGEST_OF_ROUTER: u64 = 64 * 1024 * 1024;

/// A message, and its descriptors or the reason why they could not be received.
pub type Received<T> = (T, io::Result<Vec<OwnedFd>>);

/// Receives one message of at most `longest` bytes; `None` at the end of the stream.
///
/// # Errors
/// [`seqpacket::lacks_descriptors`]: a large message is still in the socket, because its memory file cannot be received.
pub fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
    longest: u64,
) -> io::Result<Option<Received<T>>> {
    let mut buffer = vec![0; seqpacket::MAX_MESSAGE];
    let (len, descriptors) = match seqpacket::receive(socket, &mut buffer) {
        Ok(None) => return Ok(None),
        Ok(Some(received)) => (received.len, Ok(received.descriptors)),
        // Only the request that these descriptors are for fails: the messages behind this one must not wait.
        Err(error) if seqpacket::lacks_descriptors(&error) && buffer.first() != Some(&LARGE) => {
            match seqpacket::receive_bytes(socket, &mut buffer)? {
                Some(len) => (len, Err(error)),
                None => return Ok(None),
            }
        }
        Err(error) => return Err(error),
    };
    let bytes = buffer.get(..len).unwrap_or_default();
    if bytes != [LARGE] {
        return Ok(Some((serde_json::from_slice(bytes)?, descriptors)));
    }
    let mut descriptors = descriptors?.into_iter();
    let file = descriptors.next().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "large message without its memory file",
        )
    })?;
    let text = read_large(file, longest)?;
    Ok(Some((
        serde_json::from_slice(&text)?,
        Ok(descriptors.collect()),
    )))
}

/// The whole content of a memory file of at most `longest` bytes.
pub fn read_large(file: OwnedFd, longest: u64) -> io::Result<Vec<u8>> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    if !memfd::is_sealed(&file) {
        return Err(invalid("large message in an unsealed file".to_owned()));
    }
    let mut file = std::fs::File::from(file);
    let length = file.metadata()?.len();
    if length > longest {
        return Err(invalid(format!(
            "message of {length} bytes, {longest} are allowed"
        )));
    }
    // The sender's descriptor shares its position with this one.
    file.rewind()?;
    let mut text = Vec::new();
    file.take(longest).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, Change, FromController};

    fn keep(text: &str) -> FromController {
        FromController::Apply {
            id: 7,
            change: Change::Configuration { text: text.into() },
            grants: Box::default(),
            cause: Cause::default(),
        }
    }

    #[test]
    fn small_and_large_messages_arrive_with_their_descriptors() {
        let (a, b) = seqpacket::pair().unwrap();
        for size in [10, 3_000_000] {
            let text = "x".repeat(size);
            let (_, extra) = io::pipe().unwrap();
            Packet::new(&keep(&text), vec![extra.into()])
                .unwrap()
                .send(a.as_fd())
                .unwrap();
            let (message, descriptors) = receive(b.as_fd(), LONGEST).unwrap().unwrap();
            assert!(
                matches!(message, FromController::Apply { id: 7, change: Change::Configuration { text: sent }, .. } if sent == text)
            );
            assert_eq!(descriptors.unwrap().len(), 1);
        }
        drop(a);
        assert!(
            receive::<FromController>(b.as_fd(), LONGEST)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_message_beyond_the_bound_is_an_error() {
        let (a, b) = seqpacket::pair().unwrap();
        let packet = Packet::new(&keep(&"x".repeat(100_000)), Vec::new()).unwrap();
        packet.send(a.as_fd()).unwrap();
        let error = receive::<FromController>(b.as_fd(), 90_000).unwrap_err();
        assert!(error.to_string().contains("are allowed"), "{error}");
    }

    #[test]
    fn nonsense_is_an_error() {
        let (a, b) = seqpacket::pair().unwrap();
        seqpacket::send(a.as_fd(), b"{\"do\":\"reboot\"}", &[]).unwrap();
        assert!(receive::<FromController>(b.as_fd(), LONGEST).is_err());
        seqpacket::send(a.as_fd(), &[LARGE], &[]).unwrap();
        assert!(receive::<FromController>(b.as_fd(), LONGEST).is_err());
    }
}
