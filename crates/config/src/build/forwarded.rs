//! `forwarded` of a listener, and the older `client_ip`, which says part of the same.

use super::routes::trusted;
use super::{Builder, Reader};
use crate::diagnostic::Diagnostic;
use crate::model::Forwarded;
use crate::table::{CLIENT_IP, FORWARDED};

impl<'d> Builder<'d> {
    pub(super) fn forwarded(&mut self, listener: &Reader<'d>) -> Option<Forwarded> {
        let newer = listener.inner("forwarded", &FORWARDED);
        let older = listener.inner("client_ip", &CLIENT_IP);
        if let (Some(_), Some(older), Some(member)) = (&newer, &older, listener.member("client_ip"))
        {
            let diagnostic = Diagnostic::new(
                older.pointer.clone(),
                "`client_ip` is the older form of `forwarded`, which is given too",
            )
            .suggest("write its `header` as `client_ip` of `forwarded`, and leave it out");
            self.faults.name(diagnostic, member);
        }
        if let (Some(newer), Some(member)) = (&newer, listener.member("forwarded"))
            && newer.get("client_ip").is_none()
            && newer.get("protocol").is_none()
        {
            let diagnostic = Diagnostic::new(
                newer.pointer.clone(),
                "neither `client_ip` nor `protocol` is given: nothing is taken from those who are believed",
            )
            .suggest("name the field they write, for example `\"client_ip\": \"X-Forwarded-For\"`");
            self.faults.name(diagnostic, member);
        }
        let (reader, field) = match newer {
            Some(reader) => (reader, "client_ip"),
            None => (older?, "header"),
        };
        let (source, _) = reader.get("source")?;
        Some(Forwarded {
            source: trusted(source),
            client_ip: reader.string(field),
            recursive: reader.boolean("recursive"),
            protocol: reader.string("protocol"),
        })
    }
}
