//! Java.

use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common, Threads};
use crate::table::{Text, ValueKind};
use crate::{Complaints, Options, options, words};

options! {
    /// A Java application (servlets)
    pub struct Java: JAVA = "java", beside [Common::ROWS] {
        ..threads: Threads,
        /// The .war file, packed or not
        webapp: PathBuf [required()],
        /// More libraries: .jar files, or folders of classes or .jar files
        classpath: Vec<PathBuf> [],
        /// Options of the virtual machine
        options: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::Argument)))],
        /// the server's own .jar files come with its package
        unit_jars: Option<PathBuf> [ignored()],
        /// Version of the servlet API: 4.0 is `javax.servlet`, 5.0 to 6.1 are `jakarta.servlet`; detected from the
        /// application if unset
        servlet: Option<Servlet> [beyond()],
        /// Folder of the Java installation to use; by default that of `JAVA_HOME`, of `java` in `PATH`, or the newest
        /// in `/usr/lib/jvm`
        java_home: Option<PathBuf> [beyond()],
        /// Handle each request in a virtual thread (Java 21 or later); `threads` then only accept requests
        virtual_threads: bool [beyond(), default("false")],
        /// Accept paths with parameters (`/cars;color=red`); otherwise they get 400, except for `;jsessionid=` at the
        /// end
        path_parameters: bool [beyond(), default("false"), risky("true", "conditions see `/admin;x/y` as it is, and the application as `/admin/y`: a `uri` that protects `/admin/*` does not match it")],
    }
}

words! {
    /// A version of the servlet API.
    pub enum Servlet {
        /// `javax.servlet`: Java EE 8, and what was before it.
        Javax4 = "4.0",
        /// `jakarta.servlet` of Jakarta EE 9.
        Jakarta5 = "5.0",
        /// That of Jakarta EE 10.
        Jakarta6 = "6.0",
        /// That of Jakarta EE 11.
        Jakarta61 = "6.1",
    }
}

impl ApplicationSupport for Java {
    const HAS_VERSIONS: bool = true;
    const MAY_TAKE_OVER: bool = true;
    const READS_MEMORY_LIMIT: bool = true;

    fn check(&self, complaints: &mut Complaints<'_>) {
        self.threads.check(complaints);
    }

    fn threads(&self) -> NonZeroU32 {
        self.threads.threads
    }

    fn watched(&self) -> Vec<PathBuf> {
        let libraries = self.classpath.iter().cloned();
        [self.webapp.clone()].into_iter().chain(libraries).collect()
    }
}
