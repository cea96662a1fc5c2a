//! Delivery of responses: error pages, internal redirects, early hints, request mirroring, maintenance.

use tutti_document::Pointer;

use crate::address::AddressSet;
use crate::table::{MaintenanceOptions, MirrorOptions};

/// One error status, or all of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStatus {
    /// This one.
    One(u16),
    /// All with this first digit.
    Class(u16),
}

impl ErrorStatus {
    /// Reads `404` or `4xx`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "4xx" => Some(Self::Class(4)),
            "5xx" => Some(Self::Class(5)),
            _ if text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                let status = text.parse().ok()?;
                (400..600).contains(&status).then_some(Self::One(status))
            }
            _ => None,
        }
    }

    /// True if it is this status, or the status belongs to its class.
    pub fn has(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
        }
    }
}

/// The status of an error page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatus {
    /// The status of the error.
    Kept,
    /// The status that the action returns.
    Own,
    /// This one.
    Fixed(u16),
}

/// A route that a response may redirect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalRoute {
    /// The prefix of the paths that lead there.
    pub prefix: String,
    /// The name of the route.
    pub route: String,
}

/// Copies of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The name of the upstream that gets them.
    pub upstream: String,
    /// The remaining options.
    pub options: MirrorOptions,
}

/// Maintenance: requests get 503.
#[derive(Clone, Debug, PartialEq)]
pub struct Maintenance {
    /// Where it was written.
    pub pointer: Pointer,
    /// Clients that are served as usual.
    pub except: AddressSet,
    /// The remaining options.
    pub options: MaintenanceOptions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_named_by_status_or_class() {
        assert_eq!(ErrorStatus::parse("404"), Some(ErrorStatus::One(404)));
        assert_eq!(ErrorStatus::parse("5xx"), Some(ErrorStatus::Class(5)));
        for wrong in [
            "200", "399", "600", "3xx", "40x", "+404", "0404", "", "5XX", " 404",
        ] {
            assert_eq!(ErrorStatus::parse(wrong), None, "{wrong}");
        }
        assert!(ErrorStatus::Class(5).has(503) && !ErrorStatus::Class(5).has(404));
        assert!(ErrorStatus::One(404).has(404) && !ErrorStatus::One(404).has(410));
    }
}
