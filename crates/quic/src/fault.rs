//! Errors in field sections.

use tutti_http::http3::{Code, DecodeError, Http3Error, SectionError};

/// Returns the scope and code of such an error.
pub(crate) fn fault(error: SectionError) -> Http3Error {
    match error {
        SectionError::Malformed => Http3Error::Stream(Code::MESSAGE_ERROR),
        SectionError::Decode(DecodeError::TooLarge) => Http3Error::HeadTooLarge,
        SectionError::Decode(DecodeError::Malformed) => {
            Http3Error::Connection(Code::DECOMPRESSION_FAILED, "a field section cannot be read")
        }
    }
}
