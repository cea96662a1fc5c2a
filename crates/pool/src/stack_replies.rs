//! Answers of workers to the question where in their code they are, extracted from the application's output.
//!
//! A listen thread asks ([`whereabouts`](crate::whereabouts)); the supervisor, which knows the processes, sends the signal
//! ([`WHERE_SIGNAL`](tutti_wire::control::WHERE_SIGNAL)); the answer comes as lines of the output, which are forwarded as usual, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tutti_wire::SlotId;

/// Most lines of an answer: ten callers for each of several threads.
const MOST_LINES: usize = 60;

/// Most answers of one application that are awaited at once; further slow requests are logged without one.
const MOST_EXPECTED: usize = 16;

/// The answers that one application owes.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    expected: Mutex<Expected>,
    is_expected: AtomicBool,
}

/// A question about a slow request; those of a segment are kept with it.
#[derive(Debug)]
pub(crate) struct StackRequest {
    pub(crate) slot: SlotId,
    /// Distinguishes this use of the slot from the next.
    pub(crate) serial: u64,
    /// Receives the process that was asked.
    pub(crate) reply: oneshot::Sender<i32>,
}

#[derive(Debug, Default)]
struct Expected {
    answers: Vec<ExpectedReply>,
    /// The process whose answer has begun and may continue.
    current: Option<i32>,
}

#[derive(Debug)]
struct ExpectedReply {
    process: i32,
    lines: Vec<String>,
    has_begun: Arc<Notify>,
}

impl Answers {
    fn expected(&self) -> MutexGuard<'_, Expected> {
        // Lines are added and removed whole.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects an answer of a process. False if too many answers are awaited.
    pub(crate) fn expect(&self, process: i32) -> bool {
        let mut expected = self.expected();
        expected.answers.retain(|answer| answer.process != process);
        if expected.answers.len() >= MOST_EXPECTED {
            return false;
        }
        expected.answers.push(ExpectedReply {
            process,
            lines: Vec::new(),
            has_begun: Arc::default(),
        });
        self.is_expected.store(true, Ordering::Release);
        true
    }

    /// Notified when the answer of a process begins.
    pub(crate) fn begun(&self, process: i32) -> Option<Arc<Notify>> {
        let expected = self.expected();
        let mut answers = expected.answers.iter();
        let answer = answers.find(|answer| answer.process == process)?;
        Some(Arc::clone(&answer.has_begun))
    }

    /// Takes the lines of its answer so far; no more are expected.
    pub(crate) fn take(&self, process: i32) -> Vec<String> {
        let mut expected = self.expected();
        let answers = &mut expected.answers;
        let position = answers.iter().position(|answer| answer.process == process);
        let lines = position.map(|position| answers.swap_remove(position).lines);
        if answers.is_empty() {
            expected.current = None;
            self.is_expected.store(false, Ordering::Release);
        }
        lines.unwrap_or_default()
    }

    /// Checks whether a line of the output belongs to an answer.
    pub(crate) fn note(&self, line: &[u8]) {
        if self.is_expected.load(Ordering::Acquire) {
            self.expected().note(line);
        }
    }
}

impl Expected {
    fn note(&mut self, line: &[u8]) {
        if let Some(process) = begins_answer(line) {
            self.current = Some(process);
        } else if !continues_answer(line) {
            return;
        }
        let Some(current) = self.current else {
            return;
        };
        let mut answers = self.answers.iter_mut();
        if let Some(answer) = answers.find(|answer| answer.process == current)
            && answer.lines.len() < MOST_LINES
        {
            answer
                .lines
                .push(String::from_utf8_lossy(line).into_owned());
            answer.has_begun.notify_one();
        }
    }
}

/// The process in `process PID is at …` or `process PID runs no script`.
fn begins_answer(line: &[u8]) -> Option<i32> {
    let rest = line.strip_prefix(b"process ")?;
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let (number, said) = rest.split_at_checked(end)?;
    let is_answer = said.starts_with(b" is at") || said.starts_with(b" runs ");
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    is_answer.then_some(number)
}

/// Callers are indented; Python also names its threads.
fn continues_answer(line: &[u8]) -> bool {
    [&b"  "[..], b"Thread ", b"Current thread "]
        .iter()
        .any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_process_is_picked_out_of_the_output() {
        let answers = Answers::default();
        answers.note(b"process 7 is at /a.php:1 in f()");
        assert!(answers.expect(7) && answers.expect(8));
        for line in [
            &b"  called at /unasked.php:1 in g()"[..],
            b"process 7 is at /a.php:2 in f(), waiting for sleep()",
            b"a line of another program",
            b"  called at /b.php:3 in the script",
            b"process 9 is at /not/asked.php:1",
            b"  called at /not/asked.php:2",
            b"process 8 is at",
            b"Thread 0x01 (most recent call first):",
            b"  File \"c.py\", line 4 in f",
            b"process 8x is at /x",
        ] {
            answers.note(line);
        }
        let seven = [
            "process 7 is at /a.php:2 in f(), waiting for sleep()",
            "  called at /b.php:3 in the script",
        ];
        assert_eq!(answers.take(7), seven);
        assert_eq!(answers.take(8).len(), 3);
        assert!(answers.take(8).is_empty());
        assert!(!answers.is_expected.load(Ordering::Acquire));
    }

    #[test]
    fn awaited_answers_are_bounded() {
        let answers = Answers::default();
        let most = i32::try_from(MOST_EXPECTED).unwrap();
        assert!((0..most).all(|process| answers.expect(process)));
        assert!(!answers.expect(most));
        assert!(answers.expect(0));
    }
}
