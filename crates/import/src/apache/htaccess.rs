//! `.htaccess`: files in the folders of a site that say more, where `AllowOverride` lets them.

use std::path::{Path, PathBuf};

use super::section::{Folder, Section, Stage, below};
use super::site::Site;
use super::tree::Reader;
use crate::finding::{Findings, Unreadable};

/// Folders within folders that are looked at.
const DEEPEST_FOLDER: usize = 16;

/// Folders of a site that are looked at.
const MOST_FOLDERS: usize = 20_000;

/// The sections of all files of a site.
pub(super) fn read(
    reader: &mut Reader<'_>,
    site: &Site,
    findings: &mut Findings,
) -> Result<Vec<Section>, Unreadable> {
    let allows = |folder: &str| {
        let mut about = site
            .sections
            .iter()
            .rev()
            .filter(|section| match &section.folder {
                Some(Folder::Path(path)) => {
                    section.stage == Stage::Folder && below(path, folder).is_some()
                }
                _ => false,
            });
        about
            .find_map(|section| {
                section
                    .directives
                    .iter()
                    .rfind(|directive| directive.is("allowoverride"))
            })
            .filter(|allow| allow.word(0) != "none")
    };
    let name = site
        .setting("accessfilename")
        .map_or(".htaccess", |named| named.argument(0))
        .to_owned();
    let mut found: Vec<Section> = Vec::new();
    for mapping in &site.mappings {
        // Without a permission for it or for a folder in it there is nothing to look for.
        let inside = site.sections.iter().any(|section| matches!(&section.folder, Some(Folder::Path(path)) if below(&mapping.folder, path).is_some()) && section.directives.iter().any(|directive| directive.is("allowoverride") && directive.word(0) != "none"));
        let Some(allow) = allows(&mapping.folder).or_else(|| {
            site.sections
                .iter()
                .flat_map(|section| &section.directives)
                .find(|directive| {
                    inside && directive.is("allowoverride") && directive.word(0) != "none"
                })
        }) else {
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
            let hint =
                "move deep folders elsewhere, or write what their files say into `<Directory>`";
            findings.lost(
                &allow.place,
                &allow.name,
                "there are too many folders to look for more of these files",
                hint,
            );
        }
        for folder in folders {
            let text = folder.display().to_string();
            let text = text.trim_end_matches('/');
            if allows(text).is_none()
                || found
                    .iter()
                    .any(|section| section.folder == Some(Folder::Path(text.to_owned())))
            {
                continue;
            }
            let path = folder.join(&name);
            if reader.sources.read(&path).is_err() {
                continue;
            }
            let directives = reader.file(&path, 0)?;
            super::known::tell_all(&directives, findings);
            let around = Section {
                stage: Stage::Folder,
                folder: Some(Folder::Path(text.to_owned())),
                file: None,
                location: None,
                methods: None,
                is_unknown: false,
                directives: directives
                    .iter()
                    .filter(|directive| Section::read(directive, None).is_none())
                    .cloned()
                    .collect(),
            };
            found.push(around.clone());
            super::collect(&directives, Some(&around), &mut found);
        }
    }
    Ok(found)
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
    let names = reader.sources.names_in(folder);
    if names.is_empty() {
        return true;
    }
    all.push(folder.to_owned());
    above.push(real);
    let mut is_whole = true;
    for name in names {
        is_whole &= walk(reader, &folder.join(name), above, all);
    }
    above.pop();
    is_whole
}
