//! The common part of request and response heads: the fields, and the progress of parsing.

use std::mem::MaybeUninit;

use httparse::{Error, Header};

use super::{BufferSpan, MAX_BUFFER, Pieces, Progress, RawField, RawFields, size};
use crate::error::HeadError;
use crate::field::{Fields, FirstOf};
use crate::known_fields::Known;
use crate::limits::MessageLimits;

/// `httparse` gets room for this many fields on the stack before the heap is used.
const STACK_FIELDS: usize = 64;

/// Room for the fields that `httparse` finds.
pub(super) type Room<'r, 'b> = &'r mut [MaybeUninit<Header<'b>>];

/// Fields, and the state of reading a head that comes in pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Storage {
    pieces: Pieces,
    pub(super) fields: RawFields,
    pub(super) first: FirstOf,
    pub(super) length: usize,
}

impl Storage {
    /// Discards an incomplete head.
    pub(super) fn reset(&mut self) {
        self.pieces = Pieces::default();
    }

    /// Parses as far as the bytes permit. `split` has `httparse` find the lines, stores what it needs, passes the fields to
    /// [`Found::keep`], and returns the length of the head; it may be called twice.
    pub(super) fn read<'b>(
        &mut self,
        buffer: &'b [u8],
        limits: &MessageLimits,
        mut split: impl FnMut(&'b [u8], Room<'_, 'b>, Found<'_, 'b>) -> Result<Option<usize>, Error>,
    ) -> Result<Progress, HeadError> {
        let buffer = buffer.get(..MAX_BUFFER).unwrap_or(buffer);
        if buffer.is_empty() {
            return Ok(Progress::Incomplete);
        }
        if !self.pieces.is_worth_parsing(buffer) {
            size::of_part(buffer, limits)?;
            return Ok(Progress::Incomplete);
        }
        let fields = &mut self.fields;
        let outcome = with_room(limits, |room| split(buffer, room, Found { buffer, fields }));
        match outcome {
            Ok(None) => {
                size::of_part(buffer, limits)?;
                self.pieces.note_partial(buffer.len());
                Ok(Progress::Incomplete)
            }
            Ok(Some(length)) => {
                self.reset();
                self.length = length;
                size::of_whole(buffer.get(..length).unwrap_or_default(), limits)?;
                Ok(Progress::Complete { length })
            }
            Err(error) => {
                self.reset();
                Err(error)
            }
        }
    }

    /// Checks `head` as a complete one.
    pub(super) fn check_length(
        &mut self,
        head: &[u8],
        limits: &MessageLimits,
    ) -> Result<(), HeadError> {
        self.length = head.len();
        size::of_whole(head, limits)
    }

    /// All fields in order.
    pub(super) fn all<'a>(&'a self, buffer: &'a [u8]) -> Fields<'a> {
        Fields {
            buffer,
            fields: self.fields.iter(),
        }
    }

    /// The value of the first field of this name.
    pub(super) fn get<'a>(&self, known: Known, buffer: &'a [u8]) -> Option<&'a [u8]> {
        let field = self.fields.get(self.first.get(known)?)?;
        Some(field.value.of(buffer))
    }

    /// The values of all fields of this name, ASCII case ignored.
    pub(super) fn get_all<'a, 'n>(
        &'a self,
        name: &'n [u8],
        buffer: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.all(buffer)
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }
}

/// Receives the fields of a head.
pub(super) struct Found<'s, 'b> {
    buffer: &'b [u8],
    fields: &'s mut RawFields,
}

impl Found<'_, '_> {
    /// Stores them, replacing those of the previous head.
    pub(super) fn keep(self, headers: &[Header<'_>]) {
        let buffer = self.buffer;
        self.fields.clear();
        self.fields.extend(headers.iter().map(|header| RawField {
            name: BufferSpan::locate(buffer, header.name.as_bytes()),
            value: BufferSpan::locate(buffer, header.value),
            known: Known::from_token(header.name.as_bytes()),
        }));
    }
}

/// Calls `parse` with room for the fields: on the stack first, then for as many as `limits` permit.
fn with_room<'b, T>(
    limits: &MessageLimits,
    mut parse: impl FnMut(Room<'_, 'b>) -> Result<T, Error>,
) -> Result<T, HeadError> {
    let stack = &mut [const { MaybeUninit::uninit() }; STACK_FIELDS];
    let room = limits.max_fields.min(STACK_FIELDS);
    let mut outcome = parse(stack.get_mut(..room).unwrap_or_default());
    if matches!(outcome, Err(Error::TooManyHeaders)) && limits.max_fields > STACK_FIELDS {
        let mut heap = Vec::new();
        heap.resize_with(limits.max_fields, MaybeUninit::uninit);
        outcome = parse(&mut heap);
    }
    outcome.map_err(|error| match error {
        Error::HeaderName => HeadError::FieldName,
        Error::HeaderValue => HeadError::FieldValue,
        Error::NewLine => HeadError::LineEnd,
        Error::TooManyHeaders => HeadError::FieldsTooLarge,
        Error::Version => HeadError::Version,
        Error::Token | Error::Status => HeadError::StartLine,
    })
}
