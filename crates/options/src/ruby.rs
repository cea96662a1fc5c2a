//! Ruby.

use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common, Threads, with_folder};
use crate::{Complaints, Options, options};

options! {
    /// A Ruby application (Rack)
    pub struct Ruby: RUBY = "ruby", beside [Common::ROWS] {
        ..threads: Threads,
        /// Rack script
        script: PathBuf [required()],
        /// Script with the hooks of a worker's life
        hooks: Option<PathBuf> [],
    }
}

impl ApplicationSupport for Ruby {
    const HAS_VERSIONS: bool = true;
    const MAY_TAKE_OVER: bool = true;

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
