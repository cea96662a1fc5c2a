//! `forwarded` of a listener, and the older `client_ip`, which is a subset.

use tutti_document::Diagnostic;

use super::builder::Builder;
use super::reader::Reader;
use crate::model::Forwarded;
use crate::table::{ClientIp, ForwardedOptions, ListenerOptions};

impl<'d> Builder<'d> {
    pub(super) fn forwarded(&mut self, listener: &Reader<'d>) -> Option<Forwarded> {
        let newer = listener.inner(&ListenerOptions::forwarded);
        let older = listener.inner(&ListenerOptions::client_ip);
        if let (Some(_), Some(older), Some(member)) =
            (&newer, &older, listener.member(&ListenerOptions::client_ip))
        {
            let diagnostic = Diagnostic::new(
                older.pointer.clone(),
                "`client_ip` is the older form of `forwarded`, which is also set",
            )
            .suggest("write its `header` as `client_ip` of `forwarded`, and leave it out");
            self.faults.name(diagnostic, member);
        }
        if let (Some(newer), Some(member)) = (&newer, listener.member(&ListenerOptions::forwarded))
            && !newer.has(&ForwardedOptions::client_ip)
            && !newer.has(&ForwardedOptions::protocol)
        {
            let diagnostic = Diagnostic::new(
                newer.pointer.clone(),
                "neither `client_ip` nor `protocol` is set: no field of the trusted proxies is used",
            )
            .suggest("name the field that they set, for example `\"client_ip\": \"X-Forwarded-For\"`");
            self.faults.name(diagnostic, member);
        }
        if let Some(newer) = newer {
            return Some(Forwarded {
                source: newer.addresses(&ForwardedOptions::source)?,
                options: newer.read(),
            });
        }
        let older = older?;
        let options: ClientIp = older.read();
        Some(Forwarded {
            source: older.addresses(&ClientIp::source)?,
            options: ForwardedOptions {
                client_ip: Some(options.header).filter(|field| !field.is_empty()),
                recursive: options.recursive,
                ..ForwardedOptions::default()
            },
        })
    }
}
