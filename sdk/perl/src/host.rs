//! Perl on the worker base: the prototype starts an interpreter, its forks load the script and serve.

use tutti_worker::{Describe, Exchange, Host, Served, Start, StartError};

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

    fn load(start: &Start) -> Result<Perl, StartError> {
        Perl::start(&start.config, start.preload)
    }

    fn worker_started(perl: &mut Perl, _worker: u32) -> Result<(), StartError> {
        perl.worker_started()
    }

    fn serve(perl: &mut Perl, exchange: &mut Exchange) -> Served {
        perl.serve(exchange)
    }
}
