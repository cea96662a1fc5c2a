//! An application that Tutti runs, without tower: the crate `tutti-worker` alone, one request at a time. It sends early hints before its
//! answer, and a sum of the body behind it; where the query is `plain`, no field of the head names that.

use std::error::Error;
use std::process::ExitCode;

use tutti_worker::{Exchange, Process, Served};

const BODY: &[&[u8]] = &[b"who", b"le"];

fn answer(exchange: &Exchange) -> Result<(), Box<dyn Error>> {
    let link = (&b"Link"[..], &b"</a.css>; rel=preload; as=style"[..]);
    exchange.interim(103, [link])?;
    // Here the page is made, which takes its time.
    let announced = [(&b"Trailer"[..], &b"X-Sum"[..])];
    match exchange.request().query() {
        b"plain" => exchange.start(200, [])?,
        _ => exchange.start(200, announced)?,
    }
    let mut sum = 0;
    for piece in BODY {
        exchange.write(piece)?;
        sum += piece.len();
    }
    let sum = sum.to_string();
    exchange.trailers([(&b"X-Sum"[..], sum.as_bytes())])?;
    Ok(())
}

fn main() -> ExitCode {
    let mut process = match Process::from_environment() {
        Ok(Some(process)) => process,
        Ok(None) => {
            eprintln!("this program is an application of Tutti: configure it as `external`");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let served = process.serve_alone(|requests| {
        requests.ready();
        while let Some(mut exchange) = requests.next_request() {
            match answer(&exchange) {
                Ok(()) => exchange.finish(),
                Err(error) => {
                    eprintln!("{error}");
                    exchange.abort();
                }
            }
            requests.done(exchange, Served::Again);
        }
        Ok(())
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
