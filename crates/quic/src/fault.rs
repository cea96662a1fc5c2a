//! Faults of field sections.

use tutti_http::http3::{Code, DecodeError, Fault, SectionError};

/// The end that such a fault brings.
pub(crate) fn fault(error: SectionError) -> Fault {
    match error {
        SectionError::Malformed => Fault::Stream(Code::MESSAGE_ERROR),
        SectionError::Decode(DecodeError::TooLarge) => Fault::HeadTooLarge,
        SectionError::Decode(DecodeError::Malformed) => {
            Fault::Connection(Code::DECOMPRESSION_FAILED, "a field section cannot be read")
        }
    }
}
