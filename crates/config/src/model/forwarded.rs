//! `forwarded` of a listener, and the older `client_ip`.

use crate::address::AddressSet;
use crate::table::ForwardedOptions;

/// Header fields of other servers that are believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// Whose fields are believed.
    pub source: AddressSet,
    /// The fields.
    pub options: ForwardedOptions,
}
