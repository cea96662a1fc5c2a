//! Compresses and frames a body while it is sent.

use std::io;

use tutti_config::model::Compressor;
use tutti_http::{LAST_CHUNK, ResponseFraming, write_chunk_head};

use super::Encoder;

/// The body of a response that is compressed while it is sent. Its length is known only at the end.
pub struct CompressedBody {
    encoder: Encoder,
    framing: ResponseFraming,
    /// Compressed bytes that are not framed yet.
    ready: Vec<u8>,
    bytes: u64,
}

impl CompressedBody {
    /// Begins a body with this framing.
    pub fn new(compressor: &Compressor, framing: ResponseFraming) -> io::Result<Self> {
        Ok(Self {
            encoder: Encoder::new(compressor)?,
            framing,
            ready: Vec::new(),
            bytes: 0,
        })
    }

    /// Bytes of the compressed body so far, without framing.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compresses `data`, and appends what is ready to `out`.
    pub fn write(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.encoder.write(data, &mut self.ready)?;
        self.frame(out);
        Ok(())
    }

    /// Appends everything compressed so far, so that the client can decode it.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.encoder.flush(&mut self.ready)?;
        self.frame(out);
        Ok(())
    }

    /// Appends the rest and the end of the body. Returns the bytes of the whole body.
    pub fn finish(self, out: &mut Vec<u8>) -> io::Result<u64> {
        let is_chunked = self.framing == ResponseFraming::Chunked;
        let bytes = self.finish_data(out)?;
        if is_chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
        Ok(bytes)
    }

    /// Appends the rest without the end of the body. Returns the bytes of the whole body.
    pub fn finish_data(mut self, out: &mut Vec<u8>) -> io::Result<u64> {
        let mut rest = std::mem::take(&mut self.ready);
        let encoder = self.encoder;
        encoder.finish(&mut rest)?;
        Ok(self.bytes + frame(self.framing, &rest, out))
    }

    fn frame(&mut self, out: &mut Vec<u8>) {
        self.bytes += frame(self.framing, &self.ready, out);
        self.ready.clear();
    }
}

/// Appends `data` with this framing. Returns the number of body bytes.
fn frame(framing: ResponseFraming, data: &[u8], out: &mut Vec<u8>) -> u64 {
    if data.is_empty() || framing == ResponseFraming::NoBody {
        return 0;
    }
    let is_chunked = framing == ResponseFraming::Chunked;
    if is_chunked {
        write_chunk_head(data.len(), out);
    }
    out.extend_from_slice(data);
    if is_chunked {
        out.extend_from_slice(b"\r\n");
    }
    data.len() as u64
}
