//! Apache's files as a tree: sections in sections; what stands in `<IfModule>` and the like is decided while reading, as Apache does;
//! `Include`, `Define` and macros are followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::grammar::{Directive, Line, directive, lines};
use crate::finding::{SourceLocation, UnreadableSource};
use crate::sources::{self, Sources};
use crate::words::Words;

/// Files within files, and macros within macros. Apache has a bound of its own, 128.
const DEEPEST_INCLUDE: usize = 16;

/// Sections within sections.
const DEEPEST_SECTION: usize = 32;

/// Lines of a whole configuration, included files and macros counted each time.
const MOST_LINES: usize = 200_000;

/// Bytes that `${…}` and macros may make of a line: a variable of variables would double at every step.
const LONGEST_LINE: usize = 64 << 10;

/// The version of Apache that `<IfVersion>` is compared with.
const VERSION: [u32; 3] = [2, 4, 99];

#[derive(Clone, Debug)]
struct Macro {
    parameters: Vec<String>,
    lines: Vec<Line>,
}

/// Reads files; what is defined and loaded stays from one to the next.
pub(super) struct Reader<'s> {
    pub(super) sources: &'s dyn Sources,
    /// Where relative names begin.
    pub(super) root: Vec<PathBuf>,
    defined: BTreeMap<String, String>,
    modules: BTreeSet<String>,
    /// No file loads modules: the source is a site's file alone, and all are taken to be there.
    assumes_modules: bool,
    macros: BTreeMap<String, Macro>,
    left: usize,
}

impl<'s> Reader<'s> {
    pub(super) fn new(sources: &'s dyn Sources) -> Self {
        Reader {
            sources,
            root: Vec::new(),
            defined: BTreeMap::new(),
            modules: BTreeSet::new(),
            assumes_modules: false,
            macros: BTreeMap::new(),
            left: MOST_LINES,
        }
    }

    /// The same, which takes every module to be loaded.
    pub(super) fn with_modules(self) -> Self {
        Reader {
            assumes_modules: true,
            ..self
        }
    }

    /// True if a file has loaded a module.
    pub(super) fn has_modules(&self) -> bool {
        !self.modules.is_empty()
    }

    /// Reads a file of the server, and the variables beside it that Debian's `apachectl` sets.
    pub(super) fn main(&mut self, path: &Path) -> Result<Vec<Directive>, UnreadableSource> {
        let parents = path.ancestors().skip(1).take(3).map(Path::to_owned);
        self.root = parents
            .chain([PathBuf::from("/etc/apache2"), PathBuf::from("/etc/httpd")])
            .collect();
        for folder in self.root.clone() {
            let envvars = folder.join("envvars");
            if self.sources.read(&envvars).is_ok() {
                self.variables(&envvars)?;
                break;
            }
        }
        self.file(path, 0)
    }

    /// `export NAME=value` of a shell's file, of which nothing is run.
    fn variables(&mut self, path: &Path) -> Result<(), UnreadableSource> {
        let (_, text) = sources::text(path, self.sources)?;
        for line in text.lines() {
            let line = line.trim();
            let line = line.strip_prefix("export ").unwrap_or(line);
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            if name.is_empty()
                || !name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                continue;
            }
            // `$SUFFIX` is empty for the instance that has no name.
            let value = value.trim_matches(['"', '\'']).replace("$SUFFIX", "");
            if !value.contains(['$', '`']) {
                self.defined.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// Reads one file and all that it includes.
    pub(super) fn file(
        &mut self,
        path: &Path,
        depth: usize,
    ) -> Result<Vec<Directive>, UnreadableSource> {
        let (name, text) = sources::text(path, self.sources)?;
        let lines = lines(&name, &text);
        self.stream(&lines, depth)
    }

    fn stream(&mut self, lines: &[Line], depth: usize) -> Result<Vec<Directive>, UnreadableSource> {
        let mut rest = lines.iter();
        self.block(&mut rest, None, depth, 0)
    }

    fn block(
        &mut self,
        lines: &mut std::slice::Iter<'_, Line>,
        closing: Option<(&str, &SourceLocation)>,
        depth: usize,
        sections: usize,
    ) -> Result<Vec<Directive>, UnreadableSource> {
        let mut all = Vec::new();
        while let Some(line) = lines.next() {
            let Some(left) = self.left.checked_sub(1) else {
                let problem = format!("there are more than {MOST_LINES} lines");
                return Err(UnreadableSource::at(&line.place, &problem, None));
            };
            self.left = left;
            let text = self.expanded(line)?;
            if let Some(name) = text.strip_prefix("</") {
                let name = name.trim_end().trim_end_matches('>').trim();
                return match closing {
                    Some((opened, _)) if name.eq_ignore_ascii_case(opened) => Ok(all),
                    Some((opened, _)) => Err(UnreadableSource::at(
                        &line.place,
                        &format!("`</{name}>` where `</{opened}>` is expected"),
                        None,
                    )),
                    None => Err(UnreadableSource::at(
                        &line.place,
                        &format!("`</{name}>` without `<{name}>`"),
                        None,
                    )),
                };
            }
            if let Some(opening) = text.strip_prefix('<') {
                if sections >= DEEPEST_SECTION {
                    let problem = format!("sections are more than {DEEPEST_SECTION} deep");
                    return Err(UnreadableSource::at(&line.place, &problem, None));
                }
                let Some(opening) = opening.trim_end().strip_suffix('>') else {
                    return Err(UnreadableSource::at(
                        &line.place,
                        "a section's line ends with `>`",
                        None,
                    ));
                };
                let mut section = directive(&line.place, opening.trim());
                if section.is("macro") {
                    self.declare(&section, lines)?;
                    continue;
                }
                let takes = self.condition(&section);
                let inner = if takes == Some(false) {
                    skip(lines, &section.name, &line.place)?;
                    Vec::new()
                } else {
                    let name = section.name.clone();
                    self.block(lines, Some((&name, &line.place)), depth, sections + 1)?
                };
                match takes {
                    Some(_) => all.extend(inner),
                    None => {
                        section.block = Some(inner);
                        branch(&mut section, &all);
                        all.push(section);
                    }
                }
                continue;
            }
            let directive = directive(&line.place, &text);
            self.act(directive, depth, &mut all)?;
        }
        match closing {
            Some((name, place)) => Err(UnreadableSource::at(
                place,
                &format!("`<{name}>` is not closed"),
                Some("add `</…>` after it"),
            )),
            None => Ok(all),
        }
    }

    /// Takes a directive that matters for reading; the others are added.
    fn act(
        &mut self,
        directive: Directive,
        depth: usize,
        all: &mut Vec<Directive>,
    ) -> Result<(), UnreadableSource> {
        match directive.key.as_str() {
            "include" | "includeoptional" => all.extend(self.include(&directive, depth)?),
            "define" => drop(self.defined.insert(
                directive.argument(0).to_owned(),
                directive.argument(1).to_owned(),
            )),
            "undefine" => drop(self.defined.remove(directive.argument(0))),
            "loadmodule" => drop(self.modules.insert(directive.argument(0).to_owned())),
            "serverroot" => self.root.insert(0, PathBuf::from(directive.argument(0))),
            "use" => all.extend(self.used(&directive, depth)?),
            "undefmacro" => drop(self.macros.remove(&directive.word(0))),
            _ => all.push(directive),
        }
        Ok(())
    }

    /// Returns a line with its variables replaced; an undefined one stays, as in Apache.
    fn expanded(&self, line: &Line) -> Result<String, UnreadableSource> {
        let mut text = String::new();
        let mut rest = line.text.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            text.push_str(before);
            match after
                .split_once('}')
                .and_then(|(name, tail)| Some((self.defined.get(name)?, tail)))
            {
                Some((value, tail)) => {
                    text.push_str(value);
                    rest = tail;
                }
                None => {
                    text.push_str("${");
                    rest = after;
                }
            }
            if text.len() > LONGEST_LINE {
                return Err(UnreadableSource::at(
                    &line.place,
                    "its variables make it too long",
                    None,
                ));
            }
        }
        text.push_str(rest);
        Ok(text)
    }

    /// Decides about `<IfModule>` and the like; `None` for another section.
    fn condition(&self, section: &Directive) -> Option<bool> {
        let (negated, asked) = match section.argument(0).strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, section.argument(0)),
        };
        let holds = match section.key.as_str() {
            "ifmodule" => self.has_module(asked),
            "ifdefine" => self.defined.contains_key(asked),
            "iffile" => self.sources.read(Path::new(asked)).is_ok(),
            "ifdirective" | "ifsection" => true,
            "ifversion" => {
                let (operator, version) = match section.arguments.as_slice() {
                    [operator, version] => (operator.as_str(), version.as_str()),
                    _ => ("=", asked),
                };
                return Some(is_version(operator, version));
            }
            _ => return None,
        };
        Some(holds != negated)
    }

    /// `rewrite_module`, or `mod_rewrite.c`.
    pub(super) fn has_module(&self, asked: &str) -> bool {
        /// They are part of the program.
        const BUILT_IN: Words = Words("core so http log_config logio unixd version watchdog");
        /// Two alternative modules are never loaded together: the usual one is taken.
        const OTHERS: Words =
            Words("gnutls nss php5 php7 mpm_prefork mpm_worker cgi cgid include userdir");
        let bare = asked.strip_suffix("_module").or_else(|| {
            asked
                .strip_prefix("mod_")
                .and_then(|rest| rest.strip_suffix(".c"))
        });
        let bare = bare.unwrap_or_else(|| asked.trim_end_matches(".c"));
        let is_loaded = self.modules.contains(&format!("{bare}_module"));
        BUILT_IN.contains(bare) || is_loaded || self.assumes_modules && !OTHERS.contains(bare)
    }

    fn include(
        &mut self,
        directive: &Directive,
        depth: usize,
    ) -> Result<Vec<Directive>, UnreadableSource> {
        self.deeper(directive, depth)?;
        let asked = directive.argument(0);
        let is_pattern = sources::has_wildcard(asked);
        let mut found = Vec::new();
        for folder in &self.root {
            let candidate = folder.join(asked);
            if is_pattern {
                found = sources::glob(&candidate, self.sources);
            } else if self.sources.read(&candidate).is_ok() {
                found = vec![candidate];
            } else {
                // A folder stands for all that is in it.
                let names = self.sources.names_in(&candidate);
                found = names.into_iter().map(|name| candidate.join(name)).collect();
            }
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() && directive.is("include") && !is_pattern {
            let problem = format!("`Include {asked}`: there is no such file, or it cannot be read");
            let hint = "pass the main file, `/etc/apache2/apache2.conf`, or run the import on the machine that has the files";
            return Err(UnreadableSource::at(&directive.place, &problem, Some(hint)));
        }
        let mut all = Vec::new();
        for path in found {
            all.extend(self.file(&path, depth + 1)?);
        }
        Ok(all)
    }

    fn deeper(&self, directive: &Directive, depth: usize) -> Result<(), UnreadableSource> {
        if depth < DEEPEST_INCLUDE {
            return Ok(());
        }
        let problem =
            format!("files and macros include each other more than {DEEPEST_INCLUDE} deep");
        let hint = "look for a file that includes itself";
        Err(UnreadableSource::at(&directive.place, &problem, Some(hint)))
    }

    /// `<Macro name $a $b>`: its lines are kept as they are.
    fn declare(
        &mut self,
        section: &Directive,
        lines: &mut std::slice::Iter<'_, Line>,
    ) -> Result<(), UnreadableSource> {
        let mut kept = Vec::new();
        loop {
            let Some(line) = lines.next() else {
                return Err(UnreadableSource::at(
                    &section.place,
                    "`<Macro>` is not closed",
                    None,
                ));
            };
            if line.text.to_ascii_lowercase().starts_with("</macro") {
                break;
            }
            kept.push(line.clone());
        }
        let parameters = section.arguments.get(1..).unwrap_or_default().to_vec();
        let named = Macro {
            parameters,
            lines: kept,
        };
        self.macros.insert(section.word(0), named);
        Ok(())
    }

    fn used(
        &mut self,
        directive: &Directive,
        depth: usize,
    ) -> Result<Vec<Directive>, UnreadableSource> {
        self.deeper(directive, depth)?;
        let Some(named) = self.macros.get(&directive.word(0)).cloned() else {
            let problem = format!("`Use {}`: there is no such macro", directive.argument(0));
            return Err(UnreadableSource::at(
                &directive.place,
                &problem,
                Some("also pass the file with its `<Macro>`, before this one"),
            ));
        };
        let values = directive.arguments.get(1..).unwrap_or_default();
        // The longest first: `$name` must not be found in `$nameserver`.
        let mut pairs: Vec<(&String, &String)> = named
            .parameters
            .iter()
            .zip(values)
            .filter(|(name, _)| !name.is_empty())
            .collect();
        pairs.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut lines = named.lines.clone();
        for line in &mut lines {
            for (name, value) in &pairs {
                line.text = line.text.replace(name.as_str(), value);
                if line.text.len() > LONGEST_LINE {
                    return Err(UnreadableSource::at(
                        &line.place,
                        "its parameters make it too long",
                        None,
                    ));
                }
            }
        }
        self.stream(&lines, depth + 1)
    }
}

/// Passes over a section that does not hold.
fn skip(
    lines: &mut std::slice::Iter<'_, Line>,
    name: &str,
    place: &SourceLocation,
) -> Result<(), UnreadableSource> {
    let mut depth = 1_usize;
    for line in lines {
        let lower = line.text.to_ascii_lowercase();
        let word = lower.trim_start_matches(['<', '/']);
        let word = word
            .split(|end: char| end.is_whitespace() || end == '>')
            .next()
            .unwrap_or_default();
        if !word.eq_ignore_ascii_case(name) {
            continue;
        }
        if lower.starts_with("</") {
            depth -= 1;
            if depth == 0 {
                return Ok(());
            }
        } else if lower.starts_with('<') {
            depth += 1;
        }
    }
    Err(UnreadableSource::at(
        place,
        &format!("`<{name}>` is not closed"),
        Some("add `</…>` after it"),
    ))
}

/// Gives `<ElseIf>` and `<Else>` the whole condition: none of the branches before holds.
fn branch(section: &mut Directive, before: &[Directive]) {
    let own = match section.key.as_str() {
        "elseif" => format!(" && ({})", section.expression(0)),
        "else" => String::new(),
        _ => return,
    };
    // That of the branch before has those of all branches before it.
    let sections = before.iter().rev().take_while(|one| one.block.is_some());
    let chain: Vec<&Directive> = sections.collect();
    let mut others = Vec::new();
    for one in chain {
        match one.key.as_str() {
            "if" => {
                others.push(one.expression(0));
                break;
            }
            "elseif" | "else" => others.push(one.expression(0)),
            _ => break,
        }
    }
    let none: Vec<String> = others.iter().map(|one| format!("!({one})")).collect();
    section.arguments = vec![format!("{}{own}", none.join(" && "))];
}

fn is_version(operator: &str, version: &str) -> bool {
    let mut asked = [0_u32; 3];
    let mut parts = 0;
    for (slot, part) in asked.iter_mut().zip(version.split('.')) {
        *slot = part.parse().unwrap_or_default();
        parts += 1;
    }
    let own = VERSION.get(..parts).unwrap_or_default();
    let asked = asked.get(..parts).unwrap_or_default();
    match operator {
        ">=" => own >= asked,
        "<=" => own <= asked,
        ">" => own > asked,
        "<" => own < asked,
        "!=" => own != asked,
        _ => own == asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (operator, version, expected) in [
            (">=", "2.4", true),
            ("<", "2.4", false),
            ("=", "2.4", true),
            (">", "2.4", false),
            (">=", "2.4.10", true),
            ("<", "2.3", false),
        ] {
            assert_eq!(
                is_version(operator, version),
                expected,
                "{operator} {version}"
            );
        }
    }
}
