//! The access rules of the control API, as main sends them to the controller. The control API enforces them.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// Shorter tokens could be guessed: 32 characters are at least 128 bits, even if they are hexadecimal digits.
const SHORTEST_TOKEN: usize = 32;

/// The access rules of the API, in addition to the mode of the socket's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControlAccess {
    /// Users that may connect to an abstract socket, by number; root always may.
    pub users: Vec<u32>,
    /// Groups whose members may connect, by number.
    pub groups: Vec<u32>,
    /// The secret that each request must contain, on sockets of every kind; without one, TCP is not served.
    pub token: Option<Token>,
}

/// A secret; never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token(String);

impl Token {
    /// Reads the content of a token file: one line of at least 32 visible ASCII characters.
    ///
    /// # Errors
    /// Why it is not a token, without a period.
    pub fn read(text: &str) -> Result<Token, String> {
        let token = text.trim();
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "a token is one line of visible ASCII characters without spaces".to_owned(),
            );
        }
        if token.len() < SHORTEST_TOKEN {
            return Err(format!(
                "a token has at least {SHORTEST_TOKEN} characters, this one has {}; `openssl rand -hex 32` makes one",
                token.len()
            ));
        }
        Ok(Token(token.to_owned()))
    }

    /// The value of `Authorization` with this token.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// True if this is the token.
    pub fn is(&self, shown: &[u8]) -> bool {
        bool::from(shown.ct_eq(self.0.as_bytes()))
    }

    /// True if this value of `Authorization` contains the token.
    pub fn is_shown_by(&self, field: &[u8]) -> bool {
        let Some((scheme, shown)) = field.split_at_checked(b"Bearer ".len()) else {
            return false;
        };
        // Compared in constant time, so that the duration reveals nothing about a guess.
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && bool::from(shown.trim_ascii().ct_eq(self.0.as_bytes()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right_and_it_is_never_printed() {
        let secret = "0123456789abcdef0123456789abcdef";
        let token = Token::read(&format!("{secret}\n")).unwrap();
        assert!(token.is_shown_by(format!("Bearer {secret}").as_bytes()));
        assert!(token.is_shown_by(format!("bearer  {secret} ").as_bytes()));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic 0123456789abcdef0123456789abcdef",
            "Bearer 0123456789abcdef0123456789abcdeX",
        ] {
            assert!(!token.is_shown_by(wrong.as_bytes()), "{wrong}");
        }
        assert!(!token.is_shown_by(format!("Bearer {secret}0").as_bytes()));
        assert!(!format!("{token:?}").contains("0123"));
        assert!(Token::read("short").unwrap_err().contains("at least 32"));
        assert!(Token::read(&"a b".repeat(20)).is_err());
    }
}
