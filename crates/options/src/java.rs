//! Java.

use std::path::PathBuf;

use crate::application::{Application, Common, Threads};
use crate::table::{Kind, Support, Text};
use crate::{Complaints, Options, options};

options! {
    /// A Java application (servlets)
    pub struct Java: JAVA = "java", beside [Common::ROWS] {
        ..threads: Threads,
        /// The .war file, packed or not
        webapp: PathBuf [required()],
        /// Libraries
        classpath: Vec<PathBuf> [],
        /// Options of the virtual machine
        options: Vec<String> [kind(Kind::Array(&Kind::String(Text::Any)))],
        /// Folder of the server's own .jar files
        unit_jars: Option<PathBuf> [],
    }
}

impl Application for Java {
    const HAS_VERSIONS: bool = true;
    const SUPPORT: Support = Support::Later;

    fn check(&self, complaints: &mut Complaints<'_>) {
        self.threads.check(complaints);
    }

    fn threads(&self) -> u32 {
        self.threads.threads
    }

    fn watched(&self) -> Vec<PathBuf> {
        let libraries = self.classpath.iter().cloned();
        [self.webapp.clone()].into_iter().chain(libraries).collect()
    }
}
