//! The answer's head, as far as the router's rules go beyond perl's.

use tutti_seam::Field;
use tutti_worker::Level;
use tutti_worker::log::line;
use tutti_worker::{Exchange, ResponseHeadError};

/// Sends status and fields. An invalid field is left out and logged: the page itself may be good.
pub(crate) fn start(exchange: &Exchange, status: u16, fields: &[Field]) {
    let pairs = fields.iter().map(|field| (field.name(), field.value()));
    let Err(error) = exchange.start(status, pairs) else {
        return;
    };
    let text = format!("response head cannot be sent as it is: {error}");
    line(Level::Error, "", text.as_bytes());
    if let ResponseHeadError::Field(_) = error {
        let sound = fields.iter().filter(|field| field.is_sound());
        let pairs = sound.map(|field| (field.name(), field.value()));
        if exchange.start(status, pairs).is_ok() {
            return;
        }
    }
    // A bare status can always be sent; if not, the exchange has ended and the router has answered.
    let _ = exchange.start(500, std::iter::empty());
}
