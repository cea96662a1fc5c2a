//! The fields of a request of HTTP/2 or HTTP/3, decoded: pseudo-fields apart from the others (RFC 9113 §8.3, RFC 9114 §4.3).

use crate::head::{BufferSpan, RawField};
use crate::http2::request::{RequestField, append};
use crate::known_fields::Known;
use crate::trailers::Trailers;

/// Pseudo-fields of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pseudo {
    method: Option<BufferSpan>,
    scheme: Option<BufferSpan>,
    authority: Option<BufferSpan>,
    path: Option<BufferSpan>,
    protocol: Option<BufferSpan>,
}

/// The fields of a request's head, or of trailers, decoded.
#[derive(Debug, Default)]
pub struct Section {
    text: Vec<u8>,
    fields: Vec<RawField>,
    pseudo: Pseudo,
}

impl Section {
    /// True if the pseudo-fields are those of a request.
    pub(crate) fn is_request(&self) -> bool {
        let Pseudo {
            method,
            scheme,
            path,
            authority,
            protocol,
        } = &self.pseudo;
        let is_connect = self.value_of(method) == Some(b"CONNECT");
        let is_whole = match (is_connect, protocol.is_some()) {
            // RFC 9113 §8.5, RFC 9114 §4.4: `CONNECT` has an authority, and no other pseudo-field.
            (true, false) => authority.is_some() && scheme.is_none() && path.is_none(),
            (false, true) => false,
            _ => method.is_some() && scheme.is_some() && path.is_some(),
        };
        is_whole && !self.is_nameless()
    }

    /// True if the authority or `Host` is empty (RFC 9114 §4.3.1).
    fn is_nameless(&self) -> bool {
        match self.authority() {
            Some(authority) => authority.is_empty(),
            None => self.values(Known::Host).any(<[u8]>::is_empty),
        }
    }

    /// True if there is a pseudo-field.
    pub(crate) fn has_pseudo(&self) -> bool {
        self.pseudo != Pseudo::default()
    }

    /// The fields as trailers.
    pub(crate) fn to_trailers(&self) -> Trailers {
        let mut trailers = Trailers::default();
        for (name, value) in self.fields() {
            trailers.push(name, value);
        }
        trailers
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.pseudo = Pseudo::default();
    }

    /// Adds a field, whose name is that of `known`; false if it is not permitted.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8], known: Known) -> bool {
        let Some(pseudo) = name.strip_prefix(b":") else {
            let name = append(&mut self.text, name);
            let value = append(&mut self.text, value);
            self.fields.push(RawField { name, value, known });
            return true;
        };
        let value = append(&mut self.text, value);
        let place = match pseudo {
            b"method" => &mut self.pseudo.method,
            b"scheme" => &mut self.pseudo.scheme,
            b"authority" => &mut self.pseudo.authority,
            b"path" => &mut self.pseudo.path,
            b"protocol" => &mut self.pseudo.protocol,
            _ => return false,
        };
        // Once, and before all other fields.
        place.replace(value).is_none() && self.fields.is_empty()
    }

    fn value_of(&self, span: &Option<BufferSpan>) -> Option<&[u8]> {
        span.map(|span| span.of(&self.text))
    }

    /// `:method`.
    pub fn method(&self) -> &[u8] {
        self.value_of(&self.pseudo.method).unwrap_or_default()
    }

    /// `:scheme`.
    pub(crate) fn scheme(&self) -> Option<&[u8]> {
        self.value_of(&self.pseudo.scheme)
    }

    /// `:authority`.
    pub fn authority(&self) -> Option<&[u8]> {
        self.value_of(&self.pseudo.authority)
    }

    /// `:path`.
    pub fn path(&self) -> Option<&[u8]> {
        self.value_of(&self.pseudo.path)
    }

    /// `:protocol`, of an extended `CONNECT` (RFC 9220).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.value_of(&self.pseudo.protocol)
    }

    /// The other fields.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| {
            let field = field.resolve(&self.text);
            (field.name, field.value)
        })
    }

    /// The values of a known field.
    pub fn values(&self, known: Known) -> impl Iterator<Item = &[u8]> {
        let fields = self.fields.iter().filter(move |field| field.known == known);
        fields.map(|field| field.value.of(&self.text))
    }

    /// All fields of a section that has been checked as it was read, as those of HTTP/2 are.
    pub fn checked_fields(&self) -> impl Iterator<Item = RequestField<'_>> {
        self.fields.iter().map(|field| RequestField {
            field: field.resolve(&self.text),
            is_checked: true,
        })
    }
}
