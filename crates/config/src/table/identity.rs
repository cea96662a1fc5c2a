//! Options of authentication: `authenticate` of an action.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

options! {
    /// Admits only authenticated clients. The request fields that report the user to the application are set only by
    /// the server: if a client sends such a field, or one that an application may confuse with it, it is removed, in
    /// every action of the configuration
    pub struct AuthenticateOptions: AUTHENTICATE = "authenticate", exactly_one ["basic", "jwt", "forward", "signed_link"] {
        /// By name and password (RFC 7617)
        basic: Unread [kind(BasicOptions::KIND), beyond()],
        /// By a signed token (RFC 7519)
        jwt: Unread [kind(JwtOptions::KIND), beyond()],
        /// By a subrequest to an authentication service
        forward: Unread [kind(ForwardOptions::KIND), beyond()],
        /// By a link that the site has signed, like nginx's `secure_link`. It identifies no user
        signed_link: Unread [kind(SignedLinkOptions::KIND), beyond()],
    }
}

options! {
    /// Names and passwords. At least one of `users` and `file`
    pub struct BasicOptions: BASIC = "basic" {
        /// The realm, which browsers show when they ask for the password
        realm: String [kind(ValueKind::String(Text::Argument)), beyond(), default("\"Restricted\"")],
        /// Hashes of passwords, by name: bcrypt, argon2 or SHA-crypt; weak hashes of other servers (`$apr1$`, `$1$`,
        /// `{SHA}`, `{SSHA}`, traditional crypt) cause a warning
        users: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::NotEmpty))), beyond()],
        /// Absolute path of a file as `htpasswd -B` makes it: a name and a hash on each line. The server reads it as
        /// root, and again when it changes
        file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Request field in which the application gets the user's name
        field: Option<String> [kind(ValueKind::String(Text::WrittenHeader)), beyond()],
    }
}

options! {
    /// Signed tokens. Their keys come from `key_file` or `jwks`
    pub struct JwtOptions: JWT = "jwt", exactly_one ["key_file", "jwks"] {
        /// Signature algorithms to accept, all of one family; tokens with any other are rejected
        algorithms: Unread [kind(ValueKind::Array(&JwtAlgorithm::KIND)), beyond(), required()],
        /// Absolute path of a file with the key: a public key in PEM, a set of keys in JSON (RFC 7517), or, for the
        /// algorithms `HS…`, a secret of at least 32 bytes. The server reads it as root, and again when it changes
        key_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Where to fetch a set of keys
        jwks: Unread [kind(JwksOptions::KIND), beyond()],
        /// Required issuer of a token (`iss`)
        issuer: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Audience of a token (`aud`): it must contain one of these
        audience: Unread [kind(TEXTS), beyond()],
        /// Reject tokens without an expiry time (`exp`)
        require_expiry: bool [beyond(), default("true")],
        /// Tolerated difference between clocks, for `exp` and `nbf`
        leeway: Duration [kind(ValueKind::Number(0.0, 3600.0)), beyond(), default("60"), unit("seconds")],
        /// The cookie that contains the token, instead of the field `Authorization: Bearer`
        cookie: Option<String> [kind(ValueKind::String(Text::HeaderName)), beyond()],
        /// Request fields for the application: the name of each, and the claim that is its value. Lists are joined with
        /// commas
        fields: Unread [kind(ValueKind::Map(Names::RequestHeader, &ValueKind::String(Text::NotEmpty))), beyond()],
        /// The claim with the name of the user, for `$remote_user`
        user_claim: String [kind(ValueKind::String(Text::NotEmpty)), beyond(), default("\"sub\"")],
        /// The realm in the 401 response
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
    /// Where to fetch a set of keys (RFC 7517)
    pub struct JwksOptions: JWKS = "jwks" {
        /// The source of the keys: an upstream, a route or an application
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond(), required()],
        /// Path and query
        uri: String [kind(ValueKind::String(Text::Target)), beyond(), default("\"/.well-known/jwks.json\"")],
        /// The `Host` of the request
        host: String [kind(ValueKind::String(Text::HostName)), beyond(), default("\"localhost\"")],
        /// Time after which the set is fetched again; if a key is not in it, after ten seconds at the earliest
        refresh: Duration [kind(ValueKind::Number(10.0, 86_400.0)), beyond(), default("300"), unit("seconds")],
        /// Time until the response is complete
        timeout: Duration [kind(ValueKind::Number(0.001, 300.0)), beyond(), default("10"), unit("seconds")],
    }
}

options! {
    /// Asks a service about each request, like nginx's `auth_request`: a 2xx response admits the request, one with 3xx,
    /// 401 or 403 goes to the client, and anything else or no response becomes 502. If `error_pages` has an action for
    /// 401 or 403, the client gets that instead. The service gets the request without its body
    pub struct ForwardOptions: FORWARD = "forward" {
        /// The service to ask: an upstream, a route or an application
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond(), required()],
        /// Path and query of the subrequest, with variables; those of the client are in `X-Forwarded-Uri`
        uri: String [kind(ValueKind::String(Text::Template)), beyond(), default("\"/\"")],
        /// Method of the subrequest
        method: ForwardMethod [beyond(), default("\"GET\"")],
        /// Fields to set in the subrequest; `null` removes one
        headers: Unread [kind(ValueKind::Map(Names::RequestHeader, &FORWARD_HEADER)), beyond()],
        /// Fields of the client's request to send along; by default all except those that belong to its connection or
        /// body
        send: Option<Vec<String>> [kind(ValueKind::Array(&ValueKind::String(Text::HeaderName))), beyond()],
        /// Fields of a 2xx response to pass on to the application. An object renames them: its names are fields of
        /// the request, and its values fields of the response
        copy: Unread [kind(COPY), beyond()],
        /// Fields of a 2xx response to pass on to the client as well, such as `Set-Cookie`
        copy_to_client: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::WrittenHeader))), beyond(), default("[]")],
        /// Field of a 2xx response with the name of the user, for `$remote_user`
        user_field: String [kind(ValueKind::String(Text::WrittenHeader)), beyond(), default("\"Remote-User\"")],
        /// Time until the response is complete
        timeout: Duration [kind(ValueKind::Number(0.001, 300.0)), beyond(), default("10"), unit("seconds")],
    }
}

options! {
    /// Links that the site signs with a secret that it shares with the server. A link without a valid signature gets
    /// `status`, an expired one `expired_status`. Without `text`, the path is signed, followed by a space and the
    /// expiry time if there is one
    pub struct SignedLinkOptions: SIGNED_LINK = "signed link" {
        /// Algorithm of the signature: HMAC with SHA-256 (RFC 2104); or MD5 of the text, followed by the secret if
        /// there is one, as in nginx's `secure_link_md5`, only for existing links
        method: LinkMethod [beyond(), default("\"hmac-sha256\"")],
        /// The secret; for `hmac-sha256` at least 32 bytes
        secret: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Absolute path of a file with the secret; white space around it is ignored. The server reads it as root,
        /// and again when it changes
        secret_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// The signature in a link, as text with variables. It is in base64url or hexadecimal
        signature: Unread [kind(ValueKind::String(Text::Template)), beyond(), default("\"$arg_signature\"")],
        /// The time at which a link expires, in seconds since 1970, as text with variables. Empty: links do not
        /// expire
        expires: Unread [kind(ValueKind::String(Text::TemplateOrEmpty)), beyond(), default("\"$arg_expires\"")],
        /// The text that is signed, with variables. It must contain `expires`
        text: Unread [kind(ValueKind::String(Text::Template)), beyond()],
        /// Status of the response to a link without a valid signature
        status: u16 [kind(ValueKind::Integer(400, 499)), beyond(), default("403")],
        /// Status of the response to an expired link
        expired_status: u16 [kind(ValueKind::Integer(400, 499)), beyond(), default("410")],
    }
}

words! {
    /// The way in which links are signed.
    pub enum LinkMethod {
        /// HMAC with SHA-256.
        HmacSha256 = "hmac-sha256",
        /// MD5 of the text and the secret, as nginx has it.
        Md5 = "md5",
    }
}

words! {
    /// The method of a subrequest.
    pub enum ForwardMethod {
        /// GET.
        Get = "GET",
        /// HEAD.
        Head = "HEAD",
        /// POST, without a body.
        Post = "POST",
        /// OPTIONS.
        Options = "OPTIONS",
    }
}

const FORWARD_HEADER: ValueKind =
    ValueKind::OneOf(&[ValueKind::String(Text::FieldTemplate), ValueKind::Null]);
const COPY: ValueKind = ValueKind::OneOf(&[
    ValueKind::Array(&ValueKind::String(Text::WrittenHeader)),
    ValueKind::Map(Names::RequestHeader, &ValueKind::String(Text::HeaderName)),
]);
const TEXTS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::NotEmpty),
    ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
]);
