//! The arrows among the C files of a crate: a file leads to the file that defines a function or variable it names, and to what it includes.
//!
//! C has no modules, so that its declarations stand in a header that all files include: they say nothing, and uses are read instead.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::workspace::{Member, relative};

/// The folder of a crate's C files.
const FOLDER: &str = "csrc";

/// A C file or header.
pub(crate) struct CFile {
    /// Relative to the crate.
    pub(crate) path: String,
    /// The names of the files that it includes with quotes.
    includes: BTreeSet<String>,
    /// The names that other files may use: functions and variables that are not `static`.
    defined: BTreeSet<String>,
    /// The names that it has for itself.
    own: BTreeSet<String>,
    /// The names in it but for those of members.
    used: BTreeSet<String>,
}

/// All C files of a crate, sorted by path.
pub(crate) fn read(root: &Path, member: &Member) -> Result<Vec<CFile>> {
    let folder = member.folder.join(FOLDER);
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "c" || end == "h") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("{} cannot be read", path.display()))?;
            let file = CFile::parse(&relative(&member.folder, &path), &text);
            files.push(file.with_context(|| relative(root, &path))?);
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// All arrows from file to file, by their indices.
pub(crate) fn arrows(files: &[CFile]) -> BTreeSet<(usize, usize)> {
    let mut definers = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        names.insert(file.path.rsplit('/').next().unwrap_or_default(), index);
        definers.extend(file.defined.iter().map(|name| (name.as_str(), index)));
    }
    let mut arrows = BTreeSet::new();
    for (index, file) in files.iter().enumerate() {
        let included = file.includes.iter();
        let included = included.filter_map(|name| names.get(name.as_str()));
        // A header declares everything, and uses nothing of it.
        let used = file.used.iter().filter(|_| !file.path.ends_with(".h"));
        let used = used.filter(|name| !file.own.contains(*name));
        let used = used.filter_map(|name| definers.get(name.as_str()));
        let found = included.chain(used).filter(|to| **to != index);
        arrows.extend(found.map(|to| (index, *to)));
    }
    arrows
}

impl CFile {
    fn parse(path: &str, text: &str) -> Result<Self> {
        let (code, directives) = split(text);
        let tokens = tokens(&code);
        let mut file = Self {
            path: path.to_owned(),
            includes: BTreeSet::new(),
            defined: BTreeSet::new(),
            own: BTreeSet::new(),
            used: BTreeSet::new(),
        };
        for directive in &directives {
            match directive.trim_start().strip_prefix("include") {
                Some(what) => file
                    .includes
                    .extend(what.split('"').nth(1).map(str::to_owned)),
                None => file.note_uses(&self::tokens(&without_texts(directive))),
            }
        }
        file.note_uses(&tokens);
        file.note_definitions(&tokens)?;
        Ok(file)
    }

    fn note_uses(&mut self, tokens: &[&str]) {
        let mut before = "";
        for token in tokens {
            if is_name(token) && !matches!(before, "." | "->") {
                self.used.insert((*token).to_owned());
            }
            before = token;
        }
    }

    /// Walks over what stands outside of braces and parentheses, statement by statement.
    fn note_definitions(&mut self, tokens: &[&str]) -> Result<()> {
        let mut depth = 0_usize;
        let mut statement = Vec::new();
        for token in tokens {
            if depth == 0 {
                statement.push(*token);
            }
            match *token {
                "{" | "(" | "[" => {
                    if depth == 0 && *token == "{" && is_function(&statement) {
                        self.define(&statement);
                    }
                    depth += 1;
                }
                "}" | ")" | "]" => {
                    depth = depth.checked_sub(1).context("a brace too many")?;
                    if depth == 0 && *token == "}" && is_function(&statement) {
                        statement.clear();
                    }
                }
                ";" if depth == 0 => {
                    if !statement.contains(&"(") || statement.contains(&"=") {
                        self.define(&statement);
                    }
                    statement.clear();
                }
                _ => {}
            }
        }
        ensure!(depth == 0, "braces that are not closed");
        Ok(())
    }

    /// Notes the name that the statement defines.
    fn define(&mut self, statement: &[&str]) {
        let is = |word: &str| statement.contains(&word);
        let end = ["(", "=", "[", ";"];
        let head = statement.split(|token| end.contains(token)).next();
        let name = head.and_then(|head| head.iter().rfind(|token| is_name(token)));
        let Some(name) = name else { return };
        // The names of macros that stand for a function are PHP's and perl's, and no file's.
        let is_macro = !name.contains(|letter: char| letter.is_ascii_lowercase());
        let is_type = ["struct", "union", "enum"].contains(statement.first().unwrap_or(&""))
            && head.is_some_and(|head| head.len() <= 2 || head.last() == Some(&"{"));
        if is("typedef") || is("extern") || is_macro || is_type {
            return;
        }
        let names = match is("static") {
            true => &mut self.own,
            false => &mut self.defined,
        };
        names.insert((*name).to_owned());
    }
}

/// True for the beginning of a function: parentheses before its braces, and no value.
fn is_function(statement: &[&str]) -> bool {
    statement.contains(&"(") && !statement.contains(&"=")
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// The code and the directives of the preprocessor, without comments; in the code there are no texts either.
fn split(text: &str) -> (String, Vec<String>) {
    let text = without_comments(text).replace("\\\n", " ");
    let (directives, code): (Vec<&str>, Vec<&str>) = text
        .lines()
        .partition(|line| line.trim_start().starts_with('#'));
    let directives = directives.iter();
    let directives = directives.map(|line| line.trim_start().trim_start_matches('#').to_owned());
    (without_texts(&code.join("\n")), directives.collect())
}

/// The text with a space in place of each comment.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = if from.starts_with("/*") {
            out.push(' ');
            from.find("*/").map_or(from.len(), |end| end + 2)
        } else if from.starts_with("//") {
            from.find('\n').unwrap_or(from.len())
        } else {
            let length = text_length(from).unwrap_or(1);
            out.push_str(from.get(..length).unwrap_or_default());
            length
        };
        rest = from.get(length..).unwrap_or_default();
    }
    out + rest
}

/// The code with an empty text in place of each.
fn without_texts(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = text_length(from).unwrap_or(from.len());
        rest = from.get(length..).unwrap_or_default();
    }
    out + rest
}

/// The bytes of the text or character that this begins with, if it does.
fn text_length(code: &str) -> Option<usize> {
    let quote = code.chars().next().filter(|first| "\"'".contains(*first))?;
    let mut is_escaped = false;
    for (at, letter) in code.char_indices().skip(1) {
        if letter == quote && !is_escaped {
            return Some(at + 1);
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    None
}

/// Words, `->`, and each other sign by itself.
fn tokens(code: &str) -> Vec<&str> {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_of_word(first) {
            rest.find(|letter| !is_of_word(letter))
                .unwrap_or(rest.len())
        } else if rest.starts_with("->") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        found.push(token);
        rest = after.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let parsed: Vec<CFile> = files
            .iter()
            .map(|(path, text)| CFile::parse(path, text).unwrap())
            .collect();
        let arrows = arrows(&parsed);
        arrows
            .iter()
            .map(|(from, to)| format!("{} → {}", files[*from].0, files[*to].0))
            .collect()
    }

    #[test]
    fn a_file_leads_to_what_defines_the_names_in_it() {
        let header =
            "#include \"seam.h\"\nextern int counted;\nvoid below(void);\nvoid above(void);\n";
        let below = "#include \"all.h\"\nint counted = 1;\nvoid below(void) { struct_of.above = 1; at->above(); }\n";
        let above = "#include \"all.h\"\nstatic int own;\nvoid above(void) {\n#define CALL below()\nCALL; own++; /* below */ }\n";
        let state = "#include \"all.h\"\nconst char *text = \"above()\";\nint room[SIZE];\nvoid *(*hook)(int);\n";
        let uses = "#include \"all.h\"\nstatic int counted;\nint get(void) { return counted + room[0]; }\n";
        let files = [
            ("all.h", header),
            ("seam.h", "struct seam { int above; };"),
            ("below.c", below),
            ("above.c", above),
            ("state.c", state),
            ("uses.c", uses),
        ];
        let expected = [
            "all.h → seam.h",
            "below.c → all.h",
            "above.c → all.h",
            "above.c → below.c",
            "state.c → all.h",
            "uses.c → all.h",
            "uses.c → state.c",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn types_prototypes_and_macros_define_nothing() {
        let text = "typedef struct { int a; } name;\nstruct other { int b; };\nenum { A, B };\nvoid later(int (*call)(void));\n\
                    XS_INTERNAL(xs_one)\n{\n}\nstruct module entry = { .name = \"x\" };\nstatic struct { int c; } state;\n__thread name *current;\n";
        let file = CFile::parse("x.c", text).unwrap();
        assert_eq!(file.defined, ["current", "entry"].map(str::to_owned).into());
        assert_eq!(file.own, ["state"].map(str::to_owned).into());
    }
}
