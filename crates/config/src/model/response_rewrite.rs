//! Changes of addresses and cookies in responses of upstreams.

use crate::table::CookieAttributes;
use crate::template::Template;

/// `rewrite_response`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResponseRewrite {
    /// The server's own addresses in `Location` become this server's.
    pub own_location: bool,
    /// Beginnings of addresses, the longest first, and what replaces each.
    pub location: Vec<(Box<str>, Template)>,
    /// Domains of cookies in lower case, without the leading period; `None` removes the attribute.
    pub cookie_domain: Vec<(Box<str>, Option<Template>)>,
    /// Beginnings of cookies' paths, the longest first, and what replaces each.
    pub cookie_path: Vec<(Box<str>, Template)>,
    /// Attributes, by the name of the cookie; `*` for the others.
    pub cookie_attributes: Vec<(Box<str>, CookieAttributes)>,
}
