//! nginx's grammar: words, quotes, escapes, comments, blocks; and `include`, which is followed.
//!
//! The grammar is that of nginx.org's "Configuration file's structure"; `tests/crossplane.rs` compares the result with another reader's.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::finding::UnreadableSource;
use crate::finding::{Findings, SourceLocation};
use crate::sources::{self, Sources};

/// Files within files. nginx has no bound; its own configuration has two levels.
const DEEPEST_INCLUDE: usize = 16;

/// Blocks within blocks; `location` within `location` is all that nests at will.
const DEEPEST_BLOCK: usize = 64;

/// Statements of a whole configuration, included files counted each time: a file that includes itself twice would double them
/// at every level.
const MOST_STATEMENTS: usize = 200_000;

/// A directive: its name, its arguments, and its block if it has one.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) place: SourceLocation,
    /// Name first, then the arguments.
    pub words: Vec<String>,
    /// The statements between `{` and `}`.
    pub block: Option<Vec<Statement>>,
}

impl Statement {
    pub(crate) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub(crate) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    pub(crate) fn argument(&self, index: usize) -> &str {
        self.arguments().get(index).map_or("", String::as_str)
    }

    pub(crate) fn inner(&self) -> &[Statement] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The line of the name, from 1.
    pub fn line(&self) -> usize {
        self.place.line
    }
}

/// Parses one text, without following `include`.
///
/// # Errors
/// nginx would not accept it.
pub fn parse(name: &str, text: &str) -> Result<Vec<Statement>, UnreadableSource> {
    let mut parser = Parser {
        file: name.into(),
        characters: text.chars().peekable(),
        line: 1,
        left: MOST_STATEMENTS,
    };
    parser.statements(0)
}

/// Reads a file and all that it includes.
pub(crate) fn read(
    path: &Path,
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Vec<Statement>, UnreadableSource> {
    let mut reader = Reader {
        folders: folders(path),
        sources,
        findings,
        left: MOST_STATEMENTS,
    };
    reader.file(path, 0)
}

/// Where relative names of `include` may begin: nginx takes the folder of its main file; a site's file is in one below it.
fn folders(path: &Path) -> Vec<PathBuf> {
    let parents = path.ancestors().skip(1).take(3).map(Path::to_owned);
    parents.chain([PathBuf::from("/etc/nginx")]).collect()
}

struct Reader<'s> {
    folders: Vec<PathBuf>,
    sources: &'s dyn Sources,
    findings: &'s mut Findings,
    left: usize,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Statement>, UnreadableSource> {
        let (name, text) = sources::text(path, self.sources)?;
        let statements = parse(&name, &text)?;
        self.included(statements, depth)
    }

    fn included(
        &mut self,
        statements: Vec<Statement>,
        depth: usize,
    ) -> Result<Vec<Statement>, UnreadableSource> {
        let mut all = Vec::new();
        for mut statement in statements {
            let Some(left) = self.left.checked_sub(1) else {
                let problem = format!("there are more than {MOST_STATEMENTS} directives");
                return Err(UnreadableSource::at(&statement.place, &problem, None));
            };
            self.left = left;
            if statement.name() == "include" && statement.block.is_none() {
                all.extend(self.include(&statement, depth)?);
                continue;
            }
            if let Some(block) = statement.block.take() {
                statement.block = Some(self.included(block, depth)?);
            }
            all.push(statement);
        }
        Ok(all)
    }

    fn include(
        &mut self,
        statement: &Statement,
        depth: usize,
    ) -> Result<Vec<Statement>, UnreadableSource> {
        if depth >= DEEPEST_INCLUDE {
            let problem = format!("files include each other more than {DEEPEST_INCLUDE} deep");
            let hint = "look for a file that includes itself";
            return Err(UnreadableSource::at(&statement.place, &problem, Some(hint)));
        }
        let pattern = statement.argument(0);
        let candidates = self.folders.iter().map(|folder| folder.join(pattern));
        let is_pattern = sources::has_wildcard(pattern);
        let mut found = Vec::new();
        for candidate in candidates {
            if is_pattern {
                found = sources::glob(&candidate, self.sources);
            } else if self.sources.read(&candidate).is_ok() {
                found = vec![candidate];
            }
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() && !is_pattern {
            let problem =
                format!("`include {pattern}`: there is no such file, or it cannot be read");
            let hint = "pass the main file, `/etc/nginx/nginx.conf`, or run the import on the machine that has the files";
            return Err(UnreadableSource::at(&statement.place, &problem, Some(hint)));
        }
        if found.is_empty() {
            let problem = format!("no file matches `{pattern}`");
            let hint = "run the import on the machine that has the files, if there are any";
            self.findings
                .note(&statement.place, "include", &problem, hint);
        }
        let mut all = Vec::new();
        for path in found {
            all.extend(self.file(&path, depth + 1)?);
        }
        Ok(all)
    }
}

struct Parser<'t> {
    file: Rc<str>,
    characters: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
    left: usize,
}

/// The end of a word.
enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

impl Parser<'_> {
    fn place(&self, line: usize) -> SourceLocation {
        SourceLocation {
            file: Rc::clone(&self.file),
            line,
        }
    }

    fn fail<T>(&self, problem: &str) -> Result<T, UnreadableSource> {
        Err(UnreadableSource::at(&self.place(self.line), problem, None))
    }

    fn next(&mut self) -> Option<char> {
        let next = self.characters.next();
        if next == Some('\n') {
            self.line += 1;
        }
        next
    }

    fn statements(&mut self, depth: usize) -> Result<Vec<Statement>, UnreadableSource> {
        if depth > DEEPEST_BLOCK {
            return self.fail(&format!("blocks are more than {DEEPEST_BLOCK} deep"));
        }
        let mut statements = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut begun = self.line;
        loop {
            let token = self.token()?;
            let named = words.first().cloned();
            match (token, named) {
                (Token::Word(word), None) => {
                    begun = self.line_of(&word);
                    words.push(word);
                }
                (Token::Word(word), Some(_)) => words.push(word),
                (Token::Semicolon | Token::Open, None) => {
                    return self.fail("a directive has no name");
                }
                (Token::Semicolon, Some(_)) => {
                    statements.push(self.statement(begun, &mut words, None)?);
                }
                (Token::Open, Some(name)) => {
                    let inner = if name.ends_with("_by_lua_block") {
                        self.skip_code()?;
                        Vec::new()
                    } else {
                        self.statements(depth + 1)?
                    };
                    statements.push(self.statement(begun, &mut words, Some(inner))?);
                }
                (Token::Close | Token::End, Some(name)) => {
                    return self.fail(&format!("`{name}` is not followed by `;`"));
                }
                (Token::Close, None) if depth == 0 => {
                    return self.fail("an unexpected `}`");
                }
                (Token::End, None) if depth > 0 => {
                    return self.fail("a block is not closed: `}` is missing");
                }
                (Token::Close | Token::End, None) => return Ok(statements),
            }
        }
    }

    /// The line that a word began in: quoted ones may have several.
    fn line_of(&self, word: &str) -> usize {
        let inside = word.matches('\n').count();
        self.line.saturating_sub(inside).max(1)
    }

    fn statement(
        &mut self,
        line: usize,
        words: &mut Vec<String>,
        block: Option<Vec<Statement>>,
    ) -> Result<Statement, UnreadableSource> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return self.fail(&format!("there are more than {MOST_STATEMENTS} directives")),
        }
        Ok(Statement {
            place: self.place(line),
            words: std::mem::take(words),
            block,
        })
    }

    /// Program text in a block, up to the brace that closes it.
    fn skip_code(&mut self) -> Result<(), UnreadableSource> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.next() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
                None => return self.fail("a block is not closed: `}` is missing"),
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Token, UnreadableSource> {
        loop {
            let Some(&character) = self.characters.peek() else {
                return Ok(Token::End);
            };
            match character {
                '#' => {
                    while self.characters.peek().is_some_and(|next| *next != '\n') {
                        self.next();
                    }
                }
                ';' | '{' | '}' => {
                    self.next();
                    return Ok(match character {
                        ';' => Token::Semicolon,
                        '{' => Token::Open,
                        _ => Token::Close,
                    });
                }
                '"' | '\'' => {
                    self.next();
                    return self.quoted(character).map(Token::Word);
                }
                space if is_space(space) => {
                    self.next();
                }
                _ => return Ok(Token::Word(self.plain())),
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, UnreadableSource> {
        let begun = self.line;
        let mut word = String::new();
        loop {
            match self.next() {
                None => {
                    let problem = format!("a {quote} is never closed");
                    return Err(UnreadableSource::at(&self.place(begun), &problem, None));
                }
                Some('\\') => self.escape(&mut word),
                Some(end) if end == quote => break,
                Some(other) => word.push(other),
            }
        }
        match self.characters.peek() {
            None | Some(';' | '{' | ')') => Ok(word),
            Some(space) if is_space(*space) => Ok(word),
            Some(other) => {
                let problem = format!("`{other}` stands behind a closing quote");
                self.fail(&problem)
            }
        }
    }

    fn plain(&mut self) -> String {
        let mut word = String::new();
        let mut after_dollar = false;
        while let Some(&character) = self.characters.peek() {
            let is_variable = character == '{' && after_dollar;
            if is_space(character) || character == ';' || (character == '{' && !is_variable) {
                break;
            }
            self.next();
            after_dollar = character == '$';
            if character == '\\' {
                self.escape(&mut word);
            } else {
                word.push(character);
            }
        }
        word
    }

    /// Appends the character behind a backslash. Those of regular expressions stay.
    fn escape(&mut self, word: &mut String) {
        match self.next() {
            Some(quote @ ('"' | '\'' | '\\')) => word.push(quote),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(other) => word.extend(['\\', other]),
            None => word.push('\\'),
        }
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let statements = parse("t", text).expect("it is nginx's grammar");
        statements
            .into_iter()
            .map(|statement| statement.words)
            .collect()
    }

    #[test]
    fn words_quotes_and_escapes() {
        assert_eq!(
            words("a 'b c' \"d\\\"e\" f\\ g ${h}i \\.php$ # j;\nk \"l\nm\";"),
            [vec![
                "a", "b c", "d\"e", "f\\ g", "${h}i", "\\.php$", "k", "l\nm"
            ]]
        );
    }

    #[test]
    fn faults_are_reported_with_their_line() {
        for (text, line) in [
            ("a;\nb", 2),
            ("a {\n b;\n", 3),
            ("\n}", 2),
            ("a 'b;\n", 1),
            ("a 'b'c;", 1),
            (";", 1),
        ] {
            let error = parse("t", text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(parse("t", &"a {".repeat(100_000)).is_err());
    }
}
