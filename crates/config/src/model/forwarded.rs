//! `forwarded` of a listener, and the older `client_ip`.

use crate::address::AddressSet;
use crate::table::ForwardedOptions;

/// Trusted header fields of proxies.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// Proxies whose fields are trusted.
    pub source: AddressSet,
    /// The fields.
    pub options: ForwardedOptions,
}
