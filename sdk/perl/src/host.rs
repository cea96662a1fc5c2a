//! Perl on the worker base: the prototype starts an interpreter, its forks load the script and serve.

use std::path::PathBuf;

use tutti_worker::{Common, Describe, Exchange, Host, Process, Served, Start, StartError};

use crate::lifecycle::Perl;

/// The language.
#[derive(Debug)]
pub enum PerlHost {}

impl Host for PerlHost {
    type App = Perl;

    fn describe() -> Describe {
        Describe {
            kind: "perl".to_owned(),
            version: env!("TUTTI_PERL_VERSION").to_owned(),
        }
    }

    fn dependencies() -> Vec<PathBuf> {
        env!("TUTTI_PERL_FOLDERS")
            .split(':')
            .map(PathBuf::from)
            .collect()
    }

    fn load(start: &Start, common: &Common) -> Result<Perl, StartError> {
        Perl::start(&start.config, common)
    }

    fn worker_started(perl: &mut Perl, _worker: u32) -> Result<(), StartError> {
        perl.worker_started()
    }

    fn process(perl: &mut Perl, process: &mut Process) -> Result<(), StartError> {
        if process.threads() > 1 {
            return perl.serve_threads(process);
        }
        process.serve_alone(|requests| Self::run(perl, requests))
    }

    fn serve(perl: &mut Perl, exchange: &mut Exchange) -> Served {
        perl.serve(exchange)
    }
}
