//! Options of routes: steps, conditions, actions.

use tutti_options::table::{CASELESS, DECODED, Names, PLAIN, QUERY, Referent, Text, ValueKind};
use tutti_options::{Options as _, Typed as _, Unread, options, words};

use super::cache::CacheOptions;
use super::delivery::MirrorOptions;
use super::gateways::{FastCgi, Scgi, Uwsgi};
use super::guards::{CorsOptions, LIMITS};
use super::identity::AuthenticateOptions;
use super::kinds::ADDRESSES;
use super::settings::Encoding;
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
        query: Unread [kind(QUERY_PATTERNS)],
        /// Protocol
        scheme: Unread [kind(ValueKind::String(Text::AnyCase(&["http", "https"])))],
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
        condition: Unread [key("if"), kind(ValueKind::String(Text::Condition))],
    }
}

options! {
    /// The action for a request: one of `pass`, `proxy`, `return`, `share`
    pub struct ActionOptions: ACTION = "action", exactly_one ["pass", "proxy", "return", "share"],
        followed_by [ShareOptions::ROWS, ErrorOptions::ROWS, DeliveryOptions::ROWS] {
        /// Hand it to `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`, `upstreams/NAME` or `metrics`
        pass: Unread [kind(ValueKind::String(Text::Pass))],
        /// Send it to another server: `http://ADDRESS:PORT`, `http://[IPV6]:PORT`, `http://unix:PATH`; the same with
        /// `https`, `fastcgi`, `uwsgi` or `scgi` for what is spoken there
        proxy: Unread [kind(ValueKind::String(Text::ProxyTarget))],
        /// How to talk to that server
        proxy_options: Unread [kind(UpstreamOptions::KIND), beyond(), needs(&["proxy"])],
        /// Fields to set in the request to the application, server or upstream; `null` removes one, `{"add": "…"}` adds
        /// one to those there are
        request_headers: Unread [kind(REQUEST_HEADERS), needs(&["proxy", "pass"]), beyond()],
        /// Keep responses and answer with them: the name of a store of `settings.cache`, or an object
        cache: Unread [kind(CACHE), needs(&["proxy", "pass"]), beyond()],
        /// Answer with this status
        status: Option<u16> [key("return"), kind(ValueKind::Integer(0, 999))],
        /// `Location` of the answer
        location: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), needs(&["return"])],
        /// Serve the first file that exists of these paths
        share: Unread [kind(TEMPLATES)],
        /// New path, before acting; a `?` begins a new query, which the client's other arguments follow. Without one the query string
        /// stays. Empty: the path stays too
        rewrite: Unread [kind(ValueKind::String(Text::TemplateOrEmpty))],
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

const CACHE: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::CacheStore)),
    CacheOptions::KIND,
]);
const RESPONSE_HEADERS: ValueKind = ValueKind::Map(
    Names::ResponseHeader,
    &ValueKind::OneOf(&[ValueKind::String(Text::FieldTemplate), ValueKind::Null]),
);
const REQUEST_HEADERS: ValueKind = ValueKind::Map(Names::RequestHeader, &REQUEST_CHANGE);
const REQUEST_CHANGE: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::FieldTemplate),
    ValueKind::Null,
    AddedHeader::KIND,
]);

options! {
    /// How `share` serves files
    pub struct ShareOptions: SHARE_OPTIONS = "share" {
        /// File to serve for a directory; empty: none
        index: String [kind(ValueKind::String(Text::Argument)), default("\"index.html\""), needs(SHARE)],
        /// Path that the folder stands at, as Apache's `Alias` has it: `$uri` in `share` and `chroot` is without it, and paths that do
        /// not begin with it name no file here. Begins with a slash
        prefix: Option<String> [kind(ValueKind::String(Text::Argument)), beyond(), needs(SHARE)],
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
        /// Serve a file that stands beside the file, compressed, to clients that take it: `style.css.br`, `.zst` or `.gz` beside
        /// `style.css`; of several that a client likes alike, the first named here
        precompressed: Vec<Encoding> [kind(PRECOMPRESSED), beyond(), needs(SHARE)],
        /// Serve it also where it is older than the file
        precompressed_older: bool [beyond(), default("false"), needs(&["precompressed"])],
        /// Answer for a folder without `index` with a list of what is in it, as HTML or JSON, or as which of both the client likes
        /// better. Names that begin with a period are left out, and what the share would not serve
        listing: Option<ListingFormat> [beyond(), needs(SHARE)],
        /// Most entries of such a list; where there are more, the list says so
        listing_limit: u32 [kind(ValueKind::Integer(1, 100_000)), beyond(), default("2000"), unit("entries"), needs(&["listing"])],
        /// Directory that paths and links cannot leave; empty: none
        chroot: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), needs(SHARE)],
        /// Follow symbolic links
        follow_symlinks: bool [default("true"), needs(SHARE)],
        /// Cross mount points
        traverse_mounts: bool [default("true"), needs(SHARE)],
    }
}

options! {
    /// A field that is added, whatever fields of that name there are
    pub struct AddedHeader: ADDED = "added header" {
        /// Its value
        add: Unread [kind(ValueKind::String(Text::FieldTemplate)), beyond(), required()],
    }
}

options! {
    /// Answers to errors, of a listener or an action
    pub struct ErrorOptions: ERRORS = "errors" {
        /// Actions that answer in place of errors, by status (`404`) or class (`4xx`, `5xx`); a status goes before its class. The error's
        /// status stays, unless the action is a `return` or has `response_status`. Where such an action fails, the client gets the page
        /// that it would have had without
        error_pages: Unread [kind(ValueKind::Map(Names::ErrorStatus, &ActionOptions::KIND)), beyond()],
        /// Let `error_pages` answer in place of errors of applications, upstreams and proxied servers, too; without it only those of
        /// the server itself. What an action does not say, the listener says
        intercept_errors: Option<bool> [beyond()],
    }
}

options! {
    /// How the answer of an action is delivered
    pub struct DeliveryOptions: DELIVERY = "delivery" {
        /// Named routes that an answer may lead to with `X-Accel-Redirect` or `X-Sendfile`: one, `routes/NAME`, or by the beginning of
        /// the path, of which the longest counts. No `pass` may lead there, so no client gets there by itself
        internal: Unread [kind(INTERNAL), beyond(), needs(&["proxy", "pass"])],
        /// Only in an error page: the status of the answer, or `own` for that which the action gives
        response_status: Unread [kind(RESPONSE_STATUS), beyond()],
        /// Values of `Link` for a 103 (Early Hints) that a client gets at once, before the application or server is asked; see
        /// `settings.http.early_hints`. A GET or HEAD gets it, unless the client says that it asks for something else than a page
        early_hints: Unread [kind(HINTS), beyond(), needs(&["proxy", "pass"])],
        /// Send a copy of the request to an upstream, whose answer nobody waits for
        mirror: Unread [kind(MirrorOptions::KIND), beyond(), needs(&["proxy", "pass", "share", "return"])],
    }
}

const INTERNAL: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::Destination)),
    ValueKind::Map(
        Names::Path,
        &ValueKind::String(Text::Name(Referent::Destination)),
    ),
]);
const RESPONSE_STATUS: ValueKind = ValueKind::OneOf(&[
    ValueKind::Integer(200, 599),
    ValueKind::String(Text::Word(&["own"])),
]);
const HINTS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::FieldTemplate),
    ValueKind::Array(&ValueKind::String(Text::FieldTemplate)),
]);

words! {
    /// The form of a list of files.
    pub enum ListingFormat {
        /// HTML or JSON, by `Accept`.
        Auto = "auto",
        /// A page.
        Html = "html",
        /// An array of objects.
        Json = "json",
    }
}

const PRECOMPRESSED: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Word(&["br", "zstd", "gzip"])),
    ValueKind::Array(&ValueKind::String(Text::Word(&["br", "zstd", "gzip"]))),
]);
const SHARE: &[&str] = &["share"];
const TEMPLATES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Template),
    ValueKind::Array(&ValueKind::String(Text::Template)),
]);
const DECODED_PATTERNS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(DECODED)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(DECODED))),
]);
const QUERY_PATTERNS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(QUERY)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(QUERY))),
]);
const CASELESS_PATTERNS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(CASELESS)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(CASELESS))),
]);
const PLAIN_PATTERNS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(PLAIN)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(PLAIN))),
]);

const ARGUMENTS: ValueKind = ValueKind::OneOf(&[ARGUMENT_SET, ValueKind::Array(&ARGUMENT_SET)]);
const ARGUMENT_SET: ValueKind = ValueKind::Map(Names::Argument, &QUERY_PATTERNS);
const COOKIES: ValueKind = ValueKind::OneOf(&[COOKIE_SET, ValueKind::Array(&COOKIE_SET)]);
const COOKIE_SET: ValueKind = ValueKind::Map(Names::NotEmpty, &PLAIN_PATTERNS);
const HEADERS: ValueKind = ValueKind::OneOf(&[HEADER_SET, ValueKind::Array(&HEADER_SET)]);
const HEADER_SET: ValueKind = ValueKind::Map(Names::HeaderName, &CASELESS_PATTERNS);
