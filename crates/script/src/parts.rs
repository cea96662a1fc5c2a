//! The texts and the values of a template literal, separately: a caller that encodes values must not take them for what the configuration
//! says.
//!
//! JavaScript itself separates them, by a tag in front of the template literal; the result is one string, which is taken apart here.

/// Joins texts and values with NUL between them; in both, U+0001 announces an escape: `1` is U+0001 itself, `0` is NUL.
const TAG: &str = r"((__texts, ...__values) => __texts.map((__text, __at) => [__text, ...__values.slice(__at, __at + 1)]
.map((__part) => `${__part}`.replaceAll('\x01', '\x011').replaceAll('\0', '\x010')).join('\0')).join('\0'))";

/// A part of an evaluated template literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluatedPart<'p> {
    /// Text of the configuration; may be empty.
    Text(&'p [u8]),
    /// The value of `${…}`.
    Value(&'p [u8]),
}

/// The source whose value is the joined parts of the template literal `source`.
pub(crate) fn tagged(source: &str) -> String {
    [TAG, source].concat()
}

/// Calls `each` with the parts, in order. The first and the last are texts.
pub(crate) fn separate(joined: &[u8], each: &mut dyn FnMut(EvaluatedPart<'_>)) {
    let mut part = Vec::new();
    for (index, written) in joined.split(|byte| *byte == 0).enumerate() {
        part.clear();
        let mut bytes = written.iter();
        while let Some(byte) = bytes.next() {
            part.push(match byte {
                1 => bytes.next().map_or(1, |escaped| escaped & 1),
                byte => *byte,
            });
        }
        each(match index % 2 {
            0 => EvaluatedPart::Text(&part),
            _ => EvaluatedPart::Value(&part),
        });
    }
}
