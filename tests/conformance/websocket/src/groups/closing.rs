//! 7: the closing handshake.

use super::frames::{close, in_frames, more, ping, text};
use crate::script::{Case, End, code};

pub(super) fn cases() -> Vec<Case> {
    [order(), payloads(), codes()].concat()
}

fn order() -> Vec<Case> {
    let normal = || End::Closed(code(1000));
    let big = vec![b'*'; 256 * 1024];
    vec![
        Case::new("7.1.1", "a message, then close")
            .send([text("Hello, world!"), close(code(1000))])
            .text("Hello, world!")
            .ends(normal()),
        Case::new("7.1.2", "two closes")
            .send([close(code(1000)), close(code(1001))])
            .ends(normal()),
        Case::new("7.1.3", "close, then a ping")
            .send([close(code(1000)), ping("")])
            .ends(normal()),
        Case::new("7.1.4", "close, then text")
            .send([close(code(1000)), text("late")])
            .ends(normal()),
        Case::new("7.1.5", "a fragment, close, the other fragment")
            .send([text("frag").open(), close(code(1000)), more("ment")])
            .ends(normal()),
        Case::new("7.1.6", "256 KB, close, a ping")
            .send(
                [
                    in_frames(1, &big, big.len()),
                    vec![close(code(1000)), ping("")],
                ]
                .concat(),
            )
            .text(big)
            .ends(normal()),
    ]
}

fn payloads() -> Vec<Case> {
    let reason = |length: usize| [code(1000), vec![b'*'; length]].concat();
    vec![
        Case::new("7.3.1", "close without payload").send([close([])]).ends(End::Closed(code(1000))),
        Case::new("7.3.2", "close with half a code").send([close([3])]).fails(),
        Case::new("7.3.3", "close with a code").ends(End::Clean(code(1000))),
        Case::new("7.3.4", "close with a reason").ends(End::Clean([code(1000), b"Hello, world!".to_vec()].concat())),
        Case::new("7.3.5", "close with the longest reason").ends(End::Clean(reason(123))),
        Case::new("7.3.6", "close with a longer one").send([close(reason(124))]).fails(),
        Case::new("7.5.1", "close with a reason that is no text")
            .send([close([code(1000), b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64\x69\x74\x65\x64".to_vec()].concat())])
            .ends(End::Failed(&[1007])),
    ]
}

fn codes() -> Vec<Case> {
    // §7.4.1, IANA's registry, libraries' and private ones.
    let valid = [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000,
        4999,
    ];
    let invalid = [
        0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535,
    ];
    let valid = valid.into_iter().enumerate().map(|(index, number)| {
        Case::new(format!("7.7.{}", index + 1), format!("close with {number}"))
            .ends(End::Clean(code(number)))
    });
    let invalid = invalid.into_iter().enumerate().map(|(index, number)| {
        Case::new(
            format!("7.9.{}", index + 1),
            format!("close with {number}, which must not be sent"),
        )
        .send([close(code(number))])
        .fails()
    });
    valid.chain(invalid).collect()
}
