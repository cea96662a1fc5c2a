//! The cost of metrics: the time that a request's counting takes (P41).
//!
//! `cargo bench -p tutti-request-log --bench count`. Prints medians of batches, in the form that `bench/harness` reads. It does what the
//! server's connections do when a request has ended: the listener's class, that of its answerer with the time it took, that of its route.

#![allow(
    missing_docs,
    clippy::print_stdout,
    reason = "a program that prints figures"
)]

use std::hint::black_box;
use std::time::Instant;

use tutti_metrics::{Classes, Measured, PerThread};
use tutti_request_log::{Answerer, ResponseCounts};

const BATCHES: usize = 200;
const REQUESTS: usize = 5_000;
/// Applications and routes of the larger configuration: 1 KB of cells each, more than a core's first cache holds.
const MANY: usize = 200;

fn main() {
    for names in [1, MANY] {
        let applications: Vec<String> = (0..names).map(|number| format!("app-{number}")).collect();
        let routes: Vec<String> = (0..names)
            .map(|number| format!("routes/{number}"))
            .collect();
        let counts = ResponseCounts::new(2).of(
            applications.iter().map(String::as_str),
            [].into_iter(),
            routes.iter().map(String::as_str),
        );
        let listener = PerThread::<Classes>::new(2);
        let mut next = 0;
        // With the clock reading that an answer needs to know how long it took.
        let mut begun = Instant::now();
        measure(
            &format!("metrics: a request, applications: {names}"),
            || {
                next = (next + 7) % names;
                if let Some(classes) = listener.of(0) {
                    classes.add(200);
                }
                let now = Instant::now();
                let took = Measured::from(now - std::mem::replace(&mut begun, now));
                counts.note(0, Answerer::Application(next), 200, took);
                counts.note_route(0, next, 200, took);
            },
        );
        counts.each(|_, answers| {
            black_box(answers);
        });
    }
}

/// Runs batches, and prints the median of what one of each takes.
fn measure(what: &str, mut count: impl FnMut()) {
    let mut times: Vec<u128> = (0..BATCHES)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..REQUESTS {
                count();
            }
            begun.elapsed().as_nanos() / REQUESTS as u128
        })
        .collect();
    times.sort_unstable();
    let at = |part: usize| {
        times
            .get(times.len() * part / 100)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{what}   median {} ns ({}..{})  p99 {} ns",
        at(50),
        at(0),
        at(90),
        at(99)
    );
}
