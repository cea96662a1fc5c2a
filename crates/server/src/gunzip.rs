//! `gunzip`: a gzip response is decompressed as it passes, for a client that does not accept gzip.

use tutti_config::model::Encoding;
use tutti_conn::response_buffers::EncoderCharge;
use tutti_files::compression::{
    Described, GUNZIP_BYTES, GunzipError, GunzippedBody, is_only_gzip, preferred,
};

use crate::exchange::request::Request;

/// The treatment of a response by `gunzip`.
pub(crate) enum Gunzip {
    /// Every client gets it as it is.
    Never,
    /// This client gets it as it is; others may get it decompressed.
    NotThis,
    /// It is decompressed.
    Body(Box<DecompressedBody>),
}

impl Gunzip {
    /// True if the response is decompressed.
    pub(crate) fn applies(&self) -> bool {
        matches!(self, Self::Body(_))
    }

    /// True if that depends on `Accept-Encoding`.
    pub(crate) fn varies(&self) -> bool {
        !matches!(self, Self::Never)
    }

    pub(crate) fn into_body(self) -> Option<Box<DecompressedBody>> {
        match self {
            Self::Body(body) => Some(body),
            Self::Never | Self::NotThis => None,
        }
    }
}

/// A body that is decompressed while it is sent.
pub(crate) struct DecompressedBody {
    body: GunzippedBody,
    /// The reservation of its memory.
    _charge: EncoderCharge,
}

impl DecompressedBody {
    /// Appends a portion of the body; returns how much of `piece` it came from.
    pub(crate) fn write(
        &mut self,
        piece: &[u8],
        portion: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, GunzipError> {
        self.body.write(piece, portion, out)
    }

    pub(crate) fn finish(&self) -> Result<(), GunzipError> {
        self.body.finish()
    }
}

/// True if this name is that of the field with the encoding.
pub(crate) fn is_encoding(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"Content-Encoding")
}

/// True if a response with this status and these fields is decompressed for the client, if there is memory.
pub(crate) fn applies_to<'f>(
    request: &Request<'_>,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> bool {
    is_gzip(request, status, fields) && !accepts_gzip(request)
}

/// Decides about a response with this status and these fields.
pub(crate) fn decide<'f>(
    request: &Request<'_>,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> Gunzip {
    if !is_gzip(request, status, fields) {
        return Gunzip::Never;
    }
    if accepts_gzip(request) {
        return Gunzip::NotThis;
    }
    // Without memory, the client gets what it does not prefer.
    match request.client.charge(GUNZIP_BYTES) {
        Some(charge) => Gunzip::Body(Box::new(DecompressedBody {
            body: GunzippedBody::default(),
            _charge: charge,
        })),
        None => Gunzip::NotThis,
    }
}

/// True if a response with this status and these fields is decompressed for the clients that do not accept gzip.
pub(crate) fn is_gzip<'f>(
    request: &Request<'_>,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> bool {
    if !request.settings().gunzip {
        return false;
    }
    let mut described = Described {
        status,
        ..Described::default()
    };
    for (name, value) in fields.clone().filter(|(name, _)| !is_encoding(name)) {
        described.note(name, value);
    }
    let encodings = fields.filter(|(name, _)| is_encoding(name));
    is_only_gzip(&described, encodings.map(|(_, value)| value))
}

fn accepts_gzip(request: &Request<'_>) -> bool {
    let accepted = request.view.get_all(b"Accept-Encoding");
    preferred(accepted, &[Encoding::Gzip]).is_some()
}
