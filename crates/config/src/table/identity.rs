//! Options that say who may: `authenticate` of an action.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

options! {
    /// Lets in only who can say who they are. Fields of the request that tell it to the application are the server's: what a client sends under
    /// such a name, or one that an application may take for it, is removed, in every action of the configuration
    pub struct AuthenticateOptions: AUTHENTICATE = "authenticate", exactly_one ["basic", "jwt", "forward"] {
        /// By name and password (RFC 7617)
        basic: Unread [kind(BasicOptions::KIND), beyond()],
        /// By a signed token (RFC 7519)
        jwt: Unread [kind(JwtOptions::KIND), beyond()],
        /// By asking somebody else about the request
        forward: Unread [kind(ForwardOptions::KIND), beyond()],
    }
}

options! {
    /// Names and passwords. At least one of `users` and `file`
    pub struct BasicOptions: BASIC = "basic" {
        /// The purpose of the password, as browsers show it
        realm: String [kind(ValueKind::String(Text::Argument)), beyond(), default("\"Restricted\"")],
        /// Hashes of passwords, by name: bcrypt, argon2 or SHA-crypt
        users: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::NotEmpty))), beyond()],
        /// The whole path of a file as `htpasswd -B` makes it: a name and a hash in each line. The server reads it as root, and again when it
        /// has changed
        file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Field that tells the application the name
        field: Option<String> [kind(ValueKind::String(Text::WrittenHeader)), beyond()],
    }
}

options! {
    /// Signed tokens. Their keys come from `key_file` or `jwks`
    pub struct JwtOptions: JWT = "jwt", exactly_one ["key_file", "jwks"] {
        /// Algorithms that a signature may have; a token with another is refused, whatever it says. Those of one family
        algorithms: Unread [kind(ValueKind::Array(&JwtAlgorithm::KIND)), beyond(), required()],
        /// The whole path of a file with the key: a public key in PEM, a set of keys in JSON (RFC 7517), or, for the algorithms `HS…`, a secret of at
        /// least 32 bytes. The server reads it as root, and again when it has changed
        key_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Where a set of keys is fetched
        jwks: Unread [kind(JwksOptions::KIND), beyond()],
        /// Who must have issued a token (`iss`)
        issuer: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// For whom a token must be (`aud`): one of these
        audience: Unread [kind(TEXTS), beyond()],
        /// Tokens must say when they end (`exp`)
        require_expiry: bool [beyond(), default("true")],
        /// How far clocks may differ, for `exp` and `nbf`
        leeway: Duration [kind(ValueKind::Number(0.0, 3600.0)), beyond(), default("60"), unit("seconds")],
        /// The cookie that the token is in, instead of the field `Authorization: Bearer`
        cookie: Option<String> [kind(ValueKind::String(Text::HeaderName)), beyond()],
        /// Fields that tell the application: the name of each, and the claim that is its value. Lists become texts with commas
        fields: Unread [kind(ValueKind::Map(Names::RequestHeader, &ValueKind::String(Text::NotEmpty))), beyond()],
        /// The claim that is the name of the user, for `$remote_user`
        user_claim: String [kind(ValueKind::String(Text::NotEmpty)), beyond(), default("\"sub\"")],
        /// The realm that the answer 401 tells
        realm: String [kind(ValueKind::String(Text::Argument)), beyond(), default("\"Restricted\"")],
    }
}

words! {
    /// Algorithms of signatures (RFC 7518 §3.1, RFC 8037).
    pub enum JwtAlgorithm {
        /// HMAC with SHA-256.
        Hs256 = "HS256",
        /// HMAC with SHA-384.
        Hs384 = "HS384",
        /// HMAC with SHA-512.
        Hs512 = "HS512",
        /// RSA, PKCS #1, with SHA-256.
        Rs256 = "RS256",
        /// RSA, PKCS #1, with SHA-384.
        Rs384 = "RS384",
        /// RSA, PKCS #1, with SHA-512.
        Rs512 = "RS512",
        /// RSA, PSS, with SHA-256.
        Ps256 = "PS256",
        /// RSA, PSS, with SHA-384.
        Ps384 = "PS384",
        /// RSA, PSS, with SHA-512.
        Ps512 = "PS512",
        /// ECDSA with P-256.
        Es256 = "ES256",
        /// ECDSA with P-384.
        Es384 = "ES384",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

options! {
    /// Where a set of keys is fetched (RFC 7517)
    pub struct JwksOptions: JWKS = "jwks" {
        /// Who is asked: an upstream, a route or an application
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond(), required()],
        /// Path and query
        uri: String [kind(ValueKind::String(Text::Target)), beyond(), default("\"/.well-known/jwks.json\"")],
        /// The `Host` of the request
        host: String [kind(ValueKind::String(Text::HostName)), beyond(), default("\"localhost\"")],
        /// Time after which the set is fetched again; with a key that is not in it, after ten seconds at the earliest
        refresh: Duration [kind(ValueKind::Number(10.0, 86_400.0)), beyond(), default("300"), unit("seconds")],
        /// Time for the whole answer
        timeout: Duration [kind(ValueKind::Number(0.001, 300.0)), beyond(), default("10"), unit("seconds")],
    }
}

options! {
    /// Asks somebody about each request, as nginx has it with `auth_request`: an answer of 2xx lets it in, one of 3xx, 401 or 403 goes to the client,
    /// with any other or none it gets 502. Asked is with GET, without the body
    pub struct ForwardOptions: FORWARD = "forward" {
        /// Who is asked: an upstream, a route or an application
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond(), required()],
        /// Path and query of the question; the client's own are in `X-Forwarded-Uri`
        uri: String [kind(ValueKind::String(Text::Target)), beyond(), default("\"/\"")],
        /// Fields of the client's request that are sent along; without it, all that do not belong to its connection or its body
        send: Option<Vec<String>> [kind(ValueKind::Array(&ValueKind::String(Text::HeaderName))), beyond()],
        /// Fields of an answer of 2xx that the application is told
        copy: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::WrittenHeader))), beyond(), default("[]")],
        /// Field of an answer of 2xx that has the name of the user, for `$remote_user`
        user_field: String [kind(ValueKind::String(Text::WrittenHeader)), beyond(), default("\"Remote-User\"")],
        /// Time for the whole answer
        timeout: Duration [kind(ValueKind::Number(0.001, 300.0)), beyond(), default("10"), unit("seconds")],
    }
}

const TEXTS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::NotEmpty),
    ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
]);
