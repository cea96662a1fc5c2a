//! `tls` of a listener.

use super::kinds::STRINGS;
use tutti_options::table::{Kind, Names, Object, Text, opt};

/// `tls` of a listener.
pub static TLS: Object = Object {
    name: "tls",
    summary: "TLS of a listener",
    options: &[&[
        opt(
            "certificate",
            STRINGS,
            "Certificate bundles of `/certificates`; with several, the name the client asks for chooses: an exact name before \
             a wildcard, then the first that the client can use; no match: the first",
        )
        .required(),
        opt(
            "conf_commands",
            Kind::Map(Names::NotEmpty, &Kind::String(Text::Any)),
            "OpenSSL configuration commands: `MinProtocol`, `MaxProtocol`, `Protocol`, `CipherString`, `Ciphersuites`, `Groups` \
             (or `Curves`), `Options`, in any case of letters",
        ),
        opt(
            "session",
            Kind::Object(&TLS_SESSION),
            "Session cache and tickets",
        ),
        opt(
            "client_ca",
            STRINGS,
            "Certificate bundles of `/certificates`, or absolute paths of PEM files, whose certificates vouch for clients: a \
             client has to show one that they have signed. A file is read at each change of the configuration, as the router's \
             user",
        )
        .beyond(),
        opt(
            "client_verify",
            Kind::String(Text::Word(&["required", "optional"])),
            "Whether a client without a certificate is turned away; one that does not hold always is",
        )
        .default("\"required\"")
        .needs(&["client_ca"])
        .beyond(),
    ]],
    exactly_one: &[],
};

/// `tls.session` of a listener.
pub static TLS_SESSION: Object = Object {
    name: "tls session",
    summary: "Session cache and tickets of a listener",
    options: &[&[
        opt("cache_size", Kind::Integer(0, 1 << 31), "Sessions kept; 0: none")
            .default("0")
            .unit("sessions"),
        opt(
            "timeout",
            Kind::Integer(1, 1 << 31),
            "How long a session, kept or in a ticket, can be taken up again",
        )
        .default("300")
        .unit("seconds"),
        opt(
            "tickets",
            Kind::OneOf(&[
                Kind::Boolean,
                Kind::String(Text::NotEmpty),
                Kind::Array(&Kind::String(Text::NotEmpty)),
            ]),
            "Session tickets: off, on with random keys that are renewed, or with these keys: 48 or 80 random bytes in Base64; \
             all open tickets, the last one makes them",
        )
        .default("false"),
    ]],
    exactly_one: &[],
};
