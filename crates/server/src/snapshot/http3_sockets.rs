//! HTTP/3 of a listener in one configuration: its sockets are kept from the former one.

use std::io;
use std::sync::Arc;

use tutti_config::model::Http3;
use tutti_conn::listener::SharedListener;
use tutti_quic::{Datagrams, Ports, Spoken};
use tutti_tls::Offer;

/// HTTP/3 of a listener: on the existing sockets, `kept`, or on new ones.
///
/// # Errors
/// The sockets cannot be opened, or the listener does not offer TLS 1.3.
pub(crate) fn spoken(
    options: Http3,
    kept: Option<&Spoken>,
    offer: Option<&Offer>,
    listener: &SharedListener,
    bind: impl FnOnce() -> io::Result<Datagrams>,
) -> io::Result<Spoken> {
    let ports = match kept {
        Some(spoken) => Arc::clone(&spoken.ports),
        None => {
            let offer = offer.ok_or(io::ErrorKind::Unsupported)?;
            let ports = Ports::new(bind()?, offer);
            Arc::new(ports.ok_or_else(|| io::Error::other("TLS 1.3 is not allowed"))?)
        }
    };
    let address = listener.bound_address();
    Ok(Spoken::new(
        options,
        ports,
        address.map_or(0, |address| address.port()),
    ))
}
