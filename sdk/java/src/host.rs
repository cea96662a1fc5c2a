//! Java on the worker base: the prototype looks at everything, its forks start a virtual machine each.

use std::path::PathBuf;

use tutti_worker::{Common, Describe, Exchange, Host, Process, Served, Start, StartError};

use crate::lifecycle::Java;
use crate::{home, jars};

/// The version where there is no Java: its absence is reported when an application wants it, with the cure.
const NO_VERSION: &str = "0";

/// The files that a Java needs beside those in its own folder: Debian has its settings and certificates elsewhere.
const SETTINGS: [&str; 2] = ["/etc", "/etc/ssl/certs/java"];

/// The language.
#[derive(Debug)]
pub enum JavaHost {}

impl Host for JavaHost {
    type App = Java;

    fn describe() -> Describe {
        let version = home::default_home().map(|home| home.version);
        Describe {
            kind: "java".to_owned(),
            version: version
                .filter(|version| !version.is_empty())
                .unwrap_or_else(|| NO_VERSION.to_owned()),
        }
    }

    fn dependencies() -> Vec<PathBuf> {
        let mut all = vec![
            jars::folder(),
            jars::named_folder(),
            PathBuf::from(SETTINGS[1]),
        ];
        if let Some(home) = home::default_home() {
            // `/etc/java-17-openjdk`, which files in the home are links to.
            let name = home
                .folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            let mut settings = name.rsplitn(2, '-');
            let settings = (settings.next(), settings.next());
            if let (Some(_), Some(package)) = settings {
                all.push(PathBuf::from(SETTINGS[0]).join(package));
            }
            all.push(home.folder);
        }
        all
    }

    fn load(start: &Start, common: &Common) -> Result<Java, StartError> {
        Java::prepare(start, common)
    }

    fn process(java: &mut Java, process: &mut Process) -> Result<(), StartError> {
        java.serve(process)
    }

    fn serve(_java: &mut Java, _exchange: &mut Exchange) -> Served {
        // `process` serves, on Java's threads.
        Served::Recycle
    }
}
