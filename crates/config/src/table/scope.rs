//! Options that a listener and an action have, and that apply to the requests that pass through them.

use tutti_options::table::{CASELESS, Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options};

use super::delivery::MaintenanceOptions;
use super::logs::OWN_ACCESS_LOGS;
use super::settings::MIME_TYPES;

options! {
    /// Options of a listener or an action for the requests that pass through it; an inner action's own take precedence
    pub struct ScopeOptions: SCOPE = "scope" {
        /// Access logs of the requests, instead of the outer ones: one, or an array of several, each with its own
        /// format and condition; `false` or an empty array: none
        access_log: Unread [kind(OWN_ACCESS_LOGS), beyond()],
        /// Maintenance mode of this part: its requests get 503 while this is present. `settings.maintenance` applies, too
        maintenance: Unread [kind(MaintenanceOptions::KIND), beyond()],
        /// Character encoding to add to the `Content-Type` of responses that have one of `charset_types` and name no
        /// encoding; `false`: none
        charset: Unread [kind(TEXT_OR_NONE), beyond()],
        /// MIME types for `charset`; by default `text/html`, `text/xml`, `text/plain`, `text/vnd.wap.wml`,
        /// `text/javascript`, `application/javascript` and `application/rss+xml`
        charset_types: Unread [kind(TYPES), beyond()],
        /// MIME type of files whose extension has none; `false`: none
        default_type: Unread [kind(TEXT_OR_NONE), beyond()],
        /// File name extensions (`.html`) or file names for MIME types, instead of the built-in ones and those of
        /// `settings.http.static`. An empty object: no extension has a type
        mime_types: Unread [kind(MIME_TYPES), beyond()],
        /// Bytes per second of one response; 0: no limit
        limit_rate: Option<u64> [kind(ValueKind::Size(0, 1 << 40)), beyond(), unit("bytes per second")],
        /// Bytes of a response that are sent before `limit_rate` applies
        limit_rate_after: Option<u64> [kind(ValueKind::Size(0, 1 << 50)), beyond(), unit("bytes")],
        /// Fields that are sent after the body of a response with a status from 200 to 399, to clients that accept such
        /// fields: those of HTTP/2 and HTTP/3, and those of HTTP/1.1 with `TE: trailers`. Not for the server's own
        /// pages
        trailers: Unread [kind(ValueKind::Map(Names::ResponseHeader, &ValueKind::String(Text::FieldTemplate))), beyond()],
        /// Texts to replace in the bodies of responses that have one of `replace_types`; an empty array: none. Such
        /// responses have no `Content-Length`, and `Range` is not passed on
        replace: Unread [kind(REPLACEMENTS), beyond()],
        /// MIME types for `replace`; by default `text/html`
        replace_types: Unread [kind(TYPES), beyond()],
    }
}

options! {
    /// A text to replace in the body of a response
    pub struct ReplacementOptions: REPLACEMENT = "replacement" {
        /// The text, of at most 1024 bytes
        find: String [kind(ValueKind::String(Text::NotEmpty)), beyond(), required()],
        /// The replacement, with variables
        with: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), beyond(), required()],
        /// Replace only its first occurrence
        once: bool [beyond(), default("false")],
        /// Ignore the case of letters
        ignore_case: bool [beyond(), default("false")],
    }
}

const TEXT_OR_NONE: ValueKind =
    ValueKind::OneOf(&[ValueKind::Boolean, ValueKind::String(Text::NotEmpty)]);
const TYPES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(CASELESS)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(CASELESS))),
]);
const REPLACEMENTS: ValueKind = ValueKind::OneOf(&[
    ReplacementOptions::KIND,
    ValueKind::Array(&ReplacementOptions::KIND),
]);
