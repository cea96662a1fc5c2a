//! The command: which seeds to run, and what to report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::plan::Plan;
use crate::run::{Report, kept, run};

/// The arguments.
#[derive(Debug, Default)]
struct Asked {
    first: u64,
    last: u64,
    seconds: Option<u64>,
    is_traced: bool,
    /// Each seed is run twice, and both runs must be the same.
    is_repeated: bool,
}

fn parse(words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        first: 1,
        last: 1000,
        ..Asked::default()
    };
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let number = || {
            let number = value.parse::<u64>();
            number.map_err(|_| format!("`{word}`: `{value}` is no number"))
        };
        match name {
            "SEEDS" if value == "new" => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                asked.first = since.unwrap_or_default().as_secs() * 1_000_000;
                asked.last = u64::MAX;
            }
            "SEEDS" => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                let bound = |text: &str| {
                    let number = text.parse::<u64>();
                    number.map_err(|_| format!("`{word}`: `{text}` is no number"))
                };
                (asked.first, asked.last) = (bound(first)?, bound(last)?);
            }
            "SECONDS" => asked.seconds = Some(number()?),
            "TRACE" => asked.is_traced = number()? > 0,
            "TWICE" => asked.is_repeated = number()? > 0,
            _ => return Err(format!("`{word}` is none of SEEDS, SECONDS, TRACE, TWICE")),
        }
    }
    Ok(asked)
}

/// The seeds that have failed once, each of which is a test now.
fn kept_seeds() -> Vec<u64> {
    let text = std::fs::read_to_string(kept()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect()
}

#[derive(Debug, Default)]
struct Totals {
    runs: u64,
    requests: u64,
    responses: u64,
    errors: u64,
    refused: u64,
    gone: u64,
    kills: u64,
    restarts: u64,
    upgrades: u64,
    steps: u64,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.steps += report.steps;
        let counts = &report.counts;
        self.requests += counts.requests;
        self.responses += counts.responses;
        self.errors += counts.errors;
        self.refused += counts.refused;
        self.gone += counts.gone;
        self.kills += counts.kills;
        self.restarts += counts.restarts;
        self.upgrades += counts.upgrades;
    }
}

pub(crate) fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("{problem}\nhint: SEEDS=1-1000 SECONDS=60 TRACE=1");
            return ExitCode::FAILURE;
        }
    };
    let begun = Instant::now();
    let mut totals = Totals::default();
    let is_single = asked.first == asked.last;
    let kept = if is_single { Vec::new() } else { kept_seeds() };
    for seed in kept.into_iter().chain(asked.first..=asked.last) {
        if asked
            .seconds
            .is_some_and(|seconds| used() >= seconds as f64)
        {
            break;
        }
        match once(seed, asked.is_traced) {
            Some(report) => totals.add(&report),
            None => return ExitCode::FAILURE,
        }
        if asked.is_repeated && !is_the_same(seed) {
            return ExitCode::FAILURE;
        }
    }
    println!("{totals:?}");
    println!(
        "{} simulated requests in {:.1} s: {:.0} for each second of processor time",
        totals.requests,
        begun.elapsed().as_secs_f64(),
        totals.requests as f64 / used()
    );
    ExitCode::SUCCESS
}

/// Seconds of processor time of this program. A busy machine runs the same seeds.
fn used() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn once(seed: u64, is_traced: bool) -> Option<Report> {
    // By a hook, since an unwinding run may well end the program.
    let is_damaged = Plan::of(seed).is_damaged();
    std::panic::set_hook(Box::new(move |panic| {
        if is_damaged && tutti_simulated::is_process() {
            // A worker that fails at what another has damaged.
            return;
        }
        let commit = std::env::var("TUTTI_COMMIT").unwrap_or_else(|_| "unknown".to_owned());
        eprintln!("simulation: {panic}");
        eprintln!(
            "seed {seed} breaks a rule at step {}, commit {commit}; hint: `make sim SEEDS={seed} TRACE=1` shows each step",
            tutti_simulated::step_number()
        );
    }));
    let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, is_traced)));
    outcome.ok()
}

fn is_the_same(seed: u64) -> bool {
    let digests: Vec<u64> = (0..2)
        .filter_map(|_| once(seed, false))
        .map(|report| report.digest)
        .collect();
    let is_same = digests.len() == 2 && digests[0] == digests[1];
    if !is_same {
        println!("simulation: two runs of seed {seed} differ: {digests:?}");
    }
    is_same
}
