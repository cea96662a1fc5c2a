//! 5 fragmentation, 10 fragments made by an implementation.

use super::frames::{in_frames, more, ping, pong, text};
use crate::client::Frame;
use crate::script::Case;

/// 5.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("5.1", "ping in two fragments")
            .send([ping("frag").open(), more("ment")])
            .fails(),
        Case::new("5.2", "pong in two fragments")
            .send([pong("frag").open(), more("ment")])
            .fails(),
    ];
    cases.extend(two_fragments());
    cases.extend(stray_continuations());
    cases.extend(many_fragments());
    cases
}

/// The subject of a script, and its frames, each sent whole, one by one, and byte by byte.
fn in_three_ways(
    first: u32,
    title: &str,
    frames: &[Frame],
    finish: impl Fn(Case) -> Case,
) -> Vec<Case> {
    let one_by_one = frames.iter().fold(
        Case::new(
            format!("5.{}", first + 1),
            format!("{title}, frame by frame"),
        ),
        |case, frame| case.send([frame.clone()]),
    );
    [
        Case::new(format!("5.{first}"), title).send(frames),
        one_by_one,
        Case::new(format!("5.{}", first + 2), format!("{title}, byte by byte")).chopped(1, frames),
    ]
    .into_iter()
    .map(finish)
    .collect()
}

fn two_fragments() -> Vec<Case> {
    [
        in_three_ways(
            3,
            "text in two fragments",
            &[text("frag").open(), more("ment")],
            |case| case.text("fragment"),
        ),
        in_three_ways(
            6,
            "text in two fragments, a ping between",
            &[text("frag").open(), ping("ping"), more("ment")],
            |case| case.pong("ping").text("fragment"),
        ),
    ]
    .concat()
}

fn stray_continuations() -> Vec<Case> {
    let fails = |case: Case| case.fails();
    let stray = [more("stray").open(), text("Hello, world!")];
    [
        in_three_ways(
            9,
            "a final continuation of nothing",
            &[more("stray"), text("Hello, world!")],
            fails,
        ),
        in_three_ways(12, "a continuation of nothing", &stray, fails),
        vec![
            Case::new(
                "5.15",
                "a whole message in fragments, then a continuation of nothing",
            )
            .send([
                text("one").open(),
                more("two"),
                more("stray").open(),
                text("three"),
            ])
            .fails(),
            Case::new("5.16", "a continuation of nothing before a message, twice")
                .send([
                    more("stray").open(),
                    text("one").open(),
                    more("two"),
                    more("stray").open(),
                    text("one").open(),
                    more("two"),
                ])
                .fails(),
            Case::new(
                "5.17",
                "a final continuation of nothing before a message, twice",
            )
            .send([
                more("stray"),
                text("one").open(),
                more("two"),
                more("stray"),
                text("one").open(),
                more("two"),
            ])
            .fails(),
            Case::new("5.18", "the second fragment as a text frame")
                .send([text("frag").open(), text("ment")])
                .fails(),
        ],
    ]
    .concat()
}

fn many_fragments() -> Vec<Case> {
    let first = [
        text("fragment 1, ").open(),
        more("fragment 2, ").open(),
        ping("one"),
        more("fragment 3, ").open(),
    ];
    let second = [ping("two"), more("fragment 4, ").open(), more("fragment 5")];
    let whole = "fragment 1, fragment 2, fragment 3, fragment 4, fragment 5";
    vec![
        // The first pong comes while the message is not complete.
        Case::new("5.19", "five fragments, pings between")
            .send(first.clone())
            .pong("one")
            .send(second.clone())
            .pong("two")
            .text(whole),
        Case::new("5.20", "the same, byte by byte")
            .chopped(1, first)
            .pong("one")
            .chopped(1, second)
            .pong("two")
            .text(whole),
    ]
}

/// 10.
pub(super) fn automatic() -> Vec<Case> {
    let payload = vec![b'*'; 65_536];
    vec![
        Case::new("10.1.1", "65536 bytes of text in frames of 1300")
            .send(in_frames(1, &payload, 1300))
            .text(payload),
    ]
}
