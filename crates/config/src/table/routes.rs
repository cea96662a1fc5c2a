//! Options of routes: steps, conditions, actions.

use tutti_options::table::{DECODED, Names, QUERY, Referent, Text, ValueKind};
use tutti_options::{Options as _, Typed as _, Unread, options, words};

use super::cache::CacheOptions;
use super::delivery::MirrorOptions;
use super::gateways::{FastCgi, Scgi, Uwsgi};
use super::guards::{CorsOptions, LIMITS};
use super::identity::AuthenticateOptions;
use super::kinds::{ADDRESSES, CASELESS_PATTERNS, PLAIN_PATTERNS};
use super::scope::ScopeOptions;
use super::settings::{Encoding, HttpRequestOptions};
use super::upstreams::ProxyOptions;

options! {
    /// A step of a route: the first step whose conditions all match acts; if none matches, the response is 404
    pub struct StepOptions: STEP = "step" {
        /// Conditions that must all match; without them, every request matches
        conditions: Unread [key("match"), kind(MatchOptions::KIND)],
        /// The action
        action: Unread [kind(ActionOptions::KIND), required()],
    }
}

options! {
    /// Conditions. A pattern must match the whole value; `*` matches any characters, `!` before the pattern negates it,
    /// and `~` begins a regular expression. Of several patterns, at least one without `!` must match, and none with `!`
    pub struct MatchOptions: CONDITIONS = "match" {
        /// Path, decoded and normalized. Groups of a regular expression are `$match_1` and `$match_NAME` in the action
        uri: Unread [kind(DECODED_PATTERNS)],
        /// `Host` field, in lower case, without port and trailing period. Groups of a regular expression are `$host_match_1`
        /// and `$host_match_NAME` in the action
        host: Unread [kind(CASELESS_PATTERNS)],
        /// Method
        method: Unread [kind(CASELESS_PATTERNS)],
        /// Query string, decoded, `+` read as a space
        query: Unread [kind(QUERY_PATTERNS)],
        /// Protocol
        scheme: Unread [kind(ValueKind::String(Text::AnyCase(&["http", "https"])))],
        /// Arguments of the query string: an object matches if all of its members do, an array if one of its objects
        /// does
        arguments: Unread [kind(ARGUMENTS)],
        /// Cookies: an object matches if all of its members do, an array if one of its objects does
        cookies: Unread [kind(COOKIES)],
        /// Header fields: an object matches if all of its members do, an array if one of its objects does
        headers: Unread [kind(HEADERS)],
        /// The page with the link, by the field `Referer`: `none` (the field is absent), `blocked` (its value does
        /// not begin with `http://` or `https://`), `server_names` (a page of the host that the request is for), or
        /// patterns for hosts. A pattern with a slash is compared with host and path. Ports are ignored
        referer: Unread [kind(CASELESS_PATTERNS), beyond()],
        /// Address and port that the request comes from
        source: Unread [kind(ADDRESSES)],
        /// Address and port that the request was sent to
        destination: Unread [kind(ADDRESSES)],
        /// Text with variables; does not match if it is empty, `0`, `false`, `null` or `undefined`
        condition: Unread [key("if"), kind(ValueKind::String(Text::Condition))],
    }
}

options! {
    /// The action for a request: one of `pass`, `proxy`, `return`, `share`
    pub struct ActionOptions: ACTION = "action", exactly_one ["pass", "proxy", "return", "share"],
        followed_by [ShareOptions::ROWS, ScopeOptions::ROWS, ErrorOptions::ROWS, DeliveryOptions::ROWS] {
        /// Pass it to `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`, `upstreams/NAME`,
        /// `metrics` (for Prometheus) or `metrics/stub_status` (nginx's `stub_status`)
        pass: Unread [kind(ValueKind::String(Text::Pass))],
        /// Send it to another server: `http://ADDRESS:PORT`, `http://[IPV6]:PORT`, `http://unix:PATH`; likewise with
        /// `https`, `fastcgi`, `uwsgi` or `scgi` for the protocol. The address may have variables, `http://$arg_server`,
        /// if `allow` of `proxy_options` lists the servers
        proxy: Unread [kind(ValueKind::String(Text::ProxyTarget))],
        /// Options for requests to that server
        proxy_options: Unread [kind(ProxyOptions::KIND), beyond(), needs(&["proxy"])],
        /// Fields to set in the request to the application, server or upstream; `null` removes one, and so does a
        /// value with variables that is empty; `{"add": "…"}` keeps existing ones
        request_headers: Unread [kind(REQUEST_HEADERS), needs(&["proxy", "pass"]), beyond()],
        /// Body of the request to the server or upstream, instead of the client's: text with variables. The method stays,
        /// and `Content-Type` is the client's unless `request_headers` sets it
        request_body: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), needs(&["proxy", "pass"]), beyond()],
        /// Method of the request to the server or upstream, instead of the client's. A response to HEAD still has no body
        request_method: Option<String> [kind(ValueKind::String(Text::Word(&["DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT", "QUERY"]))), needs(&["proxy", "pass"]), beyond()],
        /// Cache responses: the name of a store of `settings.cache`, or an object
        cache: Unread [kind(CACHE), needs(&["proxy", "pass"]), beyond()],
        /// Respond with this status
        status: Option<u16> [key("return"), kind(ValueKind::Integer(0, 999))],
        /// `Location` of the response
        location: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), needs(&["return"])],
        /// Body of the response: text with variables. Their values are inserted as they are, even if a client has
        /// chosen them. Without `body` and `json`, the body is the server's own page for a status of 400 and above,
        /// and otherwise empty. `error_pages` do not apply to a response with a body
        body: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), beyond(), needs(&["return"])],
        /// Body of the response: a JSON value. Each string in it may have variables, whose values are escaped. Not
        /// together with `body`
        json: Unread [kind(ValueKind::Json), beyond(), needs(&["return"])],
        /// Media type of the body; by default `text/plain; charset=utf-8` for `body`, and `application/json` for `json`
        content_type: Option<String> [kind(ValueKind::String(Text::MediaType)), beyond(), needs(&["return"])],
        /// Serve the first of these files that exists
        share: Unread [kind(TEMPLATES)],
        /// New path, applied before the action; a `?` begins a new query, to which the client's other arguments are
        /// appended. Without a `?` the query string is kept. Empty: keep the path too
        rewrite: Unread [kind(ValueKind::String(Text::TemplateOrEmpty))],
        /// Fields to set in a 2xx or 3xx response; `null` removes one, and so does a value with variables that is
        /// empty. An object adds fields to those that the response has. `Server` can only be removed
        response_headers: Unread [kind(RESPONSE_HEADERS)],
        /// Fields to set in a response with any status, including errors, like `always` in nginx; `null` removes one,
        /// and so does a value with variables that is empty. An object adds fields to those that the response has.
        /// `Server` can only be removed
        response_headers_always: Unread [kind(RESPONSE_HEADERS), beyond()],
        /// Handling of the HTTP requests of this action
        http: Unread [kind(HttpRequestOptions::KIND), beyond()],
        /// Limits on requests: names of `limits`, or inline limits. They apply first, whatever the action is; if it
        /// passes requests on to a route, the limits of that route apply too
        limit: Unread [kind(LIMITS), beyond()],
        /// Clients to admit; checked after `limit`
        authenticate: Unread [kind(AuthenticateOptions::KIND), beyond()],
        /// Other origins whose pages may read the responses
        cors: Unread [kind(CorsOptions::KIND), beyond()],
        /// Options for a `fastcgi://` server
        fastcgi: Unread [kind(FastCgi::KIND), beyond(), needs(&["proxy"])],
        /// Options for a `uwsgi://` server
        uwsgi: Unread [kind(Uwsgi::KIND), beyond(), needs(&["proxy"])],
        /// Options for an `scgi://` server
        scgi: Unread [kind(Scgi::KIND), beyond(), needs(&["proxy"])],
    }
}

const CACHE: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::CacheStore)),
    CacheOptions::KIND,
]);
const RESPONSE_HEADERS: ValueKind = ValueKind::Map(
    Names::ResponseHeader,
    &ValueKind::OneOf(&[
        ValueKind::String(Text::FieldTemplate),
        ValueKind::Null,
        AddedFields::KIND,
    ]),
);
const REQUEST_HEADERS: ValueKind = ValueKind::Map(Names::RequestHeader, &REQUEST_CHANGE);
const REQUEST_CHANGE: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::FieldTemplate),
    ValueKind::Null,
    AddedHeader::KIND,
]);

options! {
    /// Options for `share`
    pub struct ShareOptions: SHARE_OPTIONS = "share" {
        /// File to serve for a folder; empty: none
        index: String [kind(ValueKind::String(Text::Argument)), default("\"index.html\""), needs(SHARE)],
        /// URL path of the folder, like Apache's `Alias`: `$uri` in `share` and `chroot` does not contain it, and other
        /// paths do not match a file. Begins with a slash
        prefix: Option<String> [kind(ValueKind::String(Text::Argument)), beyond(), needs(SHARE)],
        /// The action for a request whose file exists, instead of serving it: a test, like nginx's `try_files`. The
        /// method and type of the request do not matter; a folder is not a file, unless the path ends with a slash and
        /// the folder contains its `index`
        found: Unread [kind(ActionOptions::KIND), beyond(), needs(SHARE)],
        /// The action for a folder that exists and has neither its `index` nor a `listing`, instead of `fallback`: for
        /// example `{"return": 403}`. With `found`, which makes this a test, the path of a folder need not end with a slash
        folder: Unread [kind(ActionOptions::KIND), beyond(), needs(SHARE)],
        /// The action if no file can be served
        fallback: Unread [kind(ActionOptions::KIND), needs(SHARE)],
        /// MIME types that may be served, in any case of letters; others get 403
        types: Unread [kind(CASELESS_PATTERNS), needs(SHARE)],
        /// Request paths, as patterns like those of `match.uri`, that get 404, whether or not a file exists, and
        /// without `fallback`. For a path that ends with `/`, the path with `index` is checked too. A folder is not
        /// redirected to a path that is denied
        deny: Unread [kind(DECODED_PATTERNS), beyond(), needs(SHARE)],
        /// Serve an existing compressed file to clients that accept it: `style.css.br`, `.zst` or `.gz` beside
        /// `style.css`; if a client accepts several equally, the first named here
        precompressed: Vec<Encoding> [kind(PRECOMPRESSED), beyond(), needs(SHARE)],
        /// Serve it even if it is older than the file
        precompressed_older: bool [beyond(), default("false"), needs(&["precompressed"])],
        /// List the contents of a folder without `index`, as HTML or JSON, or in the format the client prefers. Names
        /// that begin with a period and files that the share would not serve are left out
        listing: Option<ListingFormat> [beyond(), needs(SHARE)],
        /// Maximum entries of such a list; it says so if there are more
        listing_limit: u32 [kind(ValueKind::Integer(1, 100_000)), beyond(), default("2000"), unit("entries"), needs(&["listing"])],
        /// Folder that paths and links cannot leave; empty: none
        chroot: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), needs(SHARE)],
        /// Follow symbolic links
        follow_symlinks: bool [default("true"), needs(SHARE)],
        /// Cross mount points
        traverse_mounts: bool [default("true"), needs(SHARE)],
    }
}

options! {
    /// A field to add, keeping existing fields with the same name
    pub struct AddedHeader: ADDED = "added header" {
        /// Its value
        add: Unread [kind(ValueKind::String(Text::FieldTemplate)), beyond(), required()],
    }
}

options! {
    /// Fields to add to a response, keeping existing fields with the same name
    pub struct AddedFields: ADDED_FIELDS = "added fields" {
        /// The value of a field, or the values of several
        add: Unread [kind(ADDED_VALUES), beyond(), required()],
    }
}

const ADDED_VALUES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::FieldTemplate),
    ValueKind::Array(&ValueKind::String(Text::FieldTemplate)),
]);

options! {
    /// Responses to errors, of a listener or an action
    pub struct ErrorOptions: ERRORS = "errors" {
        /// Actions that respond to errors, by status (`404`) or class (`4xx`, `5xx`); a status takes precedence over
        /// its class. The status of the error is kept, unless the action is a `return` or has `response_status`. If
        /// such an action fails, the client gets the original page
        error_pages: Unread [kind(ValueKind::Map(Names::ErrorStatus, &ActionOptions::KIND)), beyond()],
        /// Apply `error_pages` to error responses of applications, upstreams and proxied servers, too; by default they
        /// apply only to the server's own. The setting of the listener is the default for its actions
        intercept_errors: Option<bool> [beyond()],
    }
}

options! {
    /// Delivery of an action's response
    pub struct DeliveryOptions: DELIVERY = "delivery" {
        /// Named routes to which a response may redirect internally with `X-Accel-Redirect` or `X-Sendfile`: one,
        /// `routes/NAME`, or several by prefix of the path, of which the longest applies. No `pass` may refer to them,
        /// so clients cannot reach them directly
        internal: Unread [kind(INTERNAL), beyond(), needs(&["proxy", "pass"])],
        /// Only in an error page: the status of the response, or `own` for the status that the action returns
        response_status: Unread [kind(RESPONSE_STATUS), beyond()],
        /// Values of `Link` for a 103 (Early Hints) that the client gets immediately, before the application or server
        /// responds; see `settings.http.early_hints`. Sent for GET and HEAD, unless the client indicates that it does
        /// not request a page
        early_hints: Unread [kind(HINTS), beyond(), needs(&["proxy", "pass"])],
        /// Send a copy of the request to an upstream, and ignore its response
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
    /// The format of a list of files.
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

const ARGUMENTS: ValueKind = ValueKind::OneOf(&[ARGUMENT_SET, ValueKind::Array(&ARGUMENT_SET)]);
const ARGUMENT_SET: ValueKind = ValueKind::Map(Names::Argument, &QUERY_PATTERNS);
const COOKIES: ValueKind = ValueKind::OneOf(&[COOKIE_SET, ValueKind::Array(&COOKIE_SET)]);
const COOKIE_SET: ValueKind = ValueKind::Map(Names::NotEmpty, &PLAIN_PATTERNS);
const HEADERS: ValueKind = ValueKind::OneOf(&[HEADER_SET, ValueKind::Array(&HEADER_SET)]);
const HEADER_SET: ValueKind = ValueKind::Map(Names::HeaderName, &CASELESS_PATTERNS);
