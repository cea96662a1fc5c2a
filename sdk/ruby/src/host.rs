//! Ruby on the worker base: the prototype starts ruby, its forks load the script and serve.

use std::io;
use std::path::PathBuf;

use tutti_worker::{Common, Describe, Exchange, Fork, Host, Process, Served, Start, StartError};

use crate::ffi;
use crate::lifecycle::Ruby;

/// The language.
#[derive(Debug)]
pub enum RubyHost {}

impl Host for RubyHost {
    type App = Ruby;

    fn describe() -> Describe {
        Describe {
            kind: "ruby".to_owned(),
            version: env!("TUTTI_RUBY_VERSION").to_owned(),
        }
    }

    fn dependencies() -> Vec<PathBuf> {
        let folders = env!("TUTTI_RUBY_FOLDERS").split(':');
        let folders = folders.filter(|folder| folder.starts_with('/'));
        folders.map(PathBuf::from).collect()
    }

    fn load(start: &Start, common: &Common) -> Result<Ruby, StartError> {
        Ruby::start(&start.config, common)
    }

    fn fork() -> io::Result<Fork> {
        match ffi::fork() {
            0 => Ok(Fork::Child),
            pid if pid > 0 => Ok(Fork::Parent(pid)),
            _ => Err(io::Error::other("ruby could not fork")),
        }
    }

    fn worker_started(ruby: &mut Ruby, _worker: u32) -> Result<(), StartError> {
        ruby.worker_started()
    }

    fn process(ruby: &mut Ruby, process: &mut Process) -> Result<(), StartError> {
        ruby.serve(process)
    }

    fn serve(_ruby: &mut Ruby, _exchange: &mut Exchange) -> Served {
        // `process` serves, on ruby's threads.
        Served::Recycle
    }
}
