//! 6: text is UTF-8, and what is not is found when it comes, not when the message ends.

use super::frames::{more, text};
use crate::script::{Case, End};

/// Greek "kosme", and what is broken in it: a surrogate in the middle.
const VALID: &[u8] = "κόσμε".as_bytes();
const BROKEN: &[u8] =
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64\x69\x74\x65\x64";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = empty();
    cases.extend(valid());
    cases.extend(broken());
    cases.extend(found_at_once());
    cases.extend(texts());
    cases
}

fn empty() -> Vec<Case> {
    vec![
        Case::new("6.1.1", "empty text").send([text("")]).text(""),
        Case::new("6.1.2", "three empty fragments")
            .send([text("").open(), more("").open(), more("")])
            .text(""),
        Case::new("6.1.3", "an empty fragment, text, an empty fragment")
            .send([text("").open(), more("middle").open(), more("")])
            .text("middle"),
    ]
}

/// A text frame for each byte.
fn byte_by_byte(bytes: &[u8]) -> Vec<crate::client::Frame> {
    super::frames::in_frames(1, bytes, 1)
}

fn valid() -> Vec<Case> {
    let whole = "Hello-µ@ßöäüàá-UTF-8!!";
    let boundary = "Hello-µ@ßöä".len();
    let (first, second) = whole.split_at(boundary);
    vec![
        Case::new("6.2.1", "text").send([text(whole)]).text(whole),
        Case::new("6.2.2", "in two fragments, between characters")
            .send([text(first).open(), more(second)])
            .text(whole),
        Case::new("6.2.3", "in fragments of a byte")
            .send(byte_by_byte(whole.as_bytes()))
            .text(whole),
        Case::new("6.2.4", "in fragments of a byte, byte by byte")
            .chopped(1, byte_by_byte(VALID))
            .text(VALID),
    ]
}

fn broken() -> Vec<Case> {
    vec![
        Case::new("6.3.1", "a surrogate")
            .send([text(BROKEN)])
            .fails_as_text(),
        Case::new("6.3.2", "a surrogate, in fragments of a byte")
            .send(byte_by_byte(BROKEN))
            .fails_as_text(),
    ]
}

/// The message is not complete when the connection is failed.
fn found_at_once() -> Vec<Case> {
    // F4 90 would be above U+10FFFF: known at the second byte.
    let bad: &[u8] = b"\xf4\x90";
    let frame = |bytes: &[u8]| {
        let mut all = crate::client::build(&[text([VALID, bad, b"edited"].concat())]);
        all.truncate(6 + bytes.len());
        all
    };
    vec![
        Case::new("6.4.1", "a fragment that is broken, and no more")
            .send([text(VALID).open(), more(*b"\xf4\x90\x80\x80").open()])
            .fails_as_text(),
        Case::new("6.4.2", "a fragment of which two bytes are enough to know")
            .send([
                text([VALID, b"\xf4"].concat()).open(),
                more(*b"\x90").open(),
            ])
            .fails_as_text(),
        Case::new("6.4.3", "a frame whose rest never comes")
            .raw(frame(&[VALID, bad].concat()))
            .fails_as_text(),
        Case::new("6.4.4", "the same, byte by byte")
            .raw(frame(VALID))
            .raw(Vec::new())
            .raw(frame(&[VALID, bad].concat()).split_off(6 + VALID.len()))
            .fails_as_text(),
    ]
}

/// Single texts, valid or not, each as one frame.
fn texts() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |group: u32, index: usize, bytes: &[u8]| {
        let number = format!("6.{group}.{}", index + 1);
        let case =
            Case::new(number, format!("text \"{}\"", bytes.escape_ascii())).send([text(bytes)]);
        cases.push(if std::str::from_utf8(bytes).is_ok() {
            case.text(bytes)
        } else {
            case.ends(End::Failed(&[1007]))
        });
    };
    for (group, list) in TEXTS {
        for (index, bytes) in list.iter().enumerate() {
            add(*group, index, bytes);
        }
    }
    // Each beginning of a text.
    for end in 1..=VALID.len() {
        add(6, end - 1, VALID.get(..end).unwrap_or_default());
    }
    // Noncharacters are characters (Unicode corrigendum 9).
    let last_two = (0..=16_u32).flat_map(|plane| [plane << 16 | 0xfffe, plane << 16 | 0xffff]);
    for (index, number) in last_two.enumerate() {
        let character = char::from_u32(number).expect("no surrogate");
        add(22, index, character.to_string().as_bytes());
    }
    cases
}

const TEXTS: &[(u32, &[&[u8]])] = &[
    // Text of several kinds.
    (5, &[b"Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4", "κόσμε".as_bytes(), "\u{10400}\u{1f600}".as_bytes(), b"\x00", b"\x7f"]),
    // The first of each length.
    (7, &[b"\x00", b"\xc2\x80", b"\xe0\xa0\x80", b"\xf0\x90\x80\x80"]),
    // Five and six bytes were never allowed since 2003.
    (8, &[b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80"]),
    // The last of each length.
    (9, &[b"\x7f", b"\xdf\xbf", b"\xef\xbf\xbf", b"\xf4\x8f\xbf\xbf"]),
    (10, &[b"\xf7\xbf\xbf\xbf", b"\xfb\xbf\xbf\xbf\xbf", b"\xfd\xbf\xbf\xbf\xbf\xbf"]),
    // Around the surrogates and the end.
    (11, &[b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xef\xbf\xbd", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80"]),
    // Continuations of nothing.
    (12, &[b"\x80", b"\xbf", b"\x80\xbf", b"\x80\xbf\x80", b"\x80\xbf\x80\xbf", b"\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf"]),
    // Beginnings, each followed by a space.
    (13, &[b"\xc0 \xc1 \xc2 \xc3 ", b"\xe0 \xe1 \xe2 \xe3 ", b"\xf0 \xf1 \xf2 \xf3 ", b"\xf8 \xf9 \xfa \xfb ", b"\xfc \xfd "]),
    // The last byte is missing.
    (14, &[b"\xc0", b"\xe0\x80", b"\xf0\x80\x80", b"\xf8\x80\x80\x80", b"\xfc\x80\x80\x80\x80", b"\xdf", b"\xef\xbf", b"\xf7\xbf\xbf", b"\xfb\xbf\xbf\xbf", b"\xfd\xbf\xbf\xbf\xbf"]),
    (15, &[b"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80\xfc\x80\x80\x80\x80\xdf\xef\xbf\xf7\xbf\xbf\xfb\xbf\xbf\xbf\xfd\xbf\xbf\xbf\xbf"]),
    // Bytes that occur nowhere.
    (16, &[b"\xfe", b"\xff", b"\xfe\xfe\xff\xff"]),
    // Longer than needed.
    (17, &[b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xf8\x80\x80\x80\xaf", b"\xfc\x80\x80\x80\x80\xaf"]),
    (18, &[b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xf8\x87\xbf\xbf\xbf", b"\xfc\x83\xbf\xbf\xbf\xbf"]),
    (19, &[b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf8\x80\x80\x80\x80", b"\xfc\x80\x80\x80\x80\x80"]),
    // Surrogates, alone and in pairs.
    (20, &[b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xae\x80", b"\xed\xaf\xbf", b"\xed\xb0\x80", b"\xed\xbe\x80", b"\xed\xbf\xbf"]),
    (21, &[b"\xed\xa0\x80\xed\xb0\x80", b"\xed\xa0\x80\xed\xbf\xbf", b"\xed\xad\xbf\xed\xb0\x80", b"\xed\xad\xbf\xed\xbf\xbf", b"\xed\xae\x80\xed\xb0\x80", b"\xed\xae\x80\xed\xbf\xbf", b"\xed\xaf\xbf\xed\xb0\x80", b"\xed\xaf\xbf\xed\xbf\xbf"]),
    // The replacement character and its neighbours.
    (23, &[b"\xef\xbf\xb9", b"\xef\xbf\xba", b"\xef\xbf\xbb", b"\xef\xbf\xbc", b"\xef\xbf\xbd", b"\xef\xbf\xbe", b"\xef\xbf\xbf"]),
];
