//! `forwarded` of a listener, and the older `client_ip`.

use crate::address::AddressSet;

/// Header fields of other servers that are believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// Whose fields are believed.
    pub source: AddressSet,
    /// Field with the client's address, as written.
    pub client_ip: Option<String>,
    /// Look for the first address, from the right, that is not in `source`.
    pub recursive: bool,
    /// Field with the protocol the client spoke, as written.
    pub protocol: Option<String>,
}
