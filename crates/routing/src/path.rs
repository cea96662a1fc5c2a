//! Percent-decoding.

use crate::fields::Decoded;

/// `%XX` to bytes; `+` is a plus sign in a path.
pub(crate) fn percent_decode(text: &str) -> Decoded {
    percent_encoding::percent_decode_str(text).collect()
}
