//! The oracles of HTTP/3's streams and of QPACK's field sections.

use crate::http3::{
    Control, Http3Error, MessagePart, MessageReader, Section, UniReader, encode_fields,
};

/// Streams of HTTP/3, of a request and unidirectional: the same bytes mean the same in any pieces, and field sections that are read can be
/// written and read again.
pub fn http3(bytes: &[u8]) {
    const MOST: usize = 4096;
    let read = |step: usize| -> (Result<(), Http3Error>, Vec<u8>, Vec<Vec<u8>>) {
        let mut reader = MessageReader::new(MOST);
        let (mut content, mut sections) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(step.max(1)) {
            let mut rest = piece;
            loop {
                match reader.next(&mut rest) {
                    Ok(None) => break,
                    Ok(Some(MessagePart::Data(data))) => content.extend_from_slice(data),
                    Ok(Some(MessagePart::Head(block) | MessagePart::Trailers(block))) => {
                        sections.push(block)
                    }
                    Err(fault) => return (Err(fault), content, sections),
                }
            }
        }
        (reader.finish(), content, sections)
    };
    let whole = read(bytes.len());
    for step in [1, 2, 7, 64] {
        assert_eq!(read(step), whole);
    }
    for block in &whole.2 {
        assert!(block.len() <= MOST);
        if let Ok(section) = Section::of_request(block, MOST) {
            let size: usize = section
                .fields()
                .map(|(name, value)| name.len() + value.len() + 32)
                .sum();
            assert!(size <= MOST);
            let again = encode_fields(section.fields());
            let mut read = Vec::new();
            let outcome = crate::http3::decode(&again, MOST, |name, value| {
                read.push((name.to_vec(), value.to_vec()));
            });
            assert_eq!(outcome, Ok(()));
            let lower = section
                .fields()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
            assert!(lower.eq(read));
        }
    }
    let said = |step: usize| {
        let (mut control, mut reader, mut notes) =
            (Control::default(), UniReader::default(), Vec::new());
        let mut pieces = bytes.chunks(step.max(1));
        let outcome = pieces
            .try_for_each(|piece| reader.receive(piece, &mut control, |note| notes.push(note)));
        (outcome, notes)
    };
    let (outcome, notes) = said(bytes.len());
    for step in [1, 3, 50] {
        let (again, others) = said(step);
        assert_eq!(again, outcome);
        assert!(outcome.is_err() || notes == others);
    }
}

/// Field sections of QPACK: the limit decides whether all of it is read, never what is read; fields that are read can be written and read
/// again; a reference to a dynamic table is never a field.
pub fn qpack(bytes: &[u8]) {
    const MOST: usize = 4096;
    let read = |block: &[u8], most: usize| {
        let mut fields = Vec::new();
        let outcome = crate::http3::decode(block, most, |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
        });
        (outcome, fields)
    };
    let (outcome, fields) = read(bytes, MOST);
    let size: usize = fields
        .iter()
        .map(|(name, value)| name.len() + value.len() + 32)
        .sum();
    assert!(size <= MOST, "{size} bytes");
    for most in [0, size.saturating_sub(1), size, 64, 2 * MOST] {
        let (again, some) = read(bytes, most);
        // With a lower limit, the same beginning is read.
        let common = some.len().min(fields.len());
        assert_eq!(some.get(..common), fields.get(..common));
        if outcome.is_ok() {
            assert_eq!(again.is_ok(), most >= size, "{most} of {size}");
        }
    }
    if outcome.is_err() {
        return;
    }
    // RFC 9204 §4.5.1: there is only the static table.
    assert_eq!(bytes.first(), Some(&0));
    let fields = fields
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect::<Vec<_>>();
    let written = crate::http3::encode_fields(fields.iter().copied());
    let (outcome, again) = read(&written, MOST);
    assert_eq!(outcome, Ok(()));
    let lower = fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    assert!(lower.eq(again));
}
