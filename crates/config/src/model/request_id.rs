//! Who learns the ids of requests, and whose are believed.

use crate::address::AddressSet;

/// `settings.http.request_id`.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestId {
    /// The field that has the id, as written.
    pub header: String,
    /// Whose requests bring their id; `None`: nobody's.
    pub source: Option<AddressSet>,
    /// The client is told, too.
    pub is_in_responses: bool,
}
