//! The state of one TLS connection, without its socket: records in, plaintext out, and vice versa.

use std::rc::Rc;
use std::sync::Arc;

use rustls::Error;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use tutti_tls::{Challenges, HandshakeFacts, Offer, TlsConnection};

use crate::buffers::Buffers;
use crate::output::{Gone, Output};

/// Most plaintext encrypted ahead of the socket: four records (RFC 8446 §5.1).
const AHEAD_BYTES: usize = 64 * 1024;

/// Most bytes that a record adds to its plaintext: head, content type, explicit nonce and tag (RFC 5246 §6.2.3.3, RFC 8446 §5.2).
const RECORD_BYTES: usize = 40;

/// Longest plaintext of a record.
const FULL_BYTES: usize = 16 * 1024;

/// Plaintext of the first records of a connection: with its head, one fits a TCP segment on nearly every path, so that a client can decrypt
/// the first part of a long response as soon as it arrives.
const SMALL_BYTES: usize = 1300;

/// Bytes sent in small records.
const SMALL_TOTAL: usize = 3 * SMALL_BYTES;

/// Types of records (RFC 8446 §5.1).
const ALERT: u8 = 21;
const DATA: u8 = 23;

/// The size of an encrypted alert of TLS 1.3: head, two bytes, the type, the tag (RFC 8446 §5.2).
const SEALED_ALERT_BYTES: usize = 5 + 2 + 1 + 16;

/// Initial room for one handshake message.
const MESSAGE_BYTES: usize = 2048;

/// The state of the received records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// More may come.
    Open,
    /// The client has sent close_notify.
    Closed,
    /// It has broken the protocol.
    Broken,
}

/// One connection's records.
pub struct TlsRecords {
    connection: TlsConnection,
    buffers: Rc<Buffers>,
    /// Received records that have not been processed completely.
    pub(super) incoming: Vec<u8>,
    /// Records that wait to be sent.
    pub(super) outgoing: Output,
    pub(super) end: End,
    /// Bytes have been received.
    pub(super) has_begun: bool,
    /// Plaintext encrypted so far, up to [`SMALL_TOTAL`].
    begun: usize,
}

impl TlsRecords {
    /// A session that begins with a handshake. It takes buffers from the thread's own, `buffers`. Authorities that check a name are
    /// answered from `challenges`.
    pub fn new(
        offer: &Offer,
        buffers: Rc<Buffers>,
        challenges: Option<&Arc<Challenges>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            connection: offer.begin(challenges)?,
            buffers,
            incoming: Vec::new(),
            outgoing: Output::default(),
            end: End::Open,
            has_begun: false,
            begun: 0,
        })
    }

    /// Begins anew with another offer: the received bytes have not been processed yet.
    pub(super) fn renew(
        &mut self,
        offer: &Offer,
        challenges: Option<&Arc<Challenges>>,
    ) -> Result<(), Error> {
        self.connection = offer.begin(challenges)?;
        Ok(())
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// True if no certificate was available.
    pub(super) fn found_no_certificate(&self) -> bool {
        self.connection.found_no_certificate()
    }

    /// The outcome of the handshake.
    pub(super) fn facts(&self) -> HandshakeFacts {
        self.connection.facts()
    }

    /// The negotiated protocol (RFC 7301), if any.
    pub(super) fn application_protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Room to read records into.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        if self.incoming.capacity() == 0 {
            self.incoming = self.buffers.take();
        } else if self.incoming.capacity() == self.incoming.len() {
            self.incoming.reserve(FULL_BYTES);
        }
        &mut self.incoming
    }

    /// Returns empty buffers.
    pub(super) fn let_go(&mut self) {
        if self.incoming.is_empty() && self.incoming.capacity() > 0 {
            self.buffers.give(std::mem::take(&mut self.incoming));
        }
        if self.outgoing.is_empty() && self.outgoing.bytes.capacity() > 0 {
            self.buffers.give(std::mem::take(&mut self.outgoing).bytes);
        }
    }

    /// Processes the received records: plaintext is appended to `plain`, answers to `outgoing`. Without `plain`, only the handshake is
    /// continued.
    pub(super) fn process(&mut self, mut plain: Option<&mut Vec<u8>>) -> Result<(), Error> {
        if self.end == End::Broken {
            return Err(Error::General("the connection is broken".to_owned()));
        }
        let mut failure = None;
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut self.incoming);
            let mut discard = discard;
            let continues = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => match &mut plain {
                    Some(plain) => {
                        while let Some(record) = traffic.next_record() {
                            let record = record?;
                            discard += record.discard;
                            plain.extend_from_slice(record.payload);
                        }
                        true
                    }
                    None => false,
                },
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let is_alert = encode(&mut self.outgoing, |room| data.encode(room))?;
                    // Invalid records must not be processed again: they would be answered again.
                    failure.is_none() || !is_alert
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    // It is in `outgoing`, and is sent first.
                    data.done();
                    true
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.end = End::Closed;
                    false
                }
                // Early data is not offered, so there is none.
                Ok(_) => false,
                Err(error) => {
                    // Once more, for the alert to the client.
                    let is_first = failure.is_none();
                    failure.get_or_insert(error);
                    self.end = End::Broken;
                    is_first
                }
            };
            self.incoming.drain(..discard.min(self.incoming.len()));
            if !continues {
                return failure.map_or(Ok(()), Err);
            }
        }
    }

    /// Encrypts some of `plain`; returns how much.
    pub(super) fn encrypt(&mut self, plain: &[u8]) -> Result<usize, Gone> {
        if self.end == End::Broken {
            return Err(Gone::Closed);
        }
        let UnbufferedStatus { discard, state } =
            self.connection.process_tls_records(&mut self.incoming);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            // Received records must be processed first, or nothing can be sent any more.
            self.incoming.drain(..discard.min(self.incoming.len()));
            return Err(Gone::Closed);
        };
        if self.outgoing.bytes.capacity() == 0 {
            self.outgoing = Output::new(self.buffers.take());
        }
        let mut taken = 0;
        while taken < plain.len().min(AHEAD_BYTES) {
            let rest = plain.get(taken..).unwrap_or_default();
            // Bytes that fit about one segment anyway are not split.
            let is_small = self.begun < SMALL_TOTAL && rest.len() > 2 * SMALL_BYTES;
            let count = rest
                .len()
                .min(if is_small { SMALL_BYTES } else { FULL_BYTES });
            let piece = rest.get(..count).unwrap_or_default();
            let bytes = &mut self.outgoing.bytes;
            let start = bytes.len();
            bytes.resize(start + count + RECORD_BYTES, 0);
            let room = bytes.get_mut(start..).unwrap_or_default();
            let mut written = traffic.encrypt(piece, room);
            if let Err(EncryptError::InsufficientSize(size)) = &written {
                // A key update precedes it.
                bytes.resize(start + size.required_size, 0);
                written = traffic.encrypt(piece, bytes.get_mut(start..).unwrap_or_default());
            }
            let Ok(written) = written else {
                bytes.truncate(start);
                return Err(Gone::Closed);
            };
            bytes.truncate(start + written);
            self.begun = (self.begun + count).min(SMALL_TOTAL);
            taken += count;
        }
        self.incoming.drain(..discard.min(self.incoming.len()));
        Ok(taken)
    }

    /// Sends close_notify.
    pub(super) fn close(&mut self) {
        if self.end == End::Broken {
            return;
        }
        let UnbufferedStatus { state, .. } =
            self.connection.process_tls_records(&mut self.incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            // The connection ends anyway, so a failure does not matter.
            let bytes = &mut self.outgoing.bytes;
            let start = bytes.len();
            bytes.resize(start + RECORD_BYTES, 0);
            let room = bytes.get_mut(start..).unwrap_or_default();
            let written = traffic.queue_close_notify(room).unwrap_or(0);
            bytes.truncate(start + written);
        }
    }
}

/// Appends a message of any length to `outgoing`; true if it seems to be an alert.
fn encode(
    outgoing: &mut Output,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<bool, Error> {
    let start = outgoing.bytes.len();
    outgoing.bytes.resize(start + MESSAGE_BYTES, 0);
    let mut written = encode(outgoing.bytes.get_mut(start..).unwrap_or_default());
    if let Err(EncodeError::InsufficientSize(size)) = &written {
        outgoing.bytes.resize(start + size.required_size, 0);
        written = encode(outgoing.bytes.get_mut(start..).unwrap_or_default());
    }
    let count = written.map_err(|error| Error::General(error.to_string()))?;
    outgoing.bytes.truncate(start + count);
    let kind = outgoing.bytes.get(start).copied();
    Ok(kind == Some(ALERT) || (kind == Some(DATA) && count == SEALED_ALERT_BYTES))
}
