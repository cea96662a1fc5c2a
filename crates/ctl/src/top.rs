//! `tutti top`: what a running server does, live.
//!
//! One thread polls `/status` and `/metrics`, another carries out orders, so that keys are handled even if the server
//! does not respond. It stores nothing, and changes only what is requested with a key and confirmed.

mod keys;
mod log_tail;
mod order;
mod samples;
mod view;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::keys::KeyAction;
use self::log_tail::LogTail;
use self::order::Order;
use self::samples::Sample;
use self::view::State;
use super::client::{ControlClient, encode};
use super::control_address::ControlArguments;
use super::report::CommandError;

/// Time to wait for a key before checking for news.
const TURN: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct TopArguments {
    /// Refresh every so many seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = clap::value_parser!(u16).range(1..))]
    interval: u16,
    /// Also show the end of this log
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    control: ControlArguments,
}

/// Messages of the other threads.
enum News {
    Sample(Box<Sample>),
    /// The server does not respond, with the reason in one sentence.
    Silence(String),
    /// The outcome of an order.
    Done(String),
}

pub(crate) fn run(arguments: &TopArguments) -> Result<ExitCode, CommandError> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(CommandError::new("`tutti top` needs a terminal")
            .hint("`tutti status --watch --json` is for programs"));
    }
    // The first sample, before the screen is taken over: faults are reported like those of any other command.
    let first = Sample::now(&arguments.control)?;
    let mut state = State::new(
        first,
        arguments.log.clone().map(LogTail::new),
        super::style::is_colourful(),
    );
    let (sender, news) = mpsc::channel();
    let pause = Duration::from_secs(arguments.interval.into());
    // Dropping it at the end ends the thread.
    let (_ends, ended) = mpsc::channel();
    look(arguments.control.clone(), pause, ended, sender.clone());
    // It restores the terminal even after a panic.
    let mut terminal = ratatui::init();
    let outcome = show(&mut terminal, &mut state, &news, |order| {
        carry_out(arguments.control.clone(), order, sender.clone());
    });
    ratatui::restore();
    match outcome {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(CommandError::new(format!("the terminal is gone: {error}"))),
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    state: &mut State,
    news: &Receiver<News>,
    order: impl Fn(Order),
) -> io::Result<()> {
    loop {
        terminal.draw(|frame| state.draw(frame))?;
        if event::poll(TURN)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match keys::pressed(state, key) {
                KeyAction::Nothing => {}
                KeyAction::End => return Ok(()),
                KeyAction::Order(wanted) => {
                    state.say(wanted.under_way());
                    order(wanted);
                }
            }
        }
        for news in news.try_iter() {
            match news {
                News::Sample(sample) => state.add(*sample),
                News::Silence(why) => state.is_silent(why),
                News::Done(what) => state.say(what),
            }
        }
    }
}

/// Polls the server as long as there is a receiver.
fn look(control: ControlArguments, pause: Duration, ended: Receiver<()>, news: Sender<News>) {
    thread::spawn(move || {
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let begun = Instant::now();
            let item = match Sample::now(&control) {
                Ok(sample) => News::Sample(Box::new(sample)),
                Err(failure) => {
                    let seconds = begun.elapsed().as_secs();
                    News::Silence(format!("{} ({seconds} s)", failure.message()))
                }
            };
            if news.send(item).is_err() {
                return;
            }
        }
    });
}

fn carry_out(control: ControlArguments, order: Order, news: Sender<News>) {
    thread::spawn(move || {
        let Order::Restart(name) = &order;
        let path = format!("/control/applications/{}/restart", encode(name));
        let done = ControlClient::new(&control).and_then(|client| {
            let answer = client.call("GET", &path, None, None)?;
            answer.succeeded(None)
        });
        let text = match done {
            Ok(()) => format!("application {name} restarted"),
            Err(failure) => format!("application {name}: {}", failure.message()),
        };
        // The receiver may be gone.
        let _ = news.send(News::Done(text));
    });
}
