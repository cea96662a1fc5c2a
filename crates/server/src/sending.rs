//! Sends responses whose body is data: in memory, a stored response, segments of a file, and bytes that a slow client has not taken.
//!
//! Zero-copy fast paths are here: a file's pages ([`transfer`]), and stored bytes by `writev`. Only a little is passed to the socket ahead
//! of the client, and other connections of the thread get their turns.

use std::os::fd::OwnedFd;

use bytes::{Buf as _, Bytes};
use tutti_conn::output::{Gone, Output};
use tutti_files::cache::Content;
use tutti_http::{Trailers, Version};

use crate::exchange::request::Request;
use crate::exchange::respond::{Own, Persistence};
use crate::plan::Changes;
use crate::transfer;
use crate::writer::{Body, Head, Response, Segment, Writer, Written};

/// Bytes of a stored body that are put into the output at once; a larger one is sent piece by piece, so that a slow client does not hold a
/// copy of it in memory.
const PIECE_BYTES: usize = 64 * 1024;

/// A response with all its content in memory.
pub(crate) struct Whole<'c> {
    pub(crate) status: u16,
    pub(crate) fields: &'c [(&'c [u8], &'c [u8])],
    pub(crate) body: &'c [u8],
    /// Part of the request's body has not arrived, and is not waited for.
    pub(crate) is_body_coming: bool,
}

impl Whole<'_> {
    /// Puts it into `output`.
    pub(crate) fn send(
        &self,
        request: &Request<'_>,
        changes: &Changes,
        output: &mut Output,
    ) -> Written {
        let head = Head {
            status: self.status,
            length: Some(self.body.len() as u64),
            own: Own::ALL,
            may_persist: !self.is_body_coming,
            may_have_trailers: false,
        };
        let fields = self.fields.iter().copied();
        let writer = Writer::begin(request, &head, fields, changes, output);
        Response::whole(writer, self.body, request, output).lingering(self.is_body_coming)
    }
}

impl Response {
    /// A stored response: a small one is put into the output. One that is changed may fail, which ends the connection, or become long, so it
    /// is sent where the request can wait.
    pub(crate) fn stored(
        writer: Writer,
        body: Bytes,
        request: &Request<'_>,
        output: &mut Output,
    ) -> Written {
        if body.len() > PIECE_BYTES || writer.is_transformed() {
            return Written::Rest(Box::new(Self {
                writer,
                body: Body::Stored(body),
                lingers: false,
            }));
        }
        Self::whole(writer, &body, request, output)
    }

    /// A response with all its content in memory, which is put into the output unless it is changed.
    pub(crate) fn whole(
        mut writer: Writer,
        body: &[u8],
        request: &Request<'_>,
        output: &mut Output,
    ) -> Written {
        if writer.is_transformed() {
            return Self::stored(writer, Bytes::copy_from_slice(body), request, output);
        }
        let written = writer
            .write(request, std::iter::once(body), output)
            .and_then(|_| writer.finish(request, Trailers::default(), output));
        match written {
            Ok(()) => writer.end(request, output),
            // Only a body that is changed fails.
            Err(_) => Written::End(Persistence::Close),
        }
    }

    /// Sends the rest, and logs the request.
    pub(crate) async fn send(
        mut self: Box<Self>,
        request: &Request<'_>,
        output: &mut Output,
    ) -> Result<Written, Gone> {
        let lingers = self.lingers || request.exchange.lingers();
        let writer = &mut self.writer;
        let outcome = match &mut self.body {
            Body::Buffered => {
                let outcome = request.flush(output).await;
                writer.body_bytes = writer.body_bytes.saturating_sub(output.len());
                outcome
            }
            Body::Stored(bytes) => stored(writer, bytes, request, output).await,
            Body::File(file, segments) => match (
                &file.content,
                writer.is_transformed() || writer.has_trailers(),
            ) {
                (Content::Descriptor(file), true) => {
                    compressed(writer, file, segments, request, output).await
                }
                (Content::Descriptor(file), false) => {
                    plain(writer, file, segments, request, output).await
                }
                (Content::Bytes(_), _) => Err(Gone::Closed),
            },
        };
        if let Err(gone) = outcome {
            // The responses before it in the pipeline are complete. In HTTP/1.0, the end of the connection could end this one, too.
            if request.view.version() >= Version::Http11 {
                let _ = request.client.channel.try_send(output);
            }
            self.writer.log(request);
            return Err(gone);
        }
        Ok(self.writer.end(request, output).lingering(lingers))
    }
}

/// Sends a stored body.
async fn stored(
    writer: &mut Writer,
    body: &[u8],
    request: &Request<'_>,
    output: &mut Output,
) -> Result<(), Gone> {
    pieces(writer, body, request, output).await?;
    writer.finish(request, Trailers::default(), output)
}

/// Sends bytes of a body piece by piece, without a copy if the client gets them unchanged. The last piece is in the output afterwards.
pub(crate) async fn pieces(
    writer: &mut Writer,
    body: &[u8],
    request: &Request<'_>,
    output: &mut Output,
) -> Result<(), Gone> {
    let flush = async |output: &mut Output| request.flush(output).await;
    pieces_when(writer, body, (request, output), flush).await
}

/// The same, but `make_room` decides when the next piece may follow.
pub(crate) async fn pieces_when(
    writer: &mut Writer,
    mut body: &[u8],
    (request, output): (&Request<'_>, &mut Output),
    mut make_room: impl AsyncFnMut(&mut Output) -> Result<(), Gone>,
) -> Result<(), Gone> {
    let is_plain = writer.is_plain();
    loop {
        if is_plain {
            let sent = request.client.channel.send_directly(output, body)?;
            body.advance(sent);
            writer.body_bytes += sent as u64;
        }
        let piece = body.get(..PIECE_BYTES).unwrap_or(body);
        let taken = writer.write(request, std::iter::once(piece), output)?;
        body.advance(taken);
        if body.is_empty() {
            return Ok(());
        }
        make_room(output).await?;
        // Yields to other connections, however fast this client is.
        tokio::task::yield_now().await;
    }
}

/// Sends segments of a file unchanged.
async fn plain(
    writer: &mut Writer,
    file: &OwnedFd,
    segments: &[Segment],
    request: &Request<'_>,
    output: &mut Output,
) -> Result<(), Gone> {
    let mut text_bytes = 0;
    for segment in segments {
        let range = match segment {
            Segment::Text(text) => {
                output.bytes.extend_from_slice(text);
                text_bytes += text.len() as u64;
                continue;
            }
            Segment::File(range) => range.clone(),
        };
        // Not `MSG_MORE`: with the head before them in one segment, the file's pages straddle the segments, and a 100 KB file cost twice as
        // much (27 against 13 µs).
        request.flush(output).await?;
        writer.body_bytes += std::mem::take(&mut text_bytes);
        let timeout = request.settings().timeouts.send;
        let sent = &mut writer.body_bytes;
        transfer::send_range(request.client, file, range, timeout, (output, sent)).await?;
    }
    request.flush(output).await?;
    writer.body_bytes += text_bytes;
    Ok(())
}

/// Sends segments of a file compressed.
async fn compressed(
    writer: &mut Writer,
    file: &OwnedFd,
    segments: &[Segment],
    request: &Request<'_>,
    output: &mut Output,
) -> Result<(), Gone> {
    let mut piece = Vec::new();
    for segment in segments {
        let Segment::File(range) = segment else {
            continue;
        };
        let mut offset = range.start;
        while offset < range.end {
            let rest = offset..range.end;
            transfer::read_some(request.client, file, rest, &mut piece)?;
            offset += writer.write(request, std::iter::once(&*piece), output)? as u64;
            request.flush(output).await?;
            // Compressing takes longer than sending: other connections get a turn after each piece.
            tokio::task::yield_now().await;
        }
    }
    writer.finish(request, Trailers::default(), output)?;
    request.flush(output).await
}
