//! The web application as a file or folder: is it one, and of which servlet generation.
//!
//! Looked at before a virtual machine is started, whose class path depends on it. What must never happen: something that is no web
//! application being served as a folder of files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rawzip::ReaderAt;
use tutti_options::java::Servlet;
use tutti_worker::StartError;

use crate::archive::Archive;

/// The longest `web.xml` and class that are looked at.
const LONGEST_FILE: u64 = 4 << 20;
/// The longest library inside a WAR that is looked at.
const LONGEST_LIBRARY: u64 = 64 << 20;

/// The generation where nothing tells: a web application without any class of its own (JSP pages, files).
const UNTOLD: Servlet = Servlet::Jakarta6;

/// A web application.
#[derive(Debug)]
pub(crate) struct Webapp {
    /// Absolute.
    pub(crate) path: PathBuf,
    /// The servlet API that it is made for.
    pub(crate) servlet: Servlet,
}

/// Looks at the web application at `given`; its servlet generation is `chosen`, or told by what is in it.
pub(crate) fn find(given: &Path, chosen: Option<Servlet>) -> Result<Webapp, StartError> {
    let step = format!("looking for the web application `{}`", given.display());
    let failed =
        |message: &dyn std::fmt::Display| StartError::new(step.as_str(), message).member("webapp");
    let path = std::path::absolute(given).map_err(|error| failed(&error))?;
    let about = fs::metadata(&path).map_err(|error| {
        failed(&error).hint(match error.kind() {
            io::ErrorKind::NotFound => {
                "a relative `webapp` starts at `working_directory`".to_owned()
            }
            _ => format!(
                "the application's user must be allowed to reach `{}`",
                path.display()
            ),
        })
    })?;
    let found = match about.is_dir() {
        true => in_folder(&path),
        false => in_file(&path),
    }
    .map_err(|unfit| match unfit {
        Unfit::Unreadable(error) => failed(&error).hint("it must be a whole .war file, or an unpacked one, that the application's user may read"),
        Unfit::Not(what) => {
            let hint = what.hint(&path);
            failed(&what.message()).hint(hint)
        }
    })?;
    let servlet = chosen.unwrap_or(found.servlet);
    if let Some(other) = found.uses.other_than(servlet) {
        // Its servlets would not be found, and no message would say so.
        let message = format!(
            "its classes use `{other}.servlet`, which version {} of the servlet API is not",
            servlet.word()
        );
        let member = match chosen {
            Some(_) => "servlet",
            None => "webapp",
        };
        return Err(StartError::new(step, message).member(member).hint(
            "leave the option out, or name the version that the application is compiled for: 4.0 is `javax`, later ones are `jakarta`",
        ));
    }
    Ok(Webapp { path, servlet })
}

/// The servlet generation of an application, and what its classes use, if they were looked at.
#[derive(Debug)]
struct Found {
    servlet: Servlet,
    uses: Uses,
}

/// Something that is no web application.
enum What {
    /// A Spring Boot jar, or another program that brings its server.
    Program,
    /// A library, or an archive of something else.
    Archive,
    Folder,
    /// A project's sources.
    Sources,
}

impl What {
    fn message(&self) -> &'static str {
        match self {
            What::Program => {
                "it is a program with a server of its own, no web application: there is no `WEB-INF` in it"
            }
            What::Archive => "it is no web application: there is no `WEB-INF` in it",
            What::Folder => "it is no web application: there is no folder `WEB-INF` in it",
            What::Sources => {
                "it is a project's sources, no web application: there is no folder `WEB-INF` in it"
            }
        }
    }

    fn hint(&self, path: &Path) -> String {
        match self {
            What::Program => format!(
                "run it as it is, here for Spring Boot: {{\"type\": \"external\", \"protocol\": \"http\", \"executable\": \"/usr/bin/java\", \"arguments\": [\"-jar\", \"{}\", \"--server.port=${{PORT}}\"]}}; or build a .war",
                path.display()
            ),
            What::Archive => "name a .war file".to_owned(),
            What::Folder => "name the .war file, or the folder it is unpacked in".to_owned(),
            What::Sources => "build it (`mvn package`, `gradle war`) and name the .war file that comes out, in `target` or `build/libs`".to_owned(),
        }
    }
}

enum Unfit {
    Unreadable(io::Error),
    Not(What),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        Unfit::Unreadable(error)
    }
}

fn in_folder(folder: &Path) -> Result<Found, Unfit> {
    let inside = folder.join("WEB-INF");
    if !inside.is_dir() {
        let is_project = ["pom.xml", "build.gradle", "build.gradle.kts"]
            .iter()
            .any(|name| folder.join(name).is_file());
        return Err(Unfit::Not(match is_project {
            true => What::Sources,
            false => What::Folder,
        }));
    }
    let told = read_file(&inside.join("web.xml")).ok();
    let told = told.as_deref().and_then(from_descriptor);
    let mut uses = Uses::default();
    look_into_folder(&inside.join("classes"), &mut uses);
    if told.is_none() && uses.none() {
        for library in sorted(&inside.join("lib")) {
            if library.extension().is_some_and(|ending| ending == "jar") {
                let opened = File::open(&library).and_then(Archive::open);
                // The class loader complains of one that cannot be read.
                if let Ok(mut library) = opened {
                    uses.look_into(&mut library, "");
                }
            }
            if !uses.none() {
                break;
            }
        }
    }
    Ok(uses.found(told))
}

fn in_file(path: &Path) -> Result<Found, Unfit> {
    let mut archive = Archive::open(File::open(path)?)?;
    if !archive.has_folder("WEB-INF/") {
        let is_program = archive.has_folder("BOOT-INF/") || is_program(&mut archive);
        return Err(Unfit::Not(match is_program {
            true => What::Program,
            false => What::Archive,
        }));
    }
    let entries = archive.entries.clone();
    let descriptor = entries.iter().find(|entry| entry.name == "WEB-INF/web.xml");
    let text = descriptor
        .map(|descriptor| archive.read(descriptor, LONGEST_FILE))
        .transpose()?;
    let told = text.as_deref().and_then(from_descriptor);
    let mut uses = Uses::default();
    uses.look_into(&mut archive, "WEB-INF/classes/");
    if told.is_none() && uses.none() {
        let is_library = |name: &str| name.starts_with("WEB-INF/lib/") && name.ends_with(".jar");
        for entry in entries.iter().filter(|entry| is_library(&entry.name)) {
            let bytes = archive.read(entry, LONGEST_LIBRARY)?;
            if let Ok(mut library) = Archive::of(bytes) {
                uses.look_into(&mut library, "");
            }
            if !uses.none() {
                break;
            }
        }
    }
    Ok(uses.found(told))
}

/// True if it can be run by `java -jar`.
fn is_program<R: ReaderAt>(archive: &mut Archive<R>) -> bool {
    let entries = archive.entries.clone();
    let manifest = entries
        .iter()
        .find(|entry| entry.name == "META-INF/MANIFEST.MF");
    manifest
        .and_then(|entry| archive.read(entry, LONGEST_FILE).ok())
        .is_some_and(|text| memchr::memmem::find(&text, b"Main-Class:").is_some())
}

/// The generation that `web.xml` tells by its namespace and version (Jakarta Servlet, 14.4; the schemas' own history).
fn from_descriptor(text: &[u8]) -> Option<Servlet> {
    let text = String::from_utf8_lossy(text);
    let start = text.find("<web-app")?;
    let element = text.get(start..)?;
    let element = element.get(..element.find('>')?)?;
    let is_jakarta = element.contains("jakarta.ee/xml/ns/jakartaee");
    let version = attribute(element, "version");
    match (is_jakarta, version) {
        (true, Some("5.0")) => Some(Servlet::Jakarta5),
        (true, Some("6.0")) => Some(Servlet::Jakarta6),
        (true, _) => Some(Servlet::Jakarta61),
        _ => {
            let is_javax = element.contains("xmlns.jcp.org/xml/ns/javaee")
                || element.contains("java.sun.com/xml/ns/");
            // Before there were namespaces there was a DTD.
            let has_dtd = text
                .get(..start)
                .is_some_and(|prolog| prolog.contains("java.sun.com/"));
            (is_javax || has_dtd).then_some(Servlet::Javax4)
        }
    }
}

/// The value of an attribute of an element.
fn attribute<'t>(element: &'t str, name: &str) -> Option<&'t str> {
    element.match_indices(name).find_map(|(at, _)| {
        let is_whole = element
            .get(..at)?
            .ends_with(|before: char| before.is_ascii_whitespace());
        let rest = element.get(at + name.len()..)?.trim_start();
        let rest = rest.strip_prefix('=')?.trim_start();
        let quote = rest.chars().next().filter(|quote| "'\"".contains(*quote))?;
        let value = rest.get(1..)?;
        is_whole.then(|| value.get(..value.find(quote)?)).flatten()
    })
}

/// The servlet APIs that classes name.
#[derive(Debug, Default)]
struct Uses {
    javax: u32,
    jakarta: u32,
}

impl Uses {
    fn none(&self) -> bool {
        self.javax + self.jakarta == 0
    }

    /// The generation that the descriptor tells, unless the classes are all of another: many a descriptor was forgotten when its
    /// application went from `javax` to `jakarta`.
    fn found(self, told: Option<Servlet>) -> Found {
        let told = told.filter(|&told| self.other_than(told).is_none());
        Found {
            servlet: told.unwrap_or_else(|| self.servlet()),
            uses: self,
        }
    }

    /// The API that is used where this one is not.
    fn other_than(&self, servlet: Servlet) -> Option<&'static str> {
        match (self.javax, self.jakarta, servlet) {
            (0, 1.., Servlet::Javax4) => Some("jakarta"),
            (_, _, Servlet::Javax4) => None,
            (1.., 0, _) => Some("javax"),
            _ => None,
        }
    }

    fn servlet(&self) -> Servlet {
        match (self.javax, self.jakarta) {
            (0, 0) => UNTOLD,
            (javax, jakarta) if javax > jakarta => Servlet::Javax4,
            _ => UNTOLD,
        }
    }

    /// Names are in a class's constants as they are (JVMS 4.4.7).
    fn look_at(&mut self, class: &[u8]) {
        let names = |names: [&[u8]; 2]| {
            let is_named = |name: &&[u8]| memchr::memmem::find(class, name).is_some();
            u32::from(names.iter().any(is_named))
        };
        self.javax += names([b"javax/servlet/", b"javax/websocket/"]);
        self.jakarta += names([b"jakarta/servlet/", b"jakarta/websocket/"]);
    }

    fn look_into<R: ReaderAt>(&mut self, archive: &mut Archive<R>, folder: &str) {
        let entries = archive.entries.clone();
        let is_class = |name: &str| name.starts_with(folder) && name.ends_with(".class");
        for entry in entries.iter().filter(|entry| is_class(&entry.name)) {
            if let Ok(class) = archive.read(entry, LONGEST_FILE) {
                self.look_at(&class);
            }
        }
    }
}

fn look_into_folder(folder: &Path, uses: &mut Uses) {
    for path in sorted(folder) {
        if path.is_dir() {
            look_into_folder(&path, uses);
        } else if path.extension().is_some_and(|ending| ending == "class")
            && let Ok(class) = read_file(&path)
        {
            uses.look_at(&class);
        }
    }
}

/// The files of a folder in order; none of one that cannot be read.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(LONGEST_FILE)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::archive;

    const JAVAX: &[u8] = b"\xca\xfe\xba\xbe..javax/servlet/http/HttpServlet..";
    const JAKARTA: &[u8] = b"\xca\xfe\xba\xbe..jakarta/servlet/http/HttpServlet..";

    fn told(files: &[(&str, &[u8])]) -> Result<Servlet, StartError> {
        let folder = tempfile::tempdir().unwrap();
        let war = folder.path().join("app.war");
        fs::write(&war, archive(files)).unwrap();
        let packed = find(&war, None).map(|webapp| webapp.servlet);
        let unpacked = folder.path().join("app");
        fs::create_dir(&unpacked).unwrap();
        for (name, bytes) in files {
            let path = unpacked.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let other = find(&unpacked, None).map(|webapp| webapp.servlet);
        assert_eq!(packed.as_ref().ok(), other.as_ref().ok());
        packed
    }

    #[test]
    fn the_descriptor_tells_the_generation() {
        let dtd = "<!DOCTYPE web-app PUBLIC \"-//Sun//DTD\" \"http://java.sun.com/dtd/web-app_2_3.dtd\">\n<web-app>";
        for (start, servlet) in [
            (
                "<web-app xmlns=\"http://xmlns.jcp.org/xml/ns/javaee\" version=\"4.0\">",
                Servlet::Javax4,
            ),
            (
                "<web-app xmlns='http://java.sun.com/xml/ns/j2ee' version='2.4'>",
                Servlet::Javax4,
            ),
            (dtd, Servlet::Javax4),
            (
                "<?xml version=\"1.0\"?>\n<web-app xmlns=\"https://jakarta.ee/xml/ns/jakartaee\"\n version=\"5.0\">",
                Servlet::Jakarta5,
            ),
            (
                "<web-app version = '6.0' xmlns='https://jakarta.ee/xml/ns/jakartaee'>",
                Servlet::Jakarta6,
            ),
            (
                "<web-app xmlns='https://jakarta.ee/xml/ns/jakartaee' version='6.1'>",
                Servlet::Jakarta61,
            ),
        ] {
            let files: &[(&str, &[u8])] = &[
                ("WEB-INF/web.xml", start.as_bytes()),
                ("WEB-INF/classes/A.class", b"nothing"),
            ];
            assert_eq!(told(files).unwrap(), servlet, "{start}");
        }
    }

    #[test]
    fn classes_tell_where_the_descriptor_does_not() {
        let bare = b"<web-app></web-app>".as_slice();
        let javax_library = archive(&[("a/B.class", b"none"), ("a/C.class", JAVAX)]);
        for (files, servlet) in [
            (
                vec![
                    ("WEB-INF/web.xml", bare),
                    ("WEB-INF/classes/a/A.class", JAVAX),
                ],
                Servlet::Javax4,
            ),
            (
                vec![("WEB-INF/classes/A.class", JAKARTA)],
                Servlet::Jakarta6,
            ),
            (
                vec![
                    (
                        "WEB-INF/web.xml",
                        b"<web-app xmlns='http://java.sun.com/xml/ns/javaee' version='3.0'>"
                            .as_slice(),
                    ),
                    ("WEB-INF/classes/A.class", JAKARTA),
                ],
                Servlet::Jakarta6,
            ),
            // The application's own classes count before its libraries.
            (
                vec![
                    ("WEB-INF/lib/l.jar", javax_library.as_slice()),
                    ("WEB-INF/classes/A.class", JAKARTA),
                ],
                Servlet::Jakarta6,
            ),
            (
                vec![
                    ("WEB-INF/classes/A.class", b"none".as_slice()),
                    ("WEB-INF/lib/l.jar", &javax_library),
                ],
                Servlet::Javax4,
            ),
            (
                vec![("WEB-INF/web.xml", bare), ("a.jsp", b"hello")],
                Servlet::Jakarta6,
            ),
        ] {
            assert_eq!(told(&files).unwrap(), servlet, "{files:?}");
        }
    }

    /// unit#869: a Spring Boot jar was taken for a web application, and its files were listed.
    #[test]
    fn what_is_no_web_application_is_refused_with_the_cure() {
        for (files, message, hint) in [
            (
                vec![("BOOT-INF/classes/A.class", b"x".as_slice())],
                "`WEB-INF`",
                "",
            ),
            (vec![("a/B.class", b"x".as_slice())], "`WEB-INF`", ".war"),
        ] {
            let error = told(&files).unwrap_err();
            assert!(error.message.contains(message), "{error}");
            assert!(error.hint.as_deref().unwrap().contains(hint), "{error:?}");
            assert_eq!(error.member.as_deref(), Some("webapp"));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("boot.jar"), archive(&[("BOOT-INF/lib/x.jar", b"x")])).unwrap();
        let boot = find(&path("boot.jar"), None).unwrap_err();
        assert!(boot.hint.unwrap().contains("\"protocol\": \"http\""));
        let manifest = archive(&[("META-INF/MANIFEST.MF", b"Main-Class: a.B\n")]);
        fs::write(path("main.jar"), manifest).unwrap();
        let program = find(&path("main.jar"), None).unwrap_err();
        assert!(program.message.contains("a server of its own"), "{program}");
        fs::write(path("text.war"), "text").unwrap();
        let text = find(&path("text.war"), None).unwrap_err();
        assert!(text.message.contains("no archive"), "{text}");
        fs::write(path("pom.xml"), "").unwrap();
        let sources = find(folder.path(), None).unwrap_err();
        assert!(sources.hint.unwrap().contains("mvn package"));
        let absent = find(&path("absent.war"), None).unwrap_err();
        assert!(absent.hint.unwrap().contains("working_directory"));
    }

    #[test]
    fn an_option_decides_over_what_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("WEB-INF")).unwrap();
        let webapp = find(folder.path(), Some(Servlet::Javax4)).unwrap();
        assert_eq!(webapp.servlet, Servlet::Javax4);
        assert!(webapp.path.is_absolute());
        let classes = folder.path().join("WEB-INF/classes");
        fs::create_dir(&classes).unwrap();
        fs::write(classes.join("A.class"), JAKARTA).unwrap();
        let error = find(folder.path(), Some(Servlet::Javax4)).unwrap_err();
        assert!(error.message.contains("`jakarta.servlet`"), "{error}");
        assert_eq!(error.member.as_deref(), Some("servlet"));
    }
}
