//! Errors in field sections.

use tutti_http::http3::{Code, DecodeError, Fault, SectionError};

/// Returns the scope and code of such an error.
pub(crate) fn fault(error: SectionError) -> Fault {
    match error {
        SectionError::Malformed => Fault::Stream(Code::MESSAGE_ERROR),
        SectionError::Decode(DecodeError::TooLarge) => Fault::HeadTooLarge,
        SectionError::Decode(DecodeError::Malformed) => {
            Fault::Connection(Code::DECOMPRESSION_FAILED, "a field section cannot be read")
        }
    }
}
