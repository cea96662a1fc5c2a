//! `.htaccess`: files in the folders of a site with further directives, where `AllowOverride` allows them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::closing::REFUSES;
use super::grammar::Directive;
use super::section::{Folder, Section, Stage, below};
use super::site::Site;
use super::tree::Reader;
use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::words::Words;

/// Folders within folders that are looked at.
const DEEPEST_FOLDER: usize = 64;

/// Sections of all these files of a site; a product of PHP has some dozens.
const MOST_SECTIONS: usize = 1000;

/// Folders and files of a site that are looked at.
const MOST_FOLDERS: usize = 100_000;

/// The sections of all files of a site.
pub(super) fn read(
    reader: &mut Reader<'_>,
    site: &Site,
    findings: &mut Findings,
) -> Result<Vec<Section>, UnreadableSource> {
    let allows = |folder: &str| {
        let mut about = site
            .sections
            .iter()
            .rev()
            // Apache reads the files before it merges the sections of expressions.
            .filter(|section| section.stage == Stage::Folder)
            .filter(|section| match &section.folder {
                Some(Folder::Path(path)) => below(path, folder).is_some(),
                Some(Folder::Match(source)) => matches(source, folder),
                _ => false,
            });
        about
            .find_map(|section| {
                let said = || section.directives.iter();
                let list = said().rfind(|one| one.is("allowoverridelist") && allows_some(one));
                list.or_else(|| said().rfind(|one| one.is("allowoverride")))
            })
            .filter(|allow| allows_some(allow))
    };
    let name = site
        .setting("accessfilename")
        .map_or(".htaccess", |named| named.argument(0))
        .to_owned();
    let mut found: Vec<Section> = Vec::new();
    for mapping in &site.mappings {
        // Without a permission for it, a folder above or one in it there is nothing to look for.
        let is_about = |section: &&Section| match &section.folder {
            Some(Folder::Path(path)) => {
                below(&mapping.folder, path).is_some() || below(path, &mapping.folder).is_some()
            }
            Some(Folder::Match(_)) => true,
            None => false,
        };
        let mut about = site
            .sections
            .iter()
            .filter(is_about)
            .flat_map(|section| &section.directives);
        let allowed = about
            .find(|directive| directive.key.starts_with("allowoverride") && allows_some(directive));
        let Some(allow) = allowed else {
            continue;
        };
        let mut folders: Vec<PathBuf> = Path::new(&mapping.folder)
            .ancestors()
            .skip(1)
            .map(Path::to_owned)
            .collect();
        if !walk(
            reader,
            Path::new(&mapping.folder),
            &mut Vec::new(),
            &mut folders,
        ) {
            // A file that is not found might deny access.
            let problem = format!(
                "`{}` has too many folders to search for these files: more than {MOST_FOLDERS}, or {DEEPEST_FOLDER} deep",
                mapping.folder
            );
            let hint = "move their contents into `<Directory>`, and set `AllowOverride None`";
            return Err(UnreadableSource::at(&allow.place, &problem, Some(hint)));
        }
        for folder in folders {
            let text = folder.display().to_string();
            let text = text.trim_end_matches('/');
            let is_known =
                |section: &Section| section.folder == Some(Folder::Path(text.to_owned()));
            if let Some(allow) = allows(text)
                && !found.iter().any(is_known)
            {
                let path = folder.join(&name);
                one(reader, (text, allow), &path, findings, &mut found)?;
            }
        }
    }
    Ok(found)
}

/// Reads the file of one folder, if there is one.
fn one(
    reader: &mut Reader<'_>,
    (text, allow): (&str, &Directive),
    path: &Path,
    findings: &mut Findings,
    found: &mut Vec<Section>,
) -> Result<(), UnreadableSource> {
    match reader.sources.read(path) {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => {
            found.push(closed(text, path, &error.to_string(), findings));
            return Ok(());
        }
    }
    if found.len() >= MOST_SECTIONS {
        return Err(UnreadableSource {
            file: path.display().to_string(),
            line: 0,
            problem: format!("the folders of a site have more than {MOST_SECTIONS} sections in such files"),
            hint: Some("move them into `<Directory>`, or set `AllowOverride None` where they are not needed".to_owned()),
        });
    }
    let directives = reader.file(path, 0)?;
    // Apache answers 500 where a file has a directive that is not allowed.
    let refused = match allow.is("allowoverride") {
        true => not_allowed(&directives, allow),
        false => lets_in(&directives).filter(|_| !may_let_in(allow)),
    };
    if let Some(directive) = refused {
        let why = format!(
            "it has `{}`, which `AllowOverride` does not allow",
            directive.name
        );
        found.push(closed(text, path, &why, findings));
        return Ok(());
    }
    super::closing::report_all(&directives, findings);
    let around = Section {
        stage: Stage::Folder,
        folder: Some(Folder::Path(text.to_owned())),
        directives: super::limit::with_logins(
            directives
                .iter()
                .filter(|directive| Section::read(directive, None).is_none()),
        ),
        ..Section::default()
    };
    found.push(around.clone());
    super::section::collect(&directives, Some(&around), found);
    Ok(())
}

/// True for `AllowOverride` and `AllowOverrideList` that allow anything.
fn allows_some(directive: &Directive) -> bool {
    directive.word(0) != "none"
}

/// True if a file may have directives of access control.
fn may_let_in(allow: &Directive) -> bool {
    let may = |word: &String| {
        let word = word.to_ascii_lowercase();
        matches!(
            word.as_str(),
            "all" | "authconfig" | "limit" | "require" | "allow"
        )
    };
    allow.arguments.iter().any(may)
}

/// The first directive that lets clients in, whatever the sections around the file say. The depth is that of sections, which the reader
/// bounds.
fn lets_in(directives: &[Directive]) -> Option<&Directive> {
    directives.iter().find_map(|directive| {
        let is_access = matches!(
            directive.key.as_str(),
            "require" | "order" | "allow" | "satisfy"
        );
        match is_access {
            true => Some(directive),
            false => lets_in(directive.inner()),
        }
    })
}

/// Classes of directives that `AllowOverride` names, as Apache's manual has them.
const CLASSES: [(&str, Words); 5] = [
    (
        "authconfig",
        Words(
            "authbasicauthoritative authbasicfake authbasicprovider authgroupfile authmerging authname authtype authuserfile
            require requireall requireany requirenone satisfy sslrequiressl",
        ),
    ),
    (
        "fileinfo",
        Words(
            "acceptpathinfo action addcharset adddefaultcharset addencoding addhandler addinputfilter addlanguage
            addoutputfilter addoutputfilterbytype addtype browsermatch browsermatchnocase errordocument fileetag forcetype
            header passenv redirect redirectmatch redirectpermanent redirecttemp removecharset removeencoding removehandler
            removelanguage removetype requestheader rewritebase rewritecond rewriteengine rewriteoptions rewriterule setenv
            setenvif setenvifnocase sethandler setoutputfilter unsetenv",
        ),
    ),
    (
        "indexes",
        Words(
            "addalt adddescription addicon directoryindex directoryslash expiresactive expiresbytype expiresdefault
            fallbackresource headername indexignore indexoptions indexorderdefault readmename",
        ),
    ),
    ("limit", Words("allow deny order")),
    ("options", Words("options php_flag php_value xbithack")),
];

/// The first directive of a file that its `AllowOverride` does not allow. The depth is that of sections, which the reader bounds.
fn not_allowed<'d>(directives: &'d [Directive], allow: &Directive) -> Option<&'d Directive> {
    let has = |wanted: &str| {
        let mut words = allow.arguments.iter();
        words.any(|word| {
            let word = word.to_ascii_lowercase();
            word == "all" || word.split('=').next() == Some(wanted)
        })
    };
    directives.iter().find_map(|directive| {
        let mut classes = CLASSES.iter();
        let class = classes.find(|(_, names)| names.contains(&directive.key));
        match class.is_some_and(|(class, _)| !has(class)) {
            true => Some(directive),
            false => not_allowed(directive.inner(), allow),
        }
    })
}

/// The section of a file that cannot be read: Apache answers 403 there, too.
fn closed(folder: &str, path: &Path, why: &str, findings: &mut Findings) -> Section {
    let place = SourceLocation {
        file: path.display().to_string().into(),
        line: 1,
    };
    let hint = "run the import as a user who may read it";
    findings.lost(
        &place,
        "AllowOverride",
        &format!("the file cannot be used ({why}): requests for the folder get 403"),
        hint,
    );
    Section {
        stage: Stage::Folder,
        folder: Some(Folder::Path(folder.to_owned())),
        directives: vec![Directive {
            place,
            name: "AllowOverride".to_owned(),
            // No section that is merged later may let clients in.
            key: REFUSES.to_owned(),
            arguments: Vec::new(),
            raw: String::new(),
            block: None,
        }],
        ..Section::default()
    }
}

/// True if an expression for folders is about this one.
pub(super) fn matches(source: &str, folder: &str) -> bool {
    let pattern = Pattern::parse(&format!("~{source}"), DECODED).ok();
    pattern.is_some_and(|pattern| pattern.found_in(folder.as_bytes()).unwrap_or(true))
}

/// Adds a folder and all below it; false if there are too many.
fn walk(
    reader: &Reader<'_>,
    folder: &Path,
    above: &mut Vec<PathBuf>,
    all: &mut Vec<PathBuf>,
) -> bool {
    if above.len() >= DEEPEST_FOLDER || all.len() >= MOST_FOLDERS {
        return false;
    }
    // A link to a folder above it leads in circles.
    let real = reader.sources.real(folder);
    if above.contains(&real) {
        return true;
    }
    // Such a file need not be listed: a folder that cannot be listed may have one all the same.
    all.push(folder.to_owned());
    let names = reader.sources.names_in(folder);
    above.push(real);
    let mut is_whole = true;
    for name in names {
        is_whole &= walk(reader, &folder.join(name), above, all);
    }
    above.pop();
    is_whole
}
