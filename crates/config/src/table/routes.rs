//! Options of routes: steps, conditions, actions.

use super::kinds::ADDRESSES;
use super::upstreams::PROXY_OPTIONS;
use tutti_options::table::{CASELESS, DECODED, Kind, Names, Object, Opt, PLAIN, Text, opt};

/// One step of a route.
pub static STEP: Object = Object {
    name: "step",
    summary: "A step of a route: the first whose conditions all hold acts; if none does, the answer is 404",
    options: &[&[
        opt(
            "match",
            Kind::Object(&CONDITIONS),
            "Conditions that must all hold; without it, every request matches",
        ),
        opt("action", Kind::Object(&ACTION), "What to do").required(),
    ]],
    exactly_one: &[],
};

/// `match`.
pub static CONDITIONS: Object = Object {
    name: "match",
    summary: "Conditions. A pattern is compared whole; `*` stands for any characters, `!` before it means the \
              opposite, `~` a regular expression. Of several patterns one without `!` must match, and none with `!`",
    options: &[&[
        opt("uri", DECODED_PATTERNS, "Path, decoded and normalised"),
        opt(
            "host",
            CASELESS_PATTERNS,
            "`Host` field, lower case, without port and trailing period",
        ),
        opt("method", CASELESS_PATTERNS, "Method"),
        opt(
            "query",
            DECODED_PATTERNS,
            "Query string, decoded, `+` read as a space",
        ),
        opt(
            "scheme",
            Kind::String(Text::AnyCase(&["http", "https"])),
            "Protocol",
        ),
        opt(
            "arguments",
            ARGUMENTS,
            "Arguments of the query string: all of an object, one object of an array",
        ),
        opt(
            "cookies",
            COOKIES,
            "Cookies: all of an object, one object of an array",
        ),
        opt(
            "headers",
            HEADERS,
            "Header fields: all of an object, one object of an array",
        ),
        opt(
            "source",
            ADDRESSES,
            "Address and port the request comes from",
        ),
        opt(
            "destination",
            ADDRESSES,
            "Address and port the request came to",
        ),
        opt(
            "if",
            Kind::String(Text::Condition),
            "Text with variables; does not hold if it is empty, `0`, `false`, `null` or `undefined`",
        ),
    ]],
    exactly_one: &[],
};

/// `action` and `fallback`.
pub static ACTION: Object = Object {
    name: "action",
    summary: "What to do with a request: one of `pass`, `proxy`, `return`, `share`",
    options: &[
        &[
            opt(
                "pass",
                Kind::String(Text::Pass),
                "Hand it to `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET` or `upstreams/NAME`",
            ),
            opt(
                "proxy",
                Kind::String(Text::ProxyTarget),
                "Send it to another server: `http://ADDRESS:PORT`, `http://[IPV6]:PORT`, `http://unix:PATH`; the same with `https`, `fastcgi`, \
             `uwsgi` or `scgi` for what is spoken there",
            ),
            opt(
                "proxy_options",
                Kind::Object(&PROXY_OPTIONS),
                "How to talk to that server",
            )
            .beyond()
            .needs(&["proxy"]),
            REQUEST_HEADERS,
            opt("return", Kind::Integer(0, 999), "Answer with this status"),
            opt(
                "location",
                Kind::String(Text::TemplateOrEmpty),
                "`Location` of the answer",
            )
            .needs(&["return"]),
            opt(
                "share",
                TEMPLATES,
                "Serve the first file that exists of these paths",
            ),
            opt(
                "index",
                Kind::String(Text::Argument),
                "File to serve for a directory; empty: none",
            )
            .default("\"index.html\"")
            .needs(SHARE),
            opt(
                "fallback",
                Kind::Object(&ACTION),
                "What to do where no file can be served",
            )
            .needs(SHARE),
            opt(
                "types",
                CASELESS_PATTERNS,
                "MIME types that may be served, whatever their case; others get 403",
            )
            .needs(SHARE),
            opt(
                "deny",
                DECODED_PATTERNS,
                "Paths of requests, patterns as those of `match.uri`, for which there is nothing here: 404, whatever file there is, and no \
                 `fallback`. With `index` in a path that ends with `/` too",
            )
            .beyond()
            .needs(SHARE),
            opt(
                "chroot",
                Kind::String(Text::TemplateOrEmpty),
                "Directory that paths and links cannot leave; empty: none",
            )
            .needs(SHARE),
            opt("follow_symlinks", Kind::Boolean, "Follow symbolic links")
                .default("true")
                .needs(SHARE),
            opt("traverse_mounts", Kind::Boolean, "Cross mount points")
                .default("true")
                .needs(SHARE),
            REWRITE,
            RESPONSE_HEADERS,
        ],
        super::gateways::OF_ACTION,
    ],
    exactly_one: &["pass", "proxy", "return", "share"],
};

const REWRITE: Opt = opt(
    "rewrite",
    Kind::String(Text::TemplateOrEmpty),
    "New path, before acting; the query string stays. Empty: the path stays too",
);
const RESPONSE_HEADERS: Opt = opt(
    "response_headers",
    Kind::Map(
        Names::ResponseHeader,
        &Kind::OneOf(&[Kind::String(Text::FieldTemplate), Kind::Null]),
    ),
    "Fields to set in a 2xx or 3xx answer; `null` removes one",
);

const REQUEST_HEADERS: Opt = opt(
    "request_headers",
    Kind::Map(
        Names::RequestHeader,
        &REQUEST_CHANGE,
    ),
    "Fields to set in the request to the application, server or upstream; `null` removes one, `{\"add\": \"…\"}` adds one to those there are",
)
.needs(&["proxy", "pass"])
.beyond();

const REQUEST_CHANGE: Kind = Kind::OneOf(&[
    Kind::String(Text::FieldTemplate),
    Kind::Null,
    Kind::Object(&ADDED),
]);

static ADDED: Object = Object {
    name: "added header",
    summary: "A field that is added, whatever fields of that name there are",
    options: &[&[opt("add", Kind::String(Text::FieldTemplate), "Its value")
        .beyond()
        .required()]],
    exactly_one: &[],
};

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
