//! Signed tokens (RFC 7519): keys, verification and claims.
//!
//! The configuration determines the permitted algorithms; the token's own statement is only compared. Keys and algorithms of different
//! families are never combined.
//!
//! Must never: trust any part of a token before its signature has been verified, except the id of the key to try.

use std::collections::HashSet;

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};
use tutti_config::model::{Jwt, JwtAlgorithm};

/// The longest token. The heads of requests are not much longer.
const MOST_BYTES: usize = 16 * 1024;

/// Most keys of one set.
const MOST_KEYS: usize = 100;

/// Shortest secret (RFC 7518 §3.2).
const LEAST_SECRET: usize = 32;

/// Keys that signatures are verified with.
#[derive(Debug, Default)]
pub struct VerificationKeys {
    list: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, if specified.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is signed with an unknown key: a newer set may have it.
    UnknownKey,
    /// It is invalid: the reason, for the log.
    Invalid(String),
}

/// The claims of a token with a valid signature.
pub type Claims = Map<String, Value>;

/// Verifies tokens according to one action's options.
#[derive(Debug)]
pub struct Verifier {
    validation: Validation,
}

fn algorithm(word: JwtAlgorithm) -> Algorithm {
    match word {
        JwtAlgorithm::Hs256 => Algorithm::HS256,
        JwtAlgorithm::Hs384 => Algorithm::HS384,
        JwtAlgorithm::Hs512 => Algorithm::HS512,
        JwtAlgorithm::Rs256 => Algorithm::RS256,
        JwtAlgorithm::Rs384 => Algorithm::RS384,
        JwtAlgorithm::Rs512 => Algorithm::RS512,
        JwtAlgorithm::Ps256 => Algorithm::PS256,
        JwtAlgorithm::Ps384 => Algorithm::PS384,
        JwtAlgorithm::Ps512 => Algorithm::PS512,
        JwtAlgorithm::Es256 => Algorithm::ES256,
        JwtAlgorithm::Es384 => Algorithm::ES384,
        JwtAlgorithm::EdDsa => Algorithm::EdDSA,
    }
}

impl VerificationKeys {
    /// Reads a file: a set of keys in JSON, a public key in PEM, or a secret.
    ///
    /// # Errors
    /// Why it has none for these algorithms.
    pub fn read(bytes: &[u8], wanted: &Jwt) -> Result<Self, String> {
        let text = bytes.trim_ascii();
        if text.starts_with(b"{") {
            return Self::read_set(text, wanted);
        }
        let Some(first) = wanted.algorithms.first() else {
            return Err("no algorithm is allowed".to_owned());
        };
        let key = match first.word() {
            word if word.starts_with("HS") => {
                if text.len() < LEAST_SECRET {
                    return Err(format!(
                        "a secret of less than {LEAST_SECRET} bytes can be guessed"
                    ));
                }
                // A public key as an HMAC secret would let everybody sign.
                if text.starts_with(b"-----BEGIN") {
                    return Err("is a key in PEM, not a secret".to_owned());
                }
                Ok(DecodingKey::from_secret(text))
            }
            word if word.starts_with("ES") => DecodingKey::from_ec_pem(text),
            "EdDSA" => DecodingKey::from_ed_pem(text),
            _ => DecodingKey::from_rsa_pem(text),
        };
        let key =
            key.map_err(|error| format!("has no public key in PEM for {}: {error}", first.word()))?;
        Ok(Self {
            list: vec![Key {
                id: None,
                algorithm: None,
                key,
            }],
        })
    }

    /// Reads a set of keys (RFC 7517 §5). Keys for other purposes are ignored.
    ///
    /// # Errors
    /// It is malformed, or has no key for these algorithms.
    pub fn read_set(bytes: &[u8], wanted: &Jwt) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_slice(bytes)
            .map_err(|error| format!("is not a set of keys: {error}"))?;
        let mut list = Vec::new();
        for jwk in set.keys.iter().take(MOST_KEYS) {
            let named = jwk.common.key_algorithm;
            let algorithm = named.and_then(algorithm_of);
            let is_for_us = matches!(
                jwk.common.public_key_use,
                None | Some(PublicKeyUse::Signature)
            ) && (named.is_none() || algorithm.is_some());
            let is_of_family = wanted
                .algorithms
                .iter()
                .any(|word| is_of_family(&jwk.algorithm, *word));
            if !is_for_us || !is_of_family {
                continue;
            }
            let Ok(key) = DecodingKey::from_jwk(jwk) else {
                continue;
            };
            list.push(Key {
                id: jwk.common.key_id.clone(),
                algorithm,
                key,
            });
        }
        match list.is_empty() {
            true => Err("has no key for the algorithms that are allowed".to_owned()),
            false => Ok(Self { list }),
        }
    }
}

fn is_of_family(parameters: &AlgorithmParameters, word: JwtAlgorithm) -> bool {
    let word = word.word();
    match parameters {
        AlgorithmParameters::RSA(_) => word.starts_with("RS") || word.starts_with("PS"),
        AlgorithmParameters::EllipticCurve(_) => word.starts_with("ES"),
        AlgorithmParameters::OctetKeyPair(_) => word == "EdDSA",
        AlgorithmParameters::OctetKey(key) => {
            let secret = BASE64URL_NOPAD.decode(key.value.as_bytes());
            word.starts_with("HS") && secret.is_ok_and(|secret| secret.len() >= LEAST_SECRET)
        }
        _ => false,
    }
}

fn algorithm_of(named: KeyAlgorithm) -> Option<Algorithm> {
    named.to_string().parse().ok()
}

impl Verifier {
    /// As configured.
    pub fn new(wanted: &Jwt) -> Self {
        let options = &wanted.options;
        // The constructor requires an algorithm, which is then replaced by the permitted ones.
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.algorithms = wanted
            .algorithms
            .iter()
            .map(|word| algorithm(*word))
            .collect();
        validation.leeway = options.leeway.as_secs();
        validation.validate_nbf = true;
        let mut required = HashSet::new();
        if options.require_expiry {
            required.insert("exp".to_owned());
        }
        if let Some(issuer) = &options.issuer {
            validation.set_issuer(&[issuer]);
            required.insert("iss".to_owned());
        }
        match wanted.audience.as_slice() {
            [] => validation.validate_aud = false,
            audience => {
                validation.set_audience(audience);
                required.insert("aud".to_owned());
            }
        }
        validation.required_spec_claims = required;
        Self { validation }
    }

    /// Returns the claims of a valid token.
    ///
    /// # Errors
    /// It is invalid, or cannot be verified with these keys.
    pub fn verify(&self, token: &[u8], keys: &VerificationKeys) -> Result<Claims, TokenError> {
        let invalid = |why: &str| Err(TokenError::Invalid(why.to_owned()));
        if token.len() > MOST_BYTES {
            return invalid("the token is too long");
        }
        let Some(header) = header(token) else {
            return invalid("the token is malformed");
        };
        // It has a critical extension that is not supported (RFC 7515 §4.1.11).
        if header.contains_key("crit") || header.contains_key("b64") {
            return invalid("the token requires an extension");
        }
        let named = header.get("alg").and_then(Value::as_str);
        let named = named.and_then(|named| named.parse::<Algorithm>().ok());
        let Some(named) = named.filter(|named| self.validation.algorithms.contains(named)) else {
            return invalid("the token is signed with an algorithm that is not allowed");
        };
        let id = header.get("kid").and_then(Value::as_str);
        let mut last = None;
        for key in &keys.list {
            if !key.may_be(id, named) {
                continue;
            }
            match jsonwebtoken::decode::<Claims>(token, &key.key, &self.validation) {
                Ok(data) => return Ok(data.claims),
                Err(error) => last = Some(error.to_string()),
            }
        }
        match last {
            Some(why) => Err(TokenError::Invalid(why)),
            None => Err(TokenError::UnknownKey),
        }
    }
}

impl Key {
    /// True if it may be the key that the token names.
    fn may_be(&self, id: Option<&str>, named: Algorithm) -> bool {
        let is_named = match (&self.id, id) {
            (Some(own), Some(id)) => own == id,
            _ => true,
        };
        is_named && self.algorithm.is_none_or(|own| own == named)
    }
}

/// The first part of a token.
fn header(token: &[u8]) -> Option<Map<String, Value>> {
    let encoded = token.split(|byte| *byte == b'.').next()?;
    let decoded = BASE64URL_NOPAD.decode(encoded).ok()?;
    serde_json::from_slice(&decoded).ok()
}

/// A claim as the value of a field; `None`: it does not exist, or is unsuitable: a value with control characters, or a list with an element
/// that is ambiguous in a comma-separated list.
pub fn claim(claims: &Claims, name: &str) -> Option<Vec<u8>> {
    let text = text(claims.get(name)?)?;
    let is_line = !text.bytes().any(|byte| byte.is_ascii_control());
    is_line.then(|| text.into_bytes())
}

/// Why an existing claim is unsuitable as the value of a field.
pub fn unfit(claims: &Claims, name: &str) -> Option<String> {
    claims.get(name).filter(|value| !value.is_null())?;
    Some(format!(
        "the claim `{name}` has a control character, or a list element with a comma, a quote, a backslash or outer spaces"
    ))
}

/// True if an element survives a comma-separated list unchanged. `["a,admin"]` must not become `a` and `admin`.
fn is_member(word: &str) -> bool {
    !word.is_empty() && word.trim() == word && !word.contains([',', '"', '\\'])
}

fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Array(elements) => {
            let word = |element| text(element).filter(|word| is_member(word));
            let words: Option<Vec<String>> = elements.iter().map(word).collect();
            words?.join(",")
        }
        Value::Object(_) => value.to_string(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;
    use tutti_config::model::{GuardFile, KeySource, Pointer};
    use tutti_config::table::JwtOptions;

    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn wanted(algorithms: &[JwtAlgorithm]) -> Jwt {
        Jwt {
            algorithms: algorithms.to_vec(),
            keys: KeySource::File(GuardFile {
                pointer: Pointer::root().into(),
                path: "/k".into(),
            }),
            audience: Vec::new(),
            fields: Vec::new(),
            options: JwtOptions::default(),
        }
    }

    fn token(head: &Header) -> String {
        let claims = json!({"sub": "anna", "exp": 4_000_000_000_u64, "roles": ["a", "b"], "n": 7});
        encode(head, &claims, &EncodingKey::from_secret(SECRET)).unwrap()
    }

    #[test]
    fn a_key_is_for_the_algorithms_of_its_family() {
        let wanted_hs = wanted(&[JwtAlgorithm::Hs256]);
        let keys = VerificationKeys::read(SECRET, &wanted_hs).unwrap();
        let verifier = Verifier::new(&wanted_hs);
        let right = token(&Header::new(Algorithm::HS256));
        let claims = verifier.verify(right.as_bytes(), &keys).unwrap();
        assert_eq!(claim(&claims, "sub"), Some(b"anna".to_vec()));
        assert_eq!(claim(&claims, "roles"), Some(b"a,b".to_vec()));
        assert_eq!(claim(&claims, "n"), Some(b"7".to_vec()));
        assert_eq!(claim(&claims, "other"), None);
        let other = token(&Header::new(Algorithm::HS512));
        let refused = verifier.verify(other.as_bytes(), &keys).unwrap_err();
        assert!(matches!(refused, TokenError::Invalid(why) if why.contains("not allowed")));
        // Short secrets, and keys in PEM where a secret is expected.
        assert!(VerificationKeys::read(b"short", &wanted_hs).is_err());
        let pem = b"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----";
        assert!(VerificationKeys::read(pem, &wanted_hs).is_err());
        assert!(VerificationKeys::read(SECRET, &wanted(&[JwtAlgorithm::Rs256])).is_err());
    }

    #[test]
    fn a_set_has_keys_by_their_names() {
        let wanted = wanted(&[JwtAlgorithm::Hs256]);
        let key = |id: &str, secret: &[u8], more: Value| {
            let mut key = json!({"kty": "oct", "kid": id, "k": BASE64URL_NOPAD.encode(secret)});
            key.as_object_mut()
                .unwrap()
                .extend(more.as_object().cloned().unwrap_or_default());
            key
        };
        let other = b"another secret, as long as it must be";
        let set = json!({"keys": [
            key("other", other, json!({})),
            key("right", SECRET, json!({"alg": "HS256", "use": "sig"})),
            key("right", SECRET, json!({"use": "enc"})),
            {"kty": "RSA", "kid": "right", "n": "AQAB", "e": "AQAB"}
        ]});
        let keys = VerificationKeys::read(set.to_string().as_bytes(), &wanted).unwrap();
        assert_eq!(keys.list.len(), 2);
        let verifier = Verifier::new(&wanted);
        let mut head = Header::new(Algorithm::HS256);
        let mut verify = |id: Option<&str>| {
            head.kid = id.map(str::to_owned);
            verifier.verify(token(&head).as_bytes(), &keys).map(drop)
        };
        assert_eq!(verify(Some("right")), Ok(()));
        assert_eq!(verify(None), Ok(()), "every key is tried");
        assert!(matches!(verify(Some("other")), Err(TokenError::Invalid(_))));
        assert_eq!(verify(Some("new")), Err(TokenError::UnknownKey));
        for nothing in [
            json!({"keys": []}),
            json!({"keys": [key("short", b"short", json!({}))]}),
            json!({}),
        ] {
            assert!(
                VerificationKeys::read(nothing.to_string().as_bytes(), &wanted).is_err(),
                "{nothing}"
            );
        }
    }

    #[test]
    fn a_claim_with_a_line_break_is_ignored() {
        let claims = json!({"a": "x\r\nY: z", "b": {"c": 1}, "d": ["x", "\u{0}"], "e": null});
        let claims = claims.as_object().unwrap();
        assert_eq!(claim(claims, "a"), None);
        assert_eq!(claim(claims, "b"), Some(b"{\"c\":1}".to_vec()));
        assert_eq!(claim(claims, "d"), None);
        assert_eq!(claim(claims, "e"), None);
    }

    #[test]
    fn a_list_is_sent_only_if_its_reader_gets_the_same_elements() {
        let sent = |roles: Value| {
            let claims = json!({"roles": roles});
            claim(claims.as_object().unwrap(), "roles")
        };
        assert_eq!(sent(json!(["a", "b c", 7])), Some(b"a,b c,7".to_vec()));
        assert_eq!(sent(json!([])), Some(Vec::new()));
        for roles in [
            json!(["a,admin"]),
            json!(["a", " admin"]),
            json!(["a", "\"admin"]),
            json!(["a\\", "b"]),
            json!(["a", ""]),
            json!([["a", "admin"]]),
            json!([{"a": 1, "b": 2}]),
        ] {
            assert_eq!(sent(roles.clone()), None, "{roles}");
        }
    }
}
