//! The fields of a request of HTTP/2 or HTTP/3, decoded: pseudo-fields apart from the others (RFC 9113 §8.3, RFC 9114 §4.3).

use crate::trailers::Trailers;

/// A range in the section's text.
type Stretch = std::ops::Range<usize>;

/// Pseudo-fields of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pseudo {
    method: Option<Stretch>,
    scheme: Option<Stretch>,
    authority: Option<Stretch>,
    path: Option<Stretch>,
    protocol: Option<Stretch>,
}

/// The fields of a request's head, or of trailers, decoded.
#[derive(Debug, Default)]
pub struct Section {
    text: Vec<u8>,
    /// Names and values.
    fields: Vec<(Stretch, Stretch)>,
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
            None => self.fields().any(|field| field == (b"host", b"")),
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

    /// Adds a field; false if it is not permitted.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) -> bool {
        let Some(pseudo) = name.strip_prefix(b":") else {
            let name = self.append(name);
            let value = self.append(value);
            self.fields.push((name, value));
            return true;
        };
        let value = self.append(value);
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

    fn append(&mut self, text: &[u8]) -> Stretch {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        start..self.text.len()
    }

    fn of(&self, stretch: &Stretch) -> &[u8] {
        self.text.get(stretch.clone()).unwrap_or_default()
    }

    fn value_of(&self, stretch: &Option<Stretch>) -> Option<&[u8]> {
        stretch.as_ref().map(|stretch| self.of(stretch))
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
        let fields = self.fields.iter();
        fields.map(|(name, value)| (self.of(name), self.of(value)))
    }
}
