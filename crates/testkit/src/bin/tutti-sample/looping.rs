//! The sample with an event loop: `"event_loop": true` in its configuration.
//!
//! Every handler is a state that goes on when there is news for its slot or its time has come. Of the sample's paths it
//! knows `/sleep`, `/wait`, `/echo`, `/big`, `/pid`, `/open` (exchanges it has open), `/hand_over` (as if another program took its place), `/note`, `/crash`, `/hang` and `/stuck` (for ever, while the loop
//! goes on); a WebSocket is echoed until it says `close`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_worker::{Exchange, Incoming, Message, MessageOpcode, Process, StartError, Worker};

use super::request::{GLANCE, PLAIN, is_there, milliseconds, number, pause, text, value};

/// Where a handler is.
enum Stage {
    /// To be answered then.
    Sleep(Instant),
    /// To be answered when that file is there, and when to look for it.
    Wait(String, Instant),
    /// Bytes of the request's body that have not been written back, and whether it has ended.
    Echo(Vec<u8>, bool),
    /// Bytes and lines to come.
    Big(u64, u64),
    /// Messages that have not been sent whole.
    Socket(Vec<(MessageOpcode, Vec<u8>)>),
    Stuck,
}

impl Stage {
    /// When it goes on without any news.
    fn due(&self) -> Option<Instant> {
        match self {
            Stage::Sleep(until) | Stage::Wait(_, until) => Some(*until),
            _ => None,
        }
    }
}

struct Task {
    exchange: Exchange,
    stage: Stage,
}

/// Serves until it gets the order to leave.
pub(crate) fn run(process: &mut Process) -> Result<(), StartError> {
    let Some(unstarted) = process.take_worker() else {
        return Ok(());
    };
    let mut worker = unstarted.into_worker();
    worker
        .enter_loop(process.concurrency())
        .map_err(|error| StartError::new("entering the event loop", error))?;
    worker.ready();
    process.ready();
    let mut tasks: BTreeMap<u32, Task> = BTreeMap::new();
    loop {
        let mut news = Vec::new();
        worker.drain_attention(|slot| news.push(slot));
        let now = Instant::now();
        let due = |task: &Task| task.stage.due().is_some_and(|due| due <= now);
        news.extend(
            tasks
                .iter()
                .filter(|(_, task)| due(task))
                .map(|(slot, _)| *slot),
        );
        for slot in news {
            let is_over = tasks.get_mut(&slot).is_some_and(Task::advance);
            if is_over {
                tasks.remove(&slot);
            }
        }
        while let Some(exchange) = worker.try_next() {
            if let Some(mut task) = begin(exchange, &mut worker)
                && !task.advance()
            {
                tasks.insert(task.exchange.slot(), task);
            }
        }
        if worker.must_stop() && tasks.is_empty() {
            return Ok(());
        }
        if worker.prepare_sleep() {
            sleep(&worker, &tasks);
            worker.woken();
        }
    }
}

fn sleep(worker: &Worker, tasks: &BTreeMap<u32, Task>) {
    let Some(event) = worker.event_fd() else {
        return;
    };
    let next = tasks.values().filter_map(|task| task.stage.due());
    let timeout = next.min().map(|until| {
        let left = until.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        }
    });
    let mut polls = [PollFd::new(&event, PollFlags::IN)];
    if matches!(poll(&mut polls, timeout.as_ref()), Ok(1)) {
        worker.clear_event();
    }
}

/// Begins a request; `None` when it is answered already.
fn begin(mut exchange: Exchange, worker: &mut Worker) -> Option<Task> {
    let request = exchange.request();
    let path = request.path().to_vec();
    let stage = match path.as_slice() {
        _ if request.is_websocket() => {
            exchange.start(101, []).ok()?;
            exchange.flush();
            Stage::Socket(Vec::new())
        }
        b"/sleep" => Stage::Sleep(Instant::now() + milliseconds(&exchange)),
        b"/wait" => {
            let file = value(&exchange.request(), "file").unwrap_or_default();
            Stage::Wait(file.to_owned(), Instant::now())
        }
        b"/echo" => {
            exchange.start(200, [PLAIN]).ok()?;
            Stage::Echo(Vec::new(), false)
        }
        b"/big" => {
            exchange.start(200, [PLAIN]).ok()?;
            Stage::Big(number(&exchange.request(), "n").unwrap_or(1 << 20), 0)
        }
        b"/stuck" => Stage::Stuck,
        b"/pid" => {
            let answer = format!("{} {}\n", tutti_sys::process::id(), worker.id());
            text(&mut exchange, 200, &answer);
            return None;
        }
        b"/open" => {
            text(&mut exchange, 200, &format!("{}\n", worker.open()));
            return None;
        }
        b"/hand_over" => {
            text(&mut exchange, 200, "for another program\n");
            worker.hand_over();
            return None;
        }
        b"/note" => {
            let line = format!("{}\n", String::from_utf8_lossy(request.query()));
            let written = std::io::stdout().write_all(line.as_bytes());
            text(
                &mut exchange,
                if written.is_ok() { 200 } else { 500 },
                &line,
            );
            return None;
        }
        b"/crash" => std::process::abort(),
        b"/hang" => loop {
            pause(Duration::from_secs(1));
        },
        _ => {
            text(&mut exchange, 200, "Hello from a loop\n");
            return None;
        }
    };
    Some(Task { exchange, stage })
}

impl Task {
    /// Goes on as far as possible; true when it is over.
    fn advance(&mut self) -> bool {
        match self.step() {
            Some(is_over) => is_over,
            None => {
                self.exchange.abort();
                true
            }
        }
    }

    /// `None`: the client has gone.
    fn step(&mut self) -> Option<bool> {
        let exchange = &mut self.exchange;
        match &mut self.stage {
            Stage::Stuck => return Some(false),
            Stage::Sleep(_) if exchange.is_client_gone() => return None,
            Stage::Sleep(until) if *until > Instant::now() => return Some(false),
            Stage::Sleep(_) => {
                text(exchange, 200, "slept\n");
                return Some(true);
            }
            Stage::Wait(file, look) if !is_there(file) => {
                *look = Instant::now() + GLANCE;
                return Some(false);
            }
            Stage::Wait(..) => {
                text(exchange, 200, "waited\n");
                return Some(true);
            }
            Stage::Echo(pending, has_ended) => {
                let mut piece = [0; 4096];
                while !pending.is_empty() || !*has_ended {
                    if pending.is_empty() {
                        match exchange.try_read_body(&mut piece).ok()? {
                            None => {
                                exchange.flush();
                                return Some(false);
                            }
                            Some(0) => *has_ended = true,
                            Some(count) => pending.extend_from_slice(piece.get(..count)?),
                        }
                    }
                    let sent = exchange.try_write(pending).ok()?;
                    if sent == 0 && !pending.is_empty() {
                        return Some(false);
                    }
                    pending.drain(..sent);
                }
            }
            Stage::Big(left, line) => {
                while *left > 0 {
                    let from = *line % 64;
                    let whole = format!("{:063}\n", *line / 64);
                    let rest = whole.as_bytes().get(from as usize..)?;
                    let now = rest.get(..rest.len().min(*left as usize))?;
                    let sent = exchange.try_write(now).ok()? as u64;
                    if sent == 0 {
                        return Some(false);
                    }
                    *left -= sent;
                    *line += sent;
                }
            }
            Stage::Socket(outgoing) => return socket(exchange, outgoing),
        }
        exchange.finish();
        Some(true)
    }
}

/// Echoes messages; `None` when the client has gone.
fn socket(exchange: &mut Exchange, outgoing: &mut Vec<(MessageOpcode, Vec<u8>)>) -> Option<bool> {
    loop {
        while let Some((opcode, rest)) = outgoing.first_mut() {
            match exchange.try_send(*opcode, rest).ok()? {
                None => return Some(false),
                Some(count) if count < rest.len() => {
                    rest.drain(..count);
                }
                Some(_) => {
                    let is_close = *opcode == MessageOpcode::Close;
                    outgoing.remove(0);
                    if is_close {
                        exchange.finish();
                        return Some(true);
                    }
                }
            }
        }
        let reply = match exchange.try_next_message() {
            Incoming::Nothing => return Some(false),
            Incoming::Over => return None,
            Incoming::Message(Message::Text(text)) if text == b"close" => {
                (MessageOpcode::Close, 1000u16.to_be_bytes().to_vec())
            }
            Incoming::Message(Message::Text(text)) => (MessageOpcode::Text, text),
            Incoming::Message(Message::Binary(bytes)) => (MessageOpcode::Binary, bytes),
            Incoming::Message(Message::Close(payload)) => (MessageOpcode::Close, payload),
            Incoming::Message(_) => continue,
        };
        outgoing.push(reply);
    }
}
