//! Sections (`<Directory>`, `<Files>`, `<Location>`, `.htaccess`): their directives, in the order in which Apache merges them, and the
//! conditions of a step that mean the same place.

use serde_json::{Map, Value};
use tutti_config::pattern::{Case, Pattern};
use tutti_config::table::DECODED;

use super::closing;
use super::grammar::Directive;
use super::limit;
use crate::output::{literal, when};
use crate::template::{escaped, quoted, regex};

/// The kinds of sections, in the order in which they are merged: the later one goes before the earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Outside of all sections.
    #[default]
    Server,
    Folder,
    FolderMatch,
    Files,
    Location,
    If,
}

/// A folder of the file system.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Folder {
    /// With all below it; no slash at its end.
    Path(String),
    /// An expression that the path of a folder is compared with.
    Match(String),
}

/// Paths of requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Location {
    Path(String),
    Match(String),
}

/// A section, those around it included.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) stage: Stage,
    pub(super) folder: Option<Folder>,
    /// It is in a `<DirectoryMatch>`.
    pub(super) is_in_match: bool,
    /// The number of parts in the path of a `<Directory>` with wildcards.
    pub(super) depth: usize,
    /// An expression for the name of a file.
    pub(super) file: Option<String>,
    pub(super) location: Option<Location>,
    /// All methods but these.
    pub(super) other_methods: Option<Vec<String>>,
    /// `<If>`, which no step can express, or an expression that cannot be read.
    pub(super) is_unknown: bool,
    /// A test in JavaScript that must hold, too.
    pub(super) test: Option<String>,
    /// The expression of `<If>`, which has not become a test yet.
    pub(super) expression: Option<String>,
    pub(super) directives: Vec<Directive>,
}

/// A folder that requests below a path are looked up in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mapping {
    /// The path, without a slash at its end; empty for `DocumentRoot`.
    pub(super) at: String,
    /// The folder, without a slash at its end; empty where another server answers.
    pub(super) folder: String,
}

/// Where something holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Where {
    /// Expressions, each to be found at the beginning of a path; all must hold.
    expressions: Vec<String>,
    /// The same as plain patterns, if there is one expression only.
    plain: Option<Vec<String>>,
    /// Tests in JavaScript.
    scripts: Vec<String>,
    methods: Vec<String>,
}

impl Where {
    /// True if it holds everywhere.
    pub(super) fn is_everywhere(&self) -> bool {
        self.expressions.is_empty() && self.scripts.is_empty() && self.methods.is_empty()
    }

    pub(super) fn path(&mut self, path: &str) {
        let bare = path.trim_end_matches('/');
        if path.is_empty() || path == "/" {
            return;
        }
        let (end, plain) = if path.ends_with('/') {
            ("/", vec![format!("{}/*", literal(bare))])
        } else {
            (
                "(?:/|$)",
                vec![literal(bare), format!("{}/*", literal(bare))],
            )
        };
        self.plain = self.expressions.is_empty().then_some(plain);
        self.expressions.push(format!("{}{end}", escaped(bare)));
    }

    /// Where both hold.
    pub(super) fn and(&self, other: &Where) -> Where {
        let mut both = self.clone();
        if both.expressions.is_empty() {
            both.plain.clone_from(&other.plain);
        } else if !other.expressions.is_empty() {
            both.plain = None;
        }
        both.expressions.extend(other.expressions.iter().cloned());
        both.scripts.extend(other.scripts.iter().cloned());
        both.methods.extend(other.methods.iter().cloned());
        both
    }

    /// An expression that a path begins with.
    pub(super) fn begins(&mut self, expression: &str) {
        self.plain = self
            .expressions
            .is_empty()
            .then(|| vec![format!("~^{expression}")]);
        self.expressions.push(expression.to_owned());
    }

    /// An expression of PCRE that is looked for anywhere in the path.
    pub(super) fn found(&mut self, source: &str) {
        self.plain = self
            .expressions
            .is_empty()
            .then(|| vec![format!("~{source}")]);
        self.expressions.push(format!("(?:.*?(?:{source}))"));
    }

    /// An expression that the name of a file is compared with. `anywhere`: also where what follows it may be PATH_INFO.
    ///
    /// `at`: the path of the folder in which it is, whose own parts are no names of files.
    fn file(&mut self, at: &str, source: &str, anywhere: bool) {
        let is_plain = anywhere && self.expressions.is_empty() && at.is_empty();
        let simple = simple_file(source).filter(|_| is_plain);
        self.plain = simple.map(|simple| vec![format!("~{simple}")]);
        let expression = file_expression(source, anywhere);
        self.expressions
            .push(format!("{}{expression}", escaped(at)));
    }

    pub(super) fn script(&mut self, test: String) {
        self.scripts.push(test);
    }

    /// The conditions of a step.
    pub(super) fn conditions(&self) -> Map<String, Value> {
        let mut conditions = Map::new();
        if let Some(plain) = self.plain.clone().filter(|_| self.expressions.len() == 1) {
            conditions.insert("uri".to_owned(), crate::output::one_or_many(plain));
        } else if !self.expressions.is_empty() {
            let all: String = self
                .expressions
                .iter()
                .map(|one| format!("(?={one})"))
                .collect();
            conditions.insert("uri".to_owned(), format!("~^{all}").into());
        }
        if !self.scripts.is_empty() {
            let all = self.scripts.join(" && ");
            conditions.insert("if".to_owned(), format!("`${{{all} ? 1 : ''}}`").into());
        }
        if !self.methods.is_empty() {
            conditions.insert(
                "method".to_owned(),
                crate::output::one_or_many(self.methods.clone()),
            );
        }
        conditions
    }

    /// The same as an expression of JavaScript; `None` if there is none.
    pub(super) fn expression(&self) -> Option<String> {
        let mut tests = self.scripts.clone();
        for one in &self.expressions {
            tests.push(format!(
                "{}.test((vars.uri ?? ''))",
                regex(&format!("^(?:{one})"), Case::Exact)?
            ));
        }
        if !self.methods.is_empty() {
            return None;
        }
        Some(if tests.is_empty() {
            "true".to_owned()
        } else {
            tests.join(" && ")
        })
    }
}

/// The same as [`file_expression`] where it may be followed by PATH_INFO, as one would write it; `None` for what is not that simple.
fn simple_file(source: &str) -> Option<String> {
    let (begins, body) = match source.strip_prefix('^') {
        Some(body) => (true, body),
        None => (false, source.strip_prefix(".+").unwrap_or(source)),
    };
    let (ends, body) = match body.strip_suffix('$') {
        Some(body) => (true, body),
        None => (false, body),
    };
    let without_dots = body.replace("\\.", "");
    let is_plain = without_dots
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "_-".contains(character));
    let end = if ends { "(?:/|$)" } else { "" };
    (is_plain && (begins || ends) && !body.is_empty())
        .then(|| format!("{}{body}{end}", if begins { "/" } else { "" }))
}

/// An expression for paths whose file has a name that `source` matches.
fn file_expression(source: &str, anywhere: bool) -> String {
    let (ignore_case, source) = match source.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", source),
    };
    let name = if anywhere { "" } else { "(?=[^/]*$)" };
    let mut alternatives = Vec::new();
    for one in alternatives_of(source) {
        let begins = one.strip_prefix('^');
        let mut body = begins.unwrap_or(one).to_owned();
        if anywhere && let Some(bare) = body.strip_suffix('$').filter(|bare| !bare.ends_with('\\'))
        {
            body = format!("(?:{bare})(?=/|$)");
        }
        alternatives.push(if begins.is_some() {
            body
        } else {
            format!("[^/]*?(?:{body})")
        });
    }
    format!("(?:{ignore_case}.*/{name}(?:{}))", alternatives.join("|"))
}

/// The alternatives of an expression that stand in no group.
pub(super) fn alternatives_of(source: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut in_class, mut begin) = (0_i32, false, 0);
    let mut characters = source.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            '|' if !in_class && depth == 0 => {
                parts.push(source.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(source.get(begin..).unwrap_or_default());
    parts
}

/// A pattern of a shell as a regular expression; `*` and `?` are no slash.
pub(super) fn of_glob(pattern: &str) -> String {
    let mut expression = String::new();
    for character in pattern.chars() {
        match character {
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push_str("[^/]"),
            '[' | ']' | '-' => expression.push(character),
            other => expression.push_str(&escaped(&other.to_string())),
        }
    }
    expression
}

/// The same for the path of a folder, whose parts are not empty.
fn of_folder_glob(pattern: &str) -> String {
    let parts = pattern.split('/').map(|part| match part {
        "*" => "[^/]+".to_owned(),
        part => of_glob(part),
    });
    parts.collect::<Vec<_>>().join("/")
}

fn parts(path: &str) -> usize {
    path.split('/').count()
}

impl Section {
    /// A section's head; `None` if it is none of these.
    pub(super) fn read(directive: &Directive, around: Option<&Section>) -> Option<Section> {
        let mut section = around.cloned().unwrap_or_default();
        section.directives = Vec::new();
        let first = directive.argument(0);
        let (is_match, source) = if first == "~" {
            (true, directive.argument(1))
        } else {
            (directive.key.ends_with("match"), first)
        };
        let has_wildcard = source.contains(['*', '?', '[']);
        let stage = match directive.key.as_str() {
            "directory" | "directorymatch" => {
                let bare = source.trim_end_matches('/');
                section.depth = parts(bare);
                section.folder = Some(match (is_match, has_wildcard) {
                    (true, _) => Folder::Match(source.to_owned()),
                    (false, true) => Folder::Match(format!("^{}(?:/|$)", of_folder_glob(bare))),
                    (false, false) => Folder::Path(bare.to_owned()),
                });
                section.is_in_match = is_match;
                if is_match {
                    Stage::FolderMatch
                } else {
                    Stage::Folder
                }
            }
            "files" | "filesmatch" => {
                section.file = Some(if is_match {
                    source.to_owned()
                } else {
                    format!("^{}$", of_glob(source))
                });
                Stage::Files
            }
            "location" | "locationmatch" => {
                section.location = Some(match (is_match, has_wildcard) {
                    (true, _) => Location::Match(source.to_owned()),
                    // It is compared with the whole path.
                    (false, true) => Location::Match(format!("^{}$", of_glob(source))),
                    (false, false) => Location::Path(source.to_owned()),
                });
                Stage::Location
            }
            "if" | "elseif" | "else" => {
                let own = directive.expression(0);
                section.expression = Some(match &section.expression {
                    Some(around) => format!("({around}) && ({own})"),
                    None => own,
                });
                Stage::If
            }
            _ => return None,
        };
        section.stage = section.stage.max(stage);
        if section.expressions().any(|source| !is_pattern(source)) {
            (section.folder, section.file, section.location) = (None, None, None);
            section.is_unknown = true;
        }
        Some(section)
    }

    fn expressions(&self) -> impl Iterator<Item = &str> {
        let folder = match &self.folder {
            Some(Folder::Match(source)) => Some(source.as_str()),
            _ => None,
        };
        let location = match &self.location {
            Some(Location::Match(source)) => Some(source.as_str()),
            _ => None,
        };
        [folder, self.file.as_deref(), location]
            .into_iter()
            .flatten()
    }

    /// True for a path and all below it, which has a route of its own.
    pub(super) fn is_part(&self) -> bool {
        let is_path = matches!(self.folder, None | Some(Folder::Path(_)))
            && matches!(self.location, None | Some(Location::Path(_)));
        is_path && self.file.is_none() && self.test.is_none() && self.other_methods.is_none()
    }

    /// True if it is about paths of requests alone.
    pub(super) fn is_of_paths(&self) -> bool {
        self.stage >= Stage::Location && self.folder.is_none() && self.file.is_none()
    }

    /// True if it has directives of access control.
    pub(super) fn controls_access(&self) -> bool {
        self.directives.iter().any(closing::is_of_access)
    }

    /// True if its access control admits no client.
    pub(super) fn only_refuses(&self) -> bool {
        let refuses = |one: &Directive| {
            closing::closes(one)
                || one.is("require") && one.word(0) == "all" && one.word(1) == "denied"
                || one.is("deny") && one.word(1) == "all"
                || one.is("order")
        };
        let directives = self.directives.iter();
        directives
            .filter(|one| closing::is_of_access(one))
            .all(refuses)
    }

    /// Where in a mapping it holds; `None` if nowhere.
    pub(super) fn place(&self, mapping: &Mapping, extent: Extent) -> Option<Where> {
        let wide = extent == Extent::Wide;
        let mut place = Where::default();
        // A path that is handed to another server has no folder, and no file.
        if mapping.folder.is_empty() && (self.folder.is_some() || self.file.is_some()) {
            return None;
        }
        match &self.folder {
            None => {}
            Some(Folder::Path(path)) => match below(path, &mapping.folder) {
                Some(_) => {}
                None => {
                    let rest = below(&mapping.folder, path)?;
                    place.path(&format!("{}{rest}", mapping.at));
                }
            },
            Some(Folder::Match(source)) => {
                let whole = format!(
                    "{} + (vars.uri ?? '').slice({})",
                    quoted(&mapping.folder),
                    mapping.at.chars().count()
                );
                let Some(test) = regex(source, Case::Exact) else {
                    return wide.then(Where::default);
                };
                // The part behind the last slash may be a folder, too. Apache compares files with wildcards as well, but
                // only those that exist.
                let cut = if wide { "" } else { ".replace(/[^/]*$/, '')" };
                place.script(format!("[({whole}){cut}, ({whole}).replace(/\\/[^\\/]*$/, '')].some((path) => {test}.test(path))"));
            }
        }
        match &self.location {
            None => {}
            Some(Location::Path(path)) => {
                // `/a` is within `/a/b`, or the other way round, or the two have nothing to do with each other.
                let bare = path.trim_end_matches('/');
                if below(bare, &mapping.at).is_none() {
                    below(&mapping.at, bare)?;
                    place.path(path);
                }
            }
            Some(Location::Match(source)) => place.found(source),
        }
        if let Some(file) = &self.file {
            place.file(&mapping.at, file, wide);
        }
        if let Some(methods) = &self.other_methods {
            let mut named: Vec<String> = methods
                .iter()
                .map(|method| method.to_ascii_uppercase())
                .collect();
            if named.iter().any(|method| method == "GET") {
                named.push("HEAD".to_owned());
            }
            place.methods = named
                .into_iter()
                .map(|method| format!("!{method}"))
                .collect();
        }
        if let Some(test) = &self.test {
            place.script(test.clone());
        }
        if (self.is_unknown || self.expression.is_some()) && !wide {
            return None;
        }
        Some(place)
    }

    /// Returns its specificity, by which sections are sorted; equal ones stay as they are written. Wildcards count as any other part of a
    /// path.
    ///
    /// Names of files are sorted by the folders that they stand in: first those in none, and last those in a `<DirectoryMatch>`.
    pub(super) fn weight(&self) -> (Stage, bool, usize) {
        let has_depth = matches!(self.stage, Stage::Folder | Stage::Files);
        let depth = match &self.folder {
            Some(Folder::Path(path)) if has_depth => parts(path),
            Some(Folder::Match(_)) if has_depth && !self.is_in_match => self.depth,
            _ => 0,
        };
        let is_late = self.stage == Stage::Files && self.is_in_match;
        (self.stage, is_late, depth)
    }
}

/// The extent that is given to a section whose bounds cannot be expressed exactly.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Extent {
    /// Rather too much, for sections that refuse.
    Wide,
    /// Rather too little.
    Narrow,
}

/// True for an expression that can be searched for.
pub(super) fn is_pattern(source: &str) -> bool {
    Pattern::parse(&format!("~{source}"), DECODED).is_ok()
}

/// The rest of a path below another: `/a/b` below `/a` is `/b`.
pub(super) fn below<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(folder)?;
    (rest.is_empty() || rest.starts_with('/') || folder.is_empty()).then_some(rest)
}

/// The sections among directives, each with what stands right in it; what stands in none is one of its own.
pub(super) fn collect(directives: &[Directive], around: Option<&Section>, all: &mut Vec<Section>) {
    let is_section = |directive: &&Directive| Section::read(directive, around).is_some();
    if around.is_none() {
        let own = directives
            .iter()
            .filter(|directive| directive.block.is_none() || limit::is_limit(directive));
        all.push(Section {
            directives: limit::with_logins(own),
            ..Section::default()
        });
    }
    for directive in directives
        .iter()
        .filter(|directive| directive.block.is_some())
    {
        // The depth is that of sections, which the reader bounds.
        if let Some(mut section) = Section::read(directive, around) {
            let own = directive.inner().iter().filter(|inner| !is_section(inner));
            section.directives = limit::with_logins(own);
            all.push(section.clone());
            collect(directive.inner(), Some(&section), all);
        }
    }
}

/// The condition for a path and all below it.
pub(super) fn under(at: &str) -> Map<String, Value> {
    if at.is_empty() {
        return Map::new();
    }
    when("uri", vec![literal(at), format!("{}/*", literal(at))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        for (source, wide, path, expected) in [
            (r"^\.ht", true, "/a/.htaccess", true),
            (r"^\.ht", true, "/a/.htaccess/x", true),
            (r"^\.ht", true, "/a/x.htaccess", false),
            (r"^\.ht", false, "/a/.htaccess/x", false),
            (r".+\.ph(?:ar|p|tml)$", true, "/x.php/y", true),
            (r".+\.ph(?:ar|p|tml)$", true, "/x.phpy", false),
            (r".+\.ph(?:ar|p|tml)$", false, "/x.php/y", false),
            (r".+\.php$", false, "/a.php", true),
            (r"^([\._]ht|README$)", true, "/README", true),
            (r"^([\._]ht|README$)", true, "/READMEX", false),
            (r"^a|b$", true, "/xb/c", true),
            (r"^a|b$", false, "/xa", false),
            ("(?i)^secret$", false, "/SECRET", true),
        ] {
            let pattern =
                Pattern::parse(&format!("~^{}", file_expression(source, wide)), DECODED).ok();
            let found = pattern.and_then(|pattern| pattern.found_in(path.as_bytes()).ok());
            assert_eq!(found, Some(expected), "{source} {wide} {path}");
        }
    }
}
