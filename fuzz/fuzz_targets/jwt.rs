//! Tokens whose signature is right, whatever they say: what is believed has exactly one reading, and no client can change it.
//!
//! `identity` feeds tokens without a valid signature; few of them get past the signature. Here the first line of the input is a header, the rest
//! are claims, and both are signed with the secret.
#![no_main]

use std::sync::LazyLock;
use std::time::SystemTime;

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};
use tutti_config::model::{GuardFile, Jwt, JwtAlgorithm, KeySource, Pointer};
use tutti_config::table::JwtOptions;
use tutti_guard::token::{VerificationKeys, Verifier, claim};

const SECRET: &[u8] = b"a secret of the test alone, which is long enough";

/// The facts that verifier and oracle both receive.
const AUDIENCE: &str = "site";
const LEEWAY_SECONDS: f64 = 120.0;

static VERIFIER: LazyLock<(VerificationKeys, Verifier)> = LazyLock::new(|| {
    let wanted = Jwt {
        algorithms: vec![JwtAlgorithm::Hs256],
        keys: KeySource::File(GuardFile {
            pointer: Pointer::root().into(),
            path: "/k".into(),
        }),
        audience: vec![AUDIENCE.into()],
        fields: Vec::new(),
        options: JwtOptions::default(),
    };
    let keys = VerificationKeys::read(SECRET, &wanted).expect("a secret");
    (keys, Verifier::new(&wanted))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (keys, verifier) = &*VERIFIER;
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (header, claims) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let token = signed(header, claims);
    let Ok(believed) = verifier.verify(token.as_bytes(), keys) else {
        return;
    };
    check_header(header);
    check_claims(claims, &believed);
    for changed in changes(&token) {
        assert!(verifier.verify(changed.as_bytes(), keys).is_err(), "{changed} passes for {token}");
    }
});

/// A token of these parts with the right signature.
fn signed(header: &[u8], claims: &[u8]) -> String {
    let text = format!("{}.{}", BASE64URL_NOPAD.encode(header), BASE64URL_NOPAD.encode(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let signature = hmac::sign(&key, text.as_bytes());
    format!("{text}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
}

/// The header of a token that is believed names the one algorithm and asks for no extension.
fn check_header(header: &[u8]) {
    let header: Map<String, Value> = serde_json::from_slice(header).expect("an object");
    assert_eq!(header.get("alg").and_then(Value::as_str), Some("HS256"));
    assert!(!header.contains_key("crit") && !header.contains_key("b64"));
}

/// The claims that are believed are those that were signed, are for this audience, and hold now.
fn check_claims(claims: &[u8], believed: &Map<String, Value>) {
    let said: Map<String, Value> = serde_json::from_slice(claims).expect("an object");
    assert_eq!(&said, believed);
    let audience = said.get("aud").expect("an audience");
    let names = audience.as_array().cloned().unwrap_or_else(|| vec![audience.clone()]);
    assert!(names.iter().any(|name| name == AUDIENCE), "{names:?}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs_f64();
    let number = |name: &str| said.get(name).and_then(Value::as_f64);
    assert!(number("exp").expect("an end") > now - LEEWAY_SECONDS);
    assert!(said.get("nbf").is_none_or(|_| number("nbf").expect("a number") < now + LEEWAY_SECONDS));
    for (name, value) in &said {
        let text = claim(believed, name);
        assert_eq!(text.is_none() && value.is_string(), has_control(value));
        assert!(text.is_none_or(|text| !text.iter().any(u8::is_ascii_control)));
    }
}

fn has_control(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.bytes().any(|byte| byte.is_ascii_control())
}

/// The token with one character less or another one, in each of its parts.
fn changes(token: &str) -> Vec<String> {
    let ends: Vec<usize> = token.match_indices('.').map(|(at, _)| at).chain([token.len()]).collect();
    let change = |end: usize| {
        let mut other = token.as_bytes().to_vec();
        // The bits that are left over in the last character say nothing, so it is another.
        let at = end.saturating_sub(2);
        other[at] = if other[at] == b'A' { b'B' } else { b'A' };
        let shorter = [&token[..end - 1], &token[end..]].concat();
        [String::from_utf8(other).unwrap_or_default(), shorter]
    };
    ends.into_iter().flat_map(change).collect()
}
