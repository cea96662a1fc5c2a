//! The Caddyfile's grammar: words, quotes, blocks, `import`, snippets, `{$VARIABLE:default}`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::sources::{self, Sources};

/// Blocks within blocks, and files within files.
const DEEPEST: usize = 24;

/// Directives of a whole configuration, those of snippets counted each time.
const MOST_DIRECTIVES: usize = 50_000;

/// A directive: its words, and its block if it has one.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) place: SourceLocation,
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
}

impl Directive {
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub(super) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    pub(super) fn argument(&self, index: usize) -> &str {
        self.arguments().get(index).map_or("", String::as_str)
    }

    pub(super) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

enum Token {
    Word(String, usize),
    Line,
}

/// Reads a file and what it imports.
pub(super) fn read(
    path: &Path,
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Vec<Directive>, UnreadableSource> {
    let mut reader = Reader {
        sources,
        snippets: BTreeMap::new(),
        left: MOST_DIRECTIVES,
        folder: path.parent().map(Path::to_owned).unwrap_or_default(),
    };
    reader.file(path, 0, findings)
}

struct Reader<'s> {
    sources: &'s dyn Sources,
    snippets: BTreeMap<String, Vec<Directive>>,
    left: usize,
    folder: PathBuf,
}

fn unreadable(place: &SourceLocation, problem: &str) -> UnreadableSource {
    UnreadableSource::at(place, problem, None)
}

impl Reader<'_> {
    fn file(
        &mut self,
        path: &Path,
        depth: usize,
        findings: &mut Findings,
    ) -> Result<Vec<Directive>, UnreadableSource> {
        let (file, text) = sources::text(path, self.sources)?;
        let tokens = tokens(&file, &text, findings)?;
        let mut position = 0;
        let directives = block(&file, &tokens, &mut position, 0)?;
        self.imported(directives, depth, findings)
    }

    fn imported(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
        findings: &mut Findings,
    ) -> Result<Vec<Directive>, UnreadableSource> {
        let mut all = Vec::new();
        for mut directive in directives {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => {
                    return Err(unreadable(
                        &directive.place,
                        &format!("there are more than {MOST_DIRECTIVES} directives"),
                    ));
                }
            }
            if depth > DEEPEST {
                return Err(unreadable(
                    &directive.place,
                    "files and snippets import each other endlessly",
                ));
            }
            let name = directive.name().to_owned();
            if let (Some(inner), Some(_)) = (
                name.strip_prefix('(')
                    .and_then(|name| name.strip_suffix(')')),
                &directive.block,
            ) {
                self.snippets
                    .insert(inner.to_owned(), directive.block.take().unwrap_or_default());
                continue;
            }
            if name == "import" {
                let wanted = directive.argument(0);
                let inner = match self.snippets.get(wanted).cloned() {
                    Some(snippet) => {
                        with_arguments(snippet, directive.arguments().get(1..).unwrap_or_default())
                    }
                    None => {
                        let pattern = self.folder.join(wanted);
                        let found = sources::glob(&pattern, self.sources);
                        if found.is_empty() && !sources::has_wildcard(wanted) {
                            let problem = format!(
                                "`import {wanted}`: there is no such snippet or file, or it cannot be read"
                            );
                            return Err(unreadable(&directive.place, &problem));
                        }
                        let mut read = Vec::new();
                        for path in found {
                            read.extend(self.file(&path, depth + 1, findings)?);
                        }
                        read
                    }
                };
                all.extend(self.imported(inner, depth + 1, findings)?);
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.imported(block, depth + 1, findings)?);
            }
            all.push(directive);
        }
        Ok(all)
    }
}

/// A snippet with its arguments in the places of `{args[0]}` and `{args.0}`.
fn with_arguments(snippet: Vec<Directive>, arguments: &[String]) -> Vec<Directive> {
    let fill = |word: String| {
        let each = arguments.iter().enumerate();
        each.fold(word, |word, (index, value)| {
            word.replace(&format!("{{args[{index}]}}"), value)
                .replace(&format!("{{args.{index}}}"), value)
        })
    };
    let filled = snippet.into_iter().map(|directive| Directive {
        place: directive.place,
        words: directive.words.into_iter().map(fill).collect(),
        block: directive
            .block
            .map(|block| with_arguments(block, arguments)),
    });
    filled.collect()
}

fn block(
    file: &Rc<str>,
    tokens: &[Token],
    position: &mut usize,
    depth: usize,
) -> Result<Vec<Directive>, UnreadableSource> {
    let mut directives = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut begun = 1;
    let place = |line| SourceLocation {
        file: Rc::clone(file),
        line,
    };
    if depth > DEEPEST {
        return Err(unreadable(
            &place(1),
            &format!("blocks are more than {DEEPEST} deep"),
        ));
    }
    loop {
        let token = tokens.get(*position);
        *position += 1;
        match token {
            Some(Token::Word(word, line))
                if word == "{" && matches!(tokens.get(*position), Some(Token::Line) | None) =>
            {
                if words.is_empty() {
                    begun = *line;
                }
                let inner = block(file, tokens, position, depth + 1)?;
                directives.push(Directive {
                    place: place(begun),
                    words: std::mem::take(&mut words),
                    block: Some(inner),
                });
            }
            Some(Token::Word(word, line)) if word == "}" && words.is_empty() => {
                if depth == 0 {
                    return Err(unreadable(&place(*line), "an unexpected `}`"));
                }
                return Ok(directives);
            }
            Some(Token::Word(word, line)) => {
                if words.is_empty() {
                    begun = *line;
                }
                words.push(word.clone());
            }
            Some(Token::Line)
                if words.last().is_some_and(|word| word.ends_with(',')) && depth == 0 => {}
            Some(Token::Line) => {
                if !words.is_empty() {
                    directives.push(Directive {
                        place: place(begun),
                        words: std::mem::take(&mut words),
                        block: None,
                    });
                }
            }
            None if depth > 0 => {
                return Err(unreadable(
                    &place(begun),
                    "a block is not closed: `}` is missing",
                ));
            }
            None => {
                if !words.is_empty() {
                    directives.push(Directive {
                        place: place(begun),
                        words,
                        block: None,
                    });
                }
                return Ok(directives);
            }
        }
    }
}

fn tokens(
    file: &Rc<str>,
    text: &str,
    findings: &mut Findings,
) -> Result<Vec<Token>, UnreadableSource> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' => {
                line += 1;
                tokens.push(Token::Line);
            }
            '\\' if characters.peek() == Some(&'\n') => {
                characters.next();
                line += 1;
            }
            space if space.is_whitespace() => {}
            '#' => while characters.next_if(|next| *next != '\n').is_some() {},
            quote @ ('"' | '`') => {
                let begun = line;
                let mut word = String::new();
                loop {
                    match characters.next() {
                        None => {
                            return Err(unreadable(
                                &SourceLocation {
                                    file: Rc::clone(file),
                                    line: begun,
                                },
                                &format!("a {quote} is never closed"),
                            ));
                        }
                        Some(end) if end == quote => break,
                        Some('\\') if quote == '"' && characters.peek() == Some(&'"') => {
                            word.extend(characters.next())
                        }
                        Some(other) => {
                            line += usize::from(other == '\n');
                            word.push(other);
                        }
                    }
                }
                tokens.push(Token::Word(word, begun));
            }
            first => {
                let mut word = String::from(first);
                while let Some(next) = characters.next_if(|next| !next.is_whitespace()) {
                    word.push(next);
                }
                if word.starts_with("<<") {
                    return Err(unreadable(
                        &SourceLocation {
                            file: Rc::clone(file),
                            line,
                        },
                        "here-documents (`<<`) are not supported",
                    ));
                }
                let place = SourceLocation {
                    file: Rc::clone(file),
                    line,
                };
                tokens.push(Token::Word(environment(word, &place, findings), line));
            }
        }
    }
    tokens.push(Token::Line);
    Ok(tokens)
}

/// `{$VARIABLE:default}` is its default; the environment of an import is not that of a server.
fn environment(word: String, place: &SourceLocation, findings: &mut Findings) -> String {
    let Some((before, after)) = word.split_once("{$") else {
        return word;
    };
    let Some((variable, rest)) = after.split_once('}') else {
        return word;
    };
    let (name, default) = variable.split_once(':').unwrap_or((variable, ""));
    let problem =
        format!("its default `{default}` is used, regardless of `{name}` in the environment");
    findings.lost(
        place,
        &format!("{{${name}}}"),
        &problem,
        "write the value into the source",
    );
    format!("{before}{default}{rest}")
}

/// The folder of `root`, if it is that of all requests.
pub(super) fn folder(root: &Directive) -> Option<String> {
    let path = root.arguments().last()?;
    let is_for_all = root.arguments().len() == 1 || root.argument(0) == "*";
    (is_for_all && !path.contains('{')).then(|| path.trim_end_matches('/').to_owned())
}
