//! SETTINGS (RFC 9113 §6.5, RFC 8441 §3, RFC 9218 §2.1): the client's, and ours.

use tutti_config::model::Http2;
use tutti_http::http2::frame::{FrameHead, MOST_PAYLOAD, SETTINGS};

use crate::fault::{Fault, Http2Code};
use crate::windows::MOST_WINDOW;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;
const NO_RFC7540_PRIORITIES: u16 = 9;

/// The initial size of all windows (§6.9.2).
pub(crate) const INITIAL_WINDOW: u32 = 65_535;

/// A changed setting of the client that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The dynamic table of its decoder may have this size.
    TableSize(u32),
    /// New streams may be sent this much; others the difference.
    InitialWindow(u32),
}

/// Reads the payload of SETTINGS.
pub(crate) fn read(payload: &[u8], mut note: impl FnMut(Setting)) -> Result<(), Fault> {
    let (settings, rest) = payload.as_chunks::<6>();
    if !rest.is_empty() {
        return Err(Fault::Connection(Http2Code::FRAME_SIZE_ERROR));
    }
    for [a, b, value @ ..] in settings {
        let value = u32::from_be_bytes(*value);
        match u16::from_be_bytes([*a, *b]) {
            HEADER_TABLE_SIZE => note(Setting::TableSize(value)),
            INITIAL_WINDOW_SIZE if value > MOST_WINDOW => {
                return Err(Fault::Connection(Http2Code::FLOW_CONTROL_ERROR));
            }
            INITIAL_WINDOW_SIZE => note(Setting::InitialWindow(value)),
            ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL | NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(Fault::Connection(Http2Code::PROTOCOL_ERROR));
            }
            // Frames are never larger than every peer accepts.
            MAX_FRAME_SIZE if !(MOST_PAYLOAD as u32..1 << 24).contains(&value) => {
                return Err(Fault::Connection(Http2Code::PROTOCOL_ERROR));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Appends the frame with ours.
pub(crate) fn write(options: &Http2, most_head_bytes: usize, out: &mut Vec<u8>) {
    let settings = [
        (MAX_CONCURRENT_STREAMS, options.max_concurrent_streams),
        (INITIAL_WINDOW_SIZE, options.stream_window_size),
        (
            MAX_HEADER_LIST_SIZE,
            u32::try_from(most_head_bytes).unwrap_or(u32::MAX),
        ),
        (ENABLE_CONNECT_PROTOCOL, 1),
        (NO_RFC7540_PRIORITIES, 1),
    ];
    let head = FrameHead {
        length: settings.len() * 6,
        kind: SETTINGS,
        flags: 0,
        stream: 0,
    };
    out.extend_from_slice(&head.bytes());
    for (setting, value) in settings {
        out.extend_from_slice(&setting.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(settings: &[(u16, u32)]) -> Result<Vec<Setting>, Fault> {
        let mut payload = Vec::new();
        for (setting, value) in settings {
            payload.extend(setting.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        let mut notes = Vec::new();
        read(&payload, |setting| notes.push(setting)).map(|()| notes)
    }

    #[test]
    fn settings_are_checked() {
        let good = [
            (1, 100),
            (2, 0),
            (4, MOST_WINDOW),
            (5, 16_384),
            (9, 1),
            (0x7777, 5),
        ];
        let expected = vec![Setting::TableSize(100), Setting::InitialWindow(MOST_WINDOW)];
        assert_eq!(notes(&good), Ok(expected));
        for (setting, reason) in [
            ((2, 2), Http2Code::PROTOCOL_ERROR),
            ((4, MOST_WINDOW + 1), Http2Code::FLOW_CONTROL_ERROR),
            ((5, 16_383), Http2Code::PROTOCOL_ERROR),
            ((5, 1 << 24), Http2Code::PROTOCOL_ERROR),
            ((8, 2), Http2Code::PROTOCOL_ERROR),
        ] {
            assert_eq!(
                notes(&[setting]),
                Err(Fault::Connection(reason)),
                "{setting:?}"
            );
        }
        let cut = read(&[0; 5], |_| {});
        assert_eq!(cut, Err(Fault::Connection(Http2Code::FRAME_SIZE_ERROR)));
    }
}
