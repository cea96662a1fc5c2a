//! Options of routes: steps, conditions, actions.

use tutti_options::table::{CASELESS, DECODED, Kind, Names, PLAIN, Text};
use tutti_options::{Typed as _, Unread, options};

use super::gateways::{FastCgi, Scgi, Uwsgi};
use super::guards::{CorsOptions, LIMITS};
use super::identity::AuthenticateOptions;
use super::kinds::ADDRESSES;
use super::upstreams::UpstreamOptions;

options! {
    /// A step of a route: the first whose conditions all hold acts; if none does, the answer is 404
    pub struct StepOptions: STEP = "step" {
        /// Conditions that must all hold; without it, every request matches
        conditions: Unread [key("match"), kind(MatchOptions::KIND)],
        /// The action
        action: Unread [kind(ActionOptions::KIND), required()],
    }
}

options! {
    /// Conditions. A pattern is compared whole; `*` stands for any characters, `!` before it means the opposite, `~` a
    /// regular expression. Of several patterns one without `!` must match, and none with `!`
    pub struct MatchOptions: CONDITIONS = "match" {
        /// Path, decoded and normalised
        uri: Unread [kind(DECODED_PATTERNS)],
        /// `Host` field, lower case, without port and trailing period
        host: Unread [kind(CASELESS_PATTERNS)],
        /// Method
        method: Unread [kind(CASELESS_PATTERNS)],
        /// Query string, decoded, `+` read as a space
        query: Unread [kind(DECODED_PATTERNS)],
        /// Protocol
        scheme: Unread [kind(Kind::String(Text::AnyCase(&["http", "https"])))],
        /// Arguments of the query string: all of an object, one object of an array
        arguments: Unread [kind(ARGUMENTS)],
        /// Cookies: all of an object, one object of an array
        cookies: Unread [kind(COOKIES)],
        /// Header fields: all of an object, one object of an array
        headers: Unread [kind(HEADERS)],
        /// Address and port the request comes from
        source: Unread [kind(ADDRESSES)],
        /// Address and port the request came to
        destination: Unread [kind(ADDRESSES)],
        /// Text with variables; does not hold if it is empty, `0`, `false`, `null` or `undefined`
        condition: Unread [key("if"), kind(Kind::String(Text::Condition))],
    }
}

options! {
    /// The action for a request: one of `pass`, `proxy`, `return`, `share`
    pub struct ActionOptions: ACTION = "action", exactly_one ["pass", "proxy", "return", "share"] {
        /// Hand it to `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`, `upstreams/NAME` or `metrics`
        pass: Unread [kind(Kind::String(Text::Pass))],
        /// Send it to another server: `http://ADDRESS:PORT`, `http://[IPV6]:PORT`, `http://unix:PATH`; the same with
        /// `https`, `fastcgi`, `uwsgi` or `scgi` for what is spoken there
        proxy: Unread [kind(Kind::String(Text::ProxyTarget))],
        /// How to talk to that server
        proxy_options: Unread [kind(UpstreamOptions::KIND), beyond(), needs(&["proxy"])],
        /// Fields to set in the request to the application, server or upstream; `null` removes one, `{"add": "…"}` adds
        /// one to those there are
        request_headers: Unread [kind(REQUEST_HEADERS), needs(&["proxy", "pass"]), beyond()],
        /// Answer with this status
        status: Option<u16> [key("return"), kind(Kind::Integer(0, 999))],
        /// `Location` of the answer
        location: Unread [kind(Kind::String(Text::TemplateOrEmpty)), needs(&["return"])],
        /// Serve the first file that exists of these paths
        share: Unread [kind(TEMPLATES)],
        /// File to serve for a directory; empty: none
        index: String [kind(Kind::String(Text::Argument)), default("\"index.html\""), needs(SHARE)],
        /// Path that the folder stands at, as Apache's `Alias` has it: `$uri` in `share` and `chroot` is without it, and paths that do
        /// not begin with it name no file here. Begins with a slash
        prefix: Option<String> [kind(Kind::String(Text::Argument)), beyond(), needs(SHARE)],
        /// The action where there is a file, instead of serving it: a test, as nginx's `try_files` has it. Whatever the method and
        /// the type; a folder is no file, but one that ends with a slash and has its `index`
        found: Unread [kind(ActionOptions::KIND), beyond(), needs(SHARE)],
        /// The action where no file can be served
        fallback: Unread [kind(ActionOptions::KIND), needs(SHARE)],
        /// MIME types that may be served, whatever their case; others get 403
        types: Unread [kind(CASELESS_PATTERNS), needs(SHARE)],
        /// Paths of requests, patterns as those of `match.uri`, for which there is nothing here: 404, whatever file
        /// there is, and no `fallback`. With `index` in a path that ends with `/` too
        deny: Unread [kind(DECODED_PATTERNS), beyond(), needs(SHARE)],
        /// Directory that paths and links cannot leave; empty: none
        chroot: Unread [kind(Kind::String(Text::TemplateOrEmpty)), needs(SHARE)],
        /// Follow symbolic links
        follow_symlinks: bool [default("true"), needs(SHARE)],
        /// Cross mount points
        traverse_mounts: bool [default("true"), needs(SHARE)],
        /// New path, before acting; the query string stays. Empty: the path stays too
        rewrite: Unread [kind(Kind::String(Text::TemplateOrEmpty))],
        /// Fields to set in a 2xx or 3xx answer; `null` removes one
        response_headers: Unread [kind(RESPONSE_HEADERS)],
        /// The same for an answer of any status, errors too, as nginx has it with `always`
        response_headers_always: Unread [kind(RESPONSE_HEADERS), beyond()],
        /// Bounds on requests: names of `limits`, or bounds of their own. They count before anything else is done, whatever the action is; where it passes on
        /// to a route, those of that route count too
        limit: Unread [kind(LIMITS), beyond()],
        /// Who is let in, after `limit`
        authenticate: Unread [kind(AuthenticateOptions::KIND), beyond()],
        /// Which pages of other origins may read the answers
        cors: Unread [kind(CorsOptions::KIND), beyond()],
        /// How to talk to a `fastcgi://` server
        fastcgi: Unread [kind(FastCgi::KIND), beyond(), needs(&["proxy"])],
        /// How to talk to a `uwsgi://` server
        uwsgi: Unread [kind(Uwsgi::KIND), beyond(), needs(&["proxy"])],
        /// How to talk to an `scgi://` server
        scgi: Unread [kind(Scgi::KIND), beyond(), needs(&["proxy"])],
    }
}

const RESPONSE_HEADERS: Kind = Kind::Map(
    Names::ResponseHeader,
    &Kind::OneOf(&[Kind::String(Text::FieldTemplate), Kind::Null]),
);
const REQUEST_HEADERS: Kind = Kind::Map(Names::RequestHeader, &REQUEST_CHANGE);
const REQUEST_CHANGE: Kind = Kind::OneOf(&[
    Kind::String(Text::FieldTemplate),
    Kind::Null,
    AddedHeader::KIND,
]);

options! {
    /// A field that is added, whatever fields of that name there are
    pub struct AddedHeader: ADDED = "added header" {
        /// Its value
        add: Unread [kind(Kind::String(Text::FieldTemplate)), beyond(), required()],
    }
}

const SHARE: &[&str] = &["share"];
const TEMPLATES: Kind = Kind::OneOf(&[
    Kind::String(Text::Template),
    Kind::Array(&Kind::String(Text::Template)),
]);
const DECODED_PATTERNS: Kind = Kind::OneOf(&[
    Kind::String(Text::Pattern(DECODED)),
    Kind::Array(&Kind::String(Text::Pattern(DECODED))),
]);
const CASELESS_PATTERNS: Kind = Kind::OneOf(&[
    Kind::String(Text::Pattern(CASELESS)),
    Kind::Array(&Kind::String(Text::Pattern(CASELESS))),
]);
const PLAIN_PATTERNS: Kind = Kind::OneOf(&[
    Kind::String(Text::Pattern(PLAIN)),
    Kind::Array(&Kind::String(Text::Pattern(PLAIN))),
]);

const ARGUMENTS: Kind = Kind::OneOf(&[ARGUMENT_SET, Kind::Array(&ARGUMENT_SET)]);
const ARGUMENT_SET: Kind = Kind::Map(Names::Argument, &DECODED_PATTERNS);
const COOKIES: Kind = Kind::OneOf(&[COOKIE_SET, Kind::Array(&COOKIE_SET)]);
const COOKIE_SET: Kind = Kind::Map(Names::NotEmpty, &PLAIN_PATTERNS);
const HEADERS: Kind = Kind::OneOf(&[HEADER_SET, Kind::Array(&HEADER_SET)]);
const HEADER_SET: Kind = Kind::Map(Names::HeaderName, &CASELESS_PATTERNS);
