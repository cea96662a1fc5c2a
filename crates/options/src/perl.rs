//! Perl.

use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common, Threads, with_folder};
use crate::{Complaints, Options, options};

options! {
    /// A Perl application (PSGI)
    pub struct Perl: PERL = "perl", beside [Common::ROWS] {
        ..threads: Threads,
        /// PSGI script
        script: PathBuf [required()],
    }
}

impl ApplicationSupport for Perl {
    const HAS_VERSIONS: bool = true;

    fn check(&self, complaints: &mut Complaints<'_>) {
        self.threads.check(complaints);
    }

    fn threads(&self) -> NonZeroU32 {
        self.threads.threads
    }

    fn watched(&self) -> Vec<PathBuf> {
        with_folder(&self.script)
    }
}
