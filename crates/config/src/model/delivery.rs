//! How answers are delivered: pages for errors, answers by internal routes, early hints, copies of requests, maintenance.

use tutti_document::Pointer;

use crate::address::AddressSet;
use crate::table::{MaintenanceOptions, MirrorOptions};

/// One status of an error, or all of a class.
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

    /// True if it is this status or has it in its class.
    pub fn has(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
        }
    }
}

/// The status of an answer that stands in place of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatus {
    /// That of the error.
    Kept,
    /// That which the action gives.
    Own,
    /// This one.
    Fixed(u16),
}

/// A route that an answer may lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalRoute {
    /// The beginning of the paths that lead there.
    pub prefix: String,
    /// The name of the route.
    pub route: String,
}

/// Copies of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The name of the upstream that gets them.
    pub upstream: String,
    /// The rest of it.
    pub options: MirrorOptions,
}

/// Requests get 503.
#[derive(Clone, Debug, PartialEq)]
pub struct Maintenance {
    /// Where it was written.
    pub pointer: Pointer,
    /// Clients that are served as ever.
    pub except: AddressSet,
    /// The rest of it.
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
