//! The commands that a page of `docs/` shows, for tests that run them as they stand.
//!
//! `tests/packages/guides.py` reads pages alike, and asks that each page with commands has a test that takes them from it.

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The text after the prompt.
    pub line: String,
    /// The lines that it prints there.
    pub prints: Vec<String>,
}

/// The commands of a page's `console` blocks, in their order.
pub fn commands(page: &str) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    let mut is_console = false;
    let mut continues = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
            continues = false;
            continue;
        }
        if !is_console {
            continue;
        }
        let typed = line.strip_prefix("$ ").or(line.strip_prefix("# "));
        match (found.last_mut(), typed) {
            (Some(last), _) if continues => {
                last.line.push('\n');
                last.line.push_str(line);
            }
            (_, Some(typed)) => found.push(Command {
                line: typed.to_owned(),
                prints: Vec::new(),
            }),
            (Some(last), None) => last.prints.push(line.to_owned()),
            (None, None) => {}
        }
        continues = line.ends_with('\\') && (continues || typed.is_some());
    }
    found
}

/// The lines of `commands`, with each of `places` replaced: what is only there on the reader's machine.
pub fn filled(commands: &[Command], places: &[(&str, &str)]) -> Vec<String> {
    for (from, _) in places {
        let is_there = commands.iter().any(|command| command.line.contains(from));
        assert!(is_there, "no command has `{from}`");
    }
    let fill = |command: &Command| {
        places
            .iter()
            .fold(command.line.clone(), |line, (from, to)| {
                line.replace(from, to)
            })
    };
    commands.iter().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lines_after_a_prompt_with_what_they_print() {
        let page = "text\n```json\n{}\n```\n```console\n$ one \\\n    more\nsaid\nagain\n# two\n```\n$ no command\n```console\n$ three\n```\n";
        let found = commands(page);
        let lines: Vec<&str> = found.iter().map(|one| one.line.as_str()).collect();
        assert_eq!(lines, ["one \\\n    more", "two", "three"]);
        assert_eq!(found[0].prints, ["said", "again"]);
        assert_eq!(filled(&found, &[("t", "T")])[1..], ["Two", "Three"]);
    }
}
