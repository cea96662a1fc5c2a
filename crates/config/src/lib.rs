//! Configuration: bytes to a spanned tree to typed options, or diagnostics
