//! A case: what is sent, what has to be heard, how it has to end.

use std::net::SocketAddr;

use crate::client::{Frame, Heard, WebSocketClient, build};

/// One step.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// These frames, in writes of so many bytes.
    Send(Vec<Frame>, usize),
    /// These bytes.
    Raw(Vec<u8>),
    /// The server has to say this now.
    Hear(Heard),
}

/// The end of a case.
#[derive(Clone, Debug)]
pub enum End {
    /// We close with this payload, and hear the same, and then the end of the connection.
    Clean(Vec<u8>),
    /// The close frame has been sent among the steps: the server answers it with this payload and ends the connection.
    Closed(Vec<u8>),
    /// The server ends the connection, with one of these codes. Messages before the fault may have been answered, or not.
    Failed(&'static [u16]),
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// As in `6.4.1`.
    pub number: String,
    /// Its subject.
    pub title: String,
    /// The steps, in their order.
    pub steps: Vec<ScriptStep>,
    /// The expected end.
    pub end: End,
}

impl Case {
    pub(crate) fn new(number: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            number: number.into(),
            title: title.into(),
            steps: Vec::new(),
            end: End::Clean(code(1000)),
        }
    }

    /// Sends frames in one write.
    pub(crate) fn send(self, frames: impl Into<Vec<Frame>>) -> Self {
        self.chopped(usize::MAX, frames)
    }

    /// Sends frames in writes of `size` bytes.
    pub(crate) fn chopped(mut self, size: usize, frames: impl Into<Vec<Frame>>) -> Self {
        self.steps.push(ScriptStep::Send(frames.into(), size));
        self
    }

    /// Sends bytes.
    pub(crate) fn raw(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(ScriptStep::Raw(bytes.into()));
        self
    }

    pub(crate) fn hear(mut self, heard: Heard) -> Self {
        self.steps.push(ScriptStep::Hear(heard));
        self
    }

    pub(crate) fn text(self, text: impl Into<Vec<u8>>) -> Self {
        self.hear(Heard::Message(1, text.into()))
    }

    pub(crate) fn binary(self, data: impl Into<Vec<u8>>) -> Self {
        self.hear(Heard::Message(2, data.into()))
    }

    pub(crate) fn pong(self, payload: impl Into<Vec<u8>>) -> Self {
        self.hear(Heard::Pong(payload.into()))
    }

    pub(crate) fn ends(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The protocol was broken.
    pub(crate) fn fails(self) -> Self {
        self.ends(End::Failed(&[1002]))
    }

    /// Text that is not UTF-8.
    pub(crate) fn fails_as_text(self) -> Self {
        self.ends(End::Failed(&[1007]))
    }

    /// Runs it on a connection of its own.
    ///
    /// # Errors
    /// The reason why it failed.
    pub fn run(&self, address: SocketAddr, target: &str) -> Result<(), String> {
        let (mut client, _) = WebSocketClient::open(address, target, "")?;
        for step in &self.steps {
            match step {
                ScriptStep::Send(frames, size) => {
                    for write in build(frames).chunks(*size) {
                        client.send(write)?;
                    }
                }
                ScriptStep::Raw(bytes) => client.send(bytes)?,
                ScriptStep::Hear(expected) => check(expected, &client.hear()?)?,
            }
        }
        match &self.end {
            End::Clean(payload) => {
                client.send(&build(&[Frame::new(8, payload.clone())]))?;
                closed(&mut client, payload)
            }
            End::Closed(payload) => closed(&mut client, payload),
            End::Failed(codes) => failed(&mut client, codes),
        }
    }
}

/// The payload of a close frame without reason.
pub(crate) fn code(code: u16) -> Vec<u8> {
    code.to_be_bytes().to_vec()
}

fn check(expected: &Heard, heard: &Heard) -> Result<(), String> {
    if expected == heard {
        Ok(())
    } else {
        Err(format!(
            "heard {} instead of {}",
            heard.describe(),
            expected.describe()
        ))
    }
}

fn closed(client: &mut WebSocketClient, payload: &[u8]) -> Result<(), String> {
    check(&Heard::Close(payload.to_vec()), &client.hear()?)?;
    check(&Heard::End, &client.hear()?)
}

fn failed(client: &mut WebSocketClient, codes: &[u16]) -> Result<(), String> {
    loop {
        match client.hear()? {
            Heard::Message(..) | Heard::Pong(_) => {}
            Heard::Close(payload) => {
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                if !code.is_some_and(|code| codes.contains(&code)) {
                    return Err(format!("closed with {code:?} instead of one of {codes:?}"));
                }
                return check(&Heard::End, &client.hear()?);
            }
            other => return Err(format!("heard {} instead of a close", other.describe())),
        }
    }
}
