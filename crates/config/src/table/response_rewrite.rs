//! Options that change addresses and cookies in the responses of upstreams.

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

options! {
    /// Changes of addresses and cookies in responses, so that clients see those of this server. If several prefixes
    /// match, the longest applies
    pub struct ResponseRewriteOptions: RESPONSE_REWRITE = "response rewrite" {
        /// Prefixes of addresses in `Location`, `Content-Location` and `Refresh`, each with its replacement. `true`:
        /// the server's own address, and the `Host` that it received, are removed, so that the client stays on this
        /// server
        location: Unread [kind(LOCATION), beyond()],
        /// Values of `Domain` in `Set-Cookie`, each with its replacement; `null` removes the attribute
        cookie_domain: Unread [kind(ValueKind::Map(Names::NotEmpty, &DOMAIN)), beyond()],
        /// Prefixes of `Path` in `Set-Cookie`, each with its replacement
        cookie_path: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::FieldTemplate))), beyond()],
        /// Attributes of cookies, by the name of the cookie; `*`: those of all other cookies
        cookie_attributes: Unread [kind(ValueKind::Map(Names::NotEmpty, &CookieAttributes::KIND)), beyond()],
    }
}

const LOCATION: ValueKind = ValueKind::OneOf(&[
    ValueKind::Boolean,
    ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::FieldTemplate)),
]);
const DOMAIN: ValueKind =
    ValueKind::OneOf(&[ValueKind::String(Text::FieldTemplate), ValueKind::Null]);

options! {
    /// Attributes of a cookie; those that are not named stay as they are
    #[derive(Eq, Hash)]
    pub struct CookieAttributes: COOKIE_ATTRIBUTES = "cookie attributes" {
        /// Browsers send it over HTTPS only
        secure: Option<bool> [beyond()],
        /// Scripts of a page cannot read it
        http_only: Option<bool> [beyond()],
        /// The requests from other sites with which browsers send it; `omit`: remove the attribute
        same_site: Option<SameSite> [beyond()],
    }
}

words! {
    /// The value of a cookie's `SameSite`.
    pub enum SameSite {
        /// Only with requests from pages of the same site.
        Strict = "strict",
        /// Also when a user follows a link from another site.
        Lax = "lax",
        /// With all requests.
        None = "none",
        /// The cookie does not have the attribute.
        Omit = "omit",
    }
}

impl SameSite {
    /// The value in a field; `None` for [`SameSite::Omit`].
    pub fn attribute(self) -> Option<&'static str> {
        match self {
            SameSite::Strict => Some("Strict"),
            SameSite::Lax => Some("Lax"),
            SameSite::None => Some("None"),
            SameSite::Omit => None,
        }
    }
}
