//! Links that a site signs, so that their holders are served without a password.
//!
//! Must never: compare a signature in a time that depends on it, or take a link that has expired.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use md5::{Digest as _, Md5};
use tutti_config::model::{LEAST_LINK_SECRET, LinkMethod, SignedLink};

/// The link of a request, rendered.
#[derive(Clone, Copy, Debug)]
pub struct LinkClaim<'r> {
    /// In base64url or hexadecimal.
    pub signature: &'r [u8],
    /// Seconds since 1970, in decimal; `None`: the link does not expire.
    pub expires: Option<&'r [u8]>,
    /// The signed text.
    pub text: &'r [u8],
}

/// Why a link is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// The signature or the expiry time is missing, malformed or wrong.
    Unsigned,
    /// The signature is right, but the time has passed.
    Expired,
}

/// Reads a secret from a file.
///
/// # Errors
/// It is too short.
pub fn read_secret(content: &[u8], link: &SignedLink) -> Result<Vec<u8>, String> {
    let secret = content.trim_ascii();
    let least = match link.options.method {
        LinkMethod::HmacSha256 => LEAST_LINK_SECRET,
        LinkMethod::Md5 => 1,
    };
    match secret.len() >= least {
        true => Ok(secret.to_vec()),
        false => Err(format!(
            "a secret of less than {least} bytes can be guessed; create one with `openssl rand -hex 32`"
        )),
    }
}

/// Checks a link; `now` in seconds since 1970.
///
/// # Errors
/// It is not accepted.
pub fn check(
    method: LinkMethod,
    secret: &[u8],
    claim: LinkClaim<'_>,
    now: u64,
) -> Result<(), LinkFault> {
    let signature = decoded(claim.signature).ok_or(LinkFault::Unsigned)?;
    let is_signed = match method {
        LinkMethod::HmacSha256 => {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            hmac::verify(&key, claim.text, &signature).is_ok()
        }
        LinkMethod::Md5 => {
            let digest = Md5::new()
                .chain_update(claim.text)
                .chain_update(secret)
                .finalize();
            verify_slices_are_equal(digest.as_ref(), &signature).is_ok()
        }
    };
    if !is_signed {
        return Err(LinkFault::Unsigned);
    }
    match claim.expires.map(seconds) {
        None => Ok(()),
        Some(None) => Err(LinkFault::Unsigned),
        Some(Some(expires)) if expires < now => Err(LinkFault::Expired),
        Some(Some(_)) => Ok(()),
    }
}

/// A signature as it is in a link. One that is too long for any digest is not decoded.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    match text.len() {
        32 | 64 => HEXLOWER_PERMISSIVE.decode(text).ok(),
        ..=44 => {
            let digits = text.iter().take_while(|digit| **digit != b'=');
            let digits: Vec<u8> = digits.copied().collect();
            BASE64URL_NOPAD.decode(&digits).ok()
        }
        _ => None,
    }
}

fn seconds(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim<'r>(signature: &'r str, expires: &'r str, text: &'r str) -> LinkClaim<'r> {
        LinkClaim {
            signature: signature.as_bytes(),
            expires: Some(expires.as_bytes()),
            text: text.as_bytes(),
        }
    }

    /// The example of nginx's documentation: `echo -n '2147483647/s/link127.0.0.1 secret' | openssl md5 -binary | openssl base64`.
    #[test]
    fn a_link_of_nginx_is_accepted_until_it_expires() {
        let signature = "_e4Nc3iduzkWRm01TBBNYw";
        let text = "2147483647/s/link127.0.0.1 secret";
        let ask = |signature, expires, text, now| {
            check(LinkMethod::Md5, b"", claim(signature, expires, text), now)
        };
        assert_eq!(ask(signature, "2147483647", text, 1), Ok(()));
        assert_eq!(
            ask("_e4Nc3iduzkWRm01TBBNYw==", "2147483647", text, 1),
            Ok(())
        );
        assert_eq!(ask(signature, "2147483647", text, 2_147_483_647), Ok(()));
        let late = ask(signature, "2147483647", text, 2_147_483_648);
        assert_eq!(late, Err(LinkFault::Expired));
        for (signature, expires, text) in [
            ("_e4Nc3iduzkWRm01TBBNYx", "2147483647", text),
            ("", "2147483647", text),
            ("_e4N", "2147483647", text),
            (signature, "2147483647", "2147483647/s/link127.0.0.2 secret"),
            (signature, "", text),
            (signature, "-1", text),
            (signature, "+2147483647", text),
            (signature, "99999999999999999999999", text),
        ] {
            let outcome = ask(signature, expires, text, 1);
            assert_eq!(outcome, Err(LinkFault::Unsigned), "{signature} {expires}");
        }
        // The secret apart, and in hexadecimal.
        let hex = "fdee0d73789dbb3916466d354c104d63";
        let apart = claim(hex, "2147483647", "2147483647/s/link127.0.0.1");
        assert_eq!(check(LinkMethod::Md5, b" secret", apart, 1), Ok(()));
    }

    #[test]
    fn an_hmac_is_accepted_in_both_forms() {
        // `echo -n '/a 9' | openssl dgst -sha256 -hmac SECRET`
        let secret = b"0123456789abcdef0123456789abcdef";
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let tag = hmac::sign(&key, b"/a 9");
        let (hex, base64) = (
            HEXLOWER_PERMISSIVE.encode(tag.as_ref()),
            BASE64URL_NOPAD.encode(tag.as_ref()),
        );
        let ask = |signature: &str, text: &str| {
            check(
                LinkMethod::HmacSha256,
                secret,
                claim(signature, "9", text),
                9,
            )
        };
        for signature in [&hex, &hex.to_uppercase(), &base64, &format!("{base64}=")] {
            assert_eq!(ask(signature, "/a 9"), Ok(()), "{signature}");
            assert_eq!(ask(signature, "/b 9"), Err(LinkFault::Unsigned));
        }
        assert_eq!(ask(&hex[..62], "/a 9"), Err(LinkFault::Unsigned));
        let forever = LinkClaim {
            expires: None,
            ..claim(&hex, "", "/a 9")
        };
        assert_eq!(
            check(LinkMethod::HmacSha256, secret, forever, u64::MAX),
            Ok(())
        );
    }
}
