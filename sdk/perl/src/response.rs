//! The answer's head, as far as the router's rules go beyond perl's.

use tutti_seam::Field;
use tutti_worker::{Exchange, HeadError};

use crate::log::{self, Level};

/// Sends status and fields. A field that is none is left out and told of: the page itself may be good.
pub(crate) fn start(exchange: &Exchange, status: u16, fields: &[Field]) {
    let pairs = fields.iter().map(|field| (field.name(), field.value()));
    let Err(error) = exchange.start(status, pairs) else {
        return;
    };
    let text = format!("response head cannot be sent as it is: {error}");
    log::write(Level::Error, text.as_bytes());
    if let HeadError::Field(_) = error {
        let sound = fields.iter().filter(|field| is_sound(field));
        let pairs = sound.map(|field| (field.name(), field.value()));
        if exchange.start(status, pairs).is_ok() {
            return;
        }
    }
    // A bare status can always be sent; if not, the exchange has ended and the router has answered.
    let _ = exchange.start(500, std::iter::empty());
}

/// The name is a token (RFC 9110 section 5.6.2), the value has no line break.
fn is_sound(field: &Field) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !field.name().is_empty()
        && field.name().iter().all(is_token)
        && !field
            .value()
            .iter()
            .any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
