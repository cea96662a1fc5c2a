//! String patterns: exact, with `*`, negated by `!`, or a regular expression after `~`.
//!
//! Part of the typed model, used by the router for every request (and by the file server for `types`). Matching never
//! allocates, except inside a regular expression that needs backtracking, and never takes more than [`BACKTRACK_LIMIT`]
//! steps. Must never: treat a value for which the steps run out as matching, or as not matching. A set may list clients
//! to admit or to deny, so either result could grant access: there is none.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fancy_regex::{BytesMode, CompileError, Regex, RegexBuilder};
use memchr::memmem;
pub use tutti_options::table::{Case, Syntax};

/// Maximum backtracking steps of a regular expression on one value. A tenth of the library's default: about 5 ms.
pub const BACKTRACK_LIMIT: usize = 100_000;

/// Maximum bytes of the automaton of one expression, in steps: an expression counts as the first step that suffices,
/// because the library does not report its size. A pattern like `(\d{1000}){1000}` is rejected when it is checked.
/// Structures derived from an automaton take up to five times as much.
const SIZES: [usize; 4] = [4 << 10, 32 << 10, 256 << 10, 2 << 20];

/// Maximum bytes of the automata of all expressions of a configuration, by [`SIZES`]: 8,000 typical expressions, and
/// half a second of work (decision 0712).
const TOTAL_SIZE: usize = 32 << 20;

/// Maximum instructions of the program for what automata cannot do; calls of groups are copied into it.
const MAX_INSTRUCTIONS: usize = 65_536;

/// A set of patterns: matches if one of those without `!` does (or there are none), and none of those with `!`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patterns {
    list: Vec<Pattern>,
    has_positive: bool,
}

/// One pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// It had a leading `!`.
    pub negated: bool,
    /// The values it matches, apart from `!`.
    pub kind: PatternKind,
    case: Case,
}

/// The values a pattern matches. If case is ignored, literals are in lower case.
#[derive(Clone)]
pub enum PatternKind {
    /// Exactly this string.
    Exact(Box<[u8]>),
    /// A string that starts with `first`, ends with `last`, and has `middle` in between, in order.
    Wildcard {
        /// Before the first `*`.
        first: Box<[u8]>,
        /// Between two `*`; none is empty.
        middle: Box<[Box<[u8]>]>,
        /// After the last `*`.
        last: Box<[u8]>,
    },
    /// A string that contains a match.
    Regex(Arc<Regex>),
}

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The regular expression does not compile.
    #[error("the regular expression cannot be compiled: {0}")]
    Regex(String),
    /// The regular expression needs too much memory.
    #[error("the regular expression is too large: it needs more than {} MiB", SIZES[SIZES.len() - 1] >> 20)]
    TooLarge,
    /// This and the regular expressions before it need too much memory.
    #[error("this regular expression and those before it need more than {} MiB", TOTAL_SIZE >> 20)]
    TooMany,
    /// `%` without two hexadecimal digits.
    #[error("`%` is not followed by two hexadecimal digits")]
    Percent,
}

/// A regular expression ran out of steps, so it is unknown whether it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the regular expression `{expression}` needs more than {BACKTRACK_LIMIT} steps back")]
pub struct OutOfSteps<'p> {
    /// Its source, without `~`.
    pub expression: &'p str,
}

impl Patterns {
    /// A set of these.
    pub fn new(list: Vec<Pattern>) -> Self {
        let has_positive = list.iter().any(|pattern| !pattern.negated);
        Patterns { list, has_positive }
    }

    /// Its patterns, in order.
    pub fn list(&self) -> &[Pattern] {
        &self.list
    }

    /// True if there is a pattern without `!`.
    pub fn has_positive(&self) -> bool {
        self.has_positive
    }

    /// True if a pattern without `!` is exactly this value.
    pub fn names(&self, value: &[u8]) -> bool {
        let mut wanted = self.list.iter().filter(|pattern| !pattern.negated);
        wanted.any(|pattern| pattern.exact() == Some(value))
    }

    /// True if `value` belongs to the set. The empty set contains every value.
    ///
    /// # Errors
    /// A regular expression that decides the result ran out of steps.
    pub fn matches(&self, value: &[u8]) -> Result<bool, OutOfSteps<'_>> {
        self.matches_any([value])
    }

    /// True if one of `values` belongs to the set, and no pattern with `!` matches any of them.
    ///
    /// # Errors
    /// As those of [`Patterns::matches`].
    pub fn matches_any<'v>(
        &self,
        values: impl IntoIterator<Item = &'v [u8]>,
    ) -> Result<bool, OutOfSteps<'_>> {
        let mut found = !self.has_positive;
        for value in values {
            for pattern in &self.list {
                if pattern.negated {
                    if pattern.found_in(value)? {
                        return Ok(false);
                    }
                } else if !found {
                    found = pattern.found_in(value)?;
                }
            }
        }
        Ok(found)
    }
}

impl Pattern {
    /// Parses one pattern.
    pub fn parse(source: &str, syntax: Syntax) -> Result<Pattern, PatternError> {
        let (negated, rest) = match source.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, source),
        };
        let kind = if let Some(regex) = rest.strip_prefix('~') {
            PatternKind::Regex(expression(regex, syntax.case)?)
        } else if syntax.plus && rest.contains('+') {
            PatternKind::Regex(expression(&with_plus(rest)?, syntax.case)?)
        } else {
            literal(rest, syntax)?
        };
        Ok(Pattern {
            negated,
            kind,
            case: syntax.case,
        })
    }

    /// Returns the string that this pattern matches, if it is a single one; in lower case if case is ignored.
    pub fn exact(&self) -> Option<&[u8]> {
        match &self.kind {
            PatternKind::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the groups of a regular expression that matches `value`, ignoring `!`; none of another pattern.
    ///
    /// # Errors
    /// It ran out of steps.
    pub fn groups_in(&self, value: &[u8]) -> Result<Option<CapturedGroups>, OutOfSteps<'_>> {
        let PatternKind::Regex(regex) = &self.kind else {
            return Ok(None);
        };
        let captured = regex.captures(value).map_err(|_| OutOfSteps {
            expression: regex.as_str(),
        })?;
        Ok(captured.map(|captured| {
            let group = |number| {
                captured
                    .get(number)
                    .map_or(&b""[..], |group| group.as_bytes())
            };
            CapturedGroups {
                regex: Arc::clone(regex),
                values: (0..captured.len())
                    .map(|number| group(number).into())
                    .collect(),
            }
        }))
    }

    /// True if it is a regular expression that has this group: a number or a name.
    pub fn has_group(&self, group: &str) -> bool {
        match &self.kind {
            PatternKind::Regex(regex) => match group.parse::<usize>() {
                Ok(number) => number < regex.captures_len(),
                Err(_) => regex.capture_names().flatten().any(|name| name == group),
            },
            _ => false,
        }
    }

    /// True if the pattern matches `value`, ignoring `!`.
    ///
    /// # Errors
    /// It is a regular expression that ran out of steps.
    pub fn found_in(&self, value: &[u8]) -> Result<bool, OutOfSteps<'_>> {
        match &self.kind {
            PatternKind::Exact(text) => Ok(equal(self.case, text, value)),
            PatternKind::Wildcard {
                first,
                middle,
                last,
            } => Ok(wildcard(self.case, first, middle, last, value)),
            PatternKind::Regex(regex) => regex.is_match(value).map_err(|_| OutOfSteps {
                expression: regex.as_str(),
            }),
        }
    }
}

/// The groups of a regular expression that has matched.
#[derive(Clone, Debug)]
pub struct CapturedGroups {
    regex: Arc<Regex>,
    values: Vec<Box<[u8]>>,
}

impl CapturedGroups {
    /// The text of a group, by its number or its name; empty if it has none.
    pub fn get(&self, group: &str) -> &[u8] {
        let number = group.parse::<usize>().ok();
        let mut names = self.regex.capture_names();
        let number = number.or_else(|| names.position(|name| name == Some(group)));
        let value = number.and_then(|number| self.values.get(number));
        value.map(|value| &**value).unwrap_or_default()
    }
}

fn equal(case: Case, a: &[u8], b: &[u8]) -> bool {
    match case {
        Case::Exact => a == b,
        Case::Ignore => a.eq_ignore_ascii_case(b),
    }
}

fn find(case: Case, needle: &[u8], text: &[u8]) -> Option<usize> {
    match case {
        Case::Exact => memmem::find(text, needle),
        Case::Ignore => text
            .windows(needle.len())
            .position(|window| window.eq_ignore_ascii_case(needle)),
    }
}

fn wildcard(case: Case, first: &[u8], middle: &[Box<[u8]>], last: &[u8], value: &[u8]) -> bool {
    if value.len() < first.len() + last.len() {
        return false;
    }
    let (head, rest) = value.split_at(first.len());
    let (mut body, tail) = rest.split_at(rest.len() - last.len());
    if !equal(case, first, head) || !equal(case, last, tail) {
        return false;
    }
    // Using the leftmost position for each piece leaves the most room for the following ones.
    for piece in middle {
        let Some(position) = find(case, piece, body) else {
            return false;
        };
        let Some(after) = body.get(position + piece.len()..) else {
            return false;
        };
        body = after;
    }
    true
}

/// The regular expressions of the configuration that is being checked.
#[derive(Default)]
struct Expressions {
    compiled: HashMap<(Case, Box<str>), Result<Arc<Regex>, PatternError>>,
    /// Their total size in bytes, by [`SIZES`].
    bytes: usize,
}

thread_local! {
    /// Set while a configuration is checked. It is not an argument because patterns are parsed far below the code that
    /// knows where a configuration begins, and twice: when the text is checked and when the configuration is built.
    static EXPRESSIONS: RefCell<Option<Expressions>> = const { RefCell::new(None) };
}

/// Runs `work`, which checks one configuration: equal regular expressions are compiled once, and their total size is
/// limited.
pub(crate) fn within_bounds<T>(work: impl FnOnce() -> T) -> T {
    EXPRESSIONS.set(Some(Expressions::default()));
    let outcome = work();
    EXPRESSIONS.set(None);
    outcome
}

/// Compiles an expression, or returns an equal one.
fn expression(source: &str, case: Case) -> Result<Arc<Regex>, PatternError> {
    EXPRESSIONS.with_borrow_mut(|expressions| {
        let Some(Expressions { compiled, bytes }) = expressions else {
            return compile(source, case, TOTAL_SIZE).map(|(regex, _)| regex);
        };
        let key = (case, Box::from(source));
        if let Some(known) = compiled.get(&key) {
            return known.clone();
        }
        let made = compile(source, case, TOTAL_SIZE - *bytes).map(|(regex, size)| {
            *bytes += size;
            regex
        });
        compiled.insert(key, made.clone());
        made
    })
}

/// Compiles an expression that may take `left` bytes, and returns the bytes it counts as.
fn compile(source: &str, case: Case, left: usize) -> Result<(Arc<Regex>, usize), PatternError> {
    // Each group with an extension, such as a look-ahead, may have an automaton of its own.
    let automata = 1 + memmem::find_iter(source.as_bytes(), b"(?").count();
    let counted = |size: usize| size.saturating_mul(automata);
    for size in SIZES {
        if counted(size) > left {
            return Err(PatternError::TooMany);
        }
        let built = RegexBuilder::new(source)
            .bytes_mode(BytesMode::Ascii)
            .case_insensitive(case == Case::Ignore)
            .backtrack_limit(BACKTRACK_LIMIT)
            .delegate_size_limit(size)
            .max_prog_size(MAX_INSTRUCTIONS)
            .build();
        match built {
            Ok(regex) => return Ok((Arc::new(regex), counted(size))),
            Err(error) if exceeds_size(&error) => {}
            Err(error) => return Err(PatternError::Regex(error.to_string())),
        }
    }
    Err(PatternError::TooLarge)
}

fn exceeds_size(error: &fancy_regex::Error) -> bool {
    match error {
        fancy_regex::Error::CompileError(error) => match &**error {
            CompileError::InnerError(error) => error.size_limit().is_some(),
            _ => false,
        },
        _ => false,
    }
}

/// Returns the regular expression for a pattern in which `+` matches `+` and a space.
fn with_plus(source: &str) -> Result<String, PatternError> {
    let mut expression = r"(?s)\A".to_owned();
    for piece in source.split_inclusive(['*', '+']) {
        let (text, special) = match piece.strip_suffix(['*', '+']) {
            Some(text) => (text, piece.get(text.len()..).unwrap_or_default()),
            None => (piece, ""),
        };
        for byte in percent_decode(text)? {
            expression.push_str(&format!(r"\x{byte:02X}"));
        }
        expression.push_str(match special {
            "*" => ".*",
            "+" => "[+ ]",
            _ => "",
        });
    }
    expression.push_str(r"\z");
    Ok(expression)
}

fn literal(source: &str, syntax: Syntax) -> Result<PatternKind, PatternError> {
    let mut pieces = Vec::new();
    for piece in source.split('*') {
        let mut bytes = if syntax.percent {
            percent_decode(piece)?
        } else {
            piece.as_bytes().to_vec()
        };
        if syntax.case == Case::Ignore {
            bytes.make_ascii_lowercase();
        }
        pieces.push(bytes.into_boxed_slice());
    }
    let last = pieces.pop().unwrap_or_default();
    if pieces.is_empty() {
        return Ok(PatternKind::Exact(last));
    }
    let first = pieces.remove(0);
    let middle = pieces
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .collect();
    Ok(PatternKind::Wildcard {
        first,
        middle,
        last,
    })
}

/// Replaces `%XX` by the byte it encodes.
///
/// # Errors
/// [`PatternError::Percent`] at a `%` without two following digits, which the library would leave unchanged.
pub fn percent_decode(source: &str) -> Result<Vec<u8>, PatternError> {
    let mut escapes = source.as_bytes().split(|byte| *byte == b'%').skip(1);
    let is_whole = |escape: &[u8]| match escape {
        [high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        _ => false,
    };
    if !escapes.all(is_whole) {
        return Err(PatternError::Percent);
    }
    Ok(percent_encoding::percent_decode_str(source).collect())
}

impl PartialEq for PatternKind {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (PatternKind::Exact(a), PatternKind::Exact(b)) => a == b,
            (
                PatternKind::Wildcard {
                    first: a,
                    middle: b,
                    last: c,
                },
                PatternKind::Wildcard {
                    first: x,
                    middle: y,
                    last: z,
                },
            ) => a == x && b == y && c == z,
            (PatternKind::Regex(a), PatternKind::Regex(b)) => a.as_str() == b.as_str(),
            _ => false,
        }
    }
}

impl fmt::Debug for PatternKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternKind::Exact(text) => write!(f, "Exact({})", text.escape_ascii()),
            PatternKind::Wildcard {
                first,
                middle,
                last,
            } => {
                write!(f, "Wildcard({}*", first.escape_ascii())?;
                for piece in middle {
                    write!(f, "{}*", piece.escape_ascii())?;
                }
                write!(f, "{})", last.escape_ascii())
            }
            PatternKind::Regex(regex) => write!(f, "Regex({})", regex.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(patterns: &[&str], value: &str) -> bool {
        let syntax = Syntax {
            case: Case::Exact,
            percent: true,
            plus: false,
        };
        Patterns::new(
            patterns
                .iter()
                .map(|source| Pattern::parse(source, syntax).unwrap())
                .collect(),
        )
        .matches(value.as_bytes())
        .unwrap()
    }

    #[test]
    fn wildcards_stand_anywhere() {
        assert!(matches(&["How*s*that*to*you"], "How is that to you"));
        assert!(!matches(&["How*s*that*to*you"], "How is that to me"));
        assert!(matches(&["/admin/*/*.php"], "/admin/a/b.php"));
        assert!(!matches(&["/admin/*/*.php"], "/admin/b.php"));
        assert!(matches(&["*"], ""));
        assert!(matches(&["a**b"], "ab"));
        assert!(!matches(&["ab*b"], "ab"), "the ends do not overlap");
        assert!(matches(&["*ab*ab*"], "abab"));
        assert!(!matches(&["*ab*ab*"], "aba"));
    }

    #[test]
    fn negated_patterns_take_away() {
        assert!(matches(&["!/index.php"], "/other"));
        assert!(!matches(&["!/index.php"], "/index.php"));
        assert!(matches(
            &["eu-*.example.com", "!eu-5.example.com"],
            "eu-1.example.com"
        ));
        assert!(!matches(
            &["eu-*.example.com", "!eu-5.example.com"],
            "eu-5.example.com"
        ));
        assert!(!matches(
            &["!eu-5.example.com", "eu-*.example.com"],
            "us-1.example.com"
        ));
        assert!(
            !matches(&["!"], ""),
            "the empty pattern is the empty string"
        );
        assert!(matches(&["!"], "text/css"));
        assert!(matches(&[], "anything"));
    }

    /// Issue 28, 2.5.
    #[test]
    fn a_plus_in_a_query_stands_for_itself_and_for_a_space() {
        let is_found = |pattern: &str, value: &[u8]| {
            let pattern = Pattern::parse(pattern, tutti_options::table::QUERY).unwrap();
            pattern.found_in(value).unwrap()
        };
        for value in ["a+b", "a b"] {
            assert!(is_found("a+b", value.as_bytes()), "{value}");
            assert!(is_found("*a+*", value.as_bytes()), "{value}");
        }
        assert!(!is_found("a+b", b"axb"));
        assert!(!is_found("a+b", b"a+b\n"));
        assert!(is_found("a%2Bb", b"a+b") && !is_found("a%2Bb", b"a b"));
        assert!(is_found("a%20b", b"a b") && !is_found("a%20b", b"a+b"));
        assert!(is_found("+%C3%A4.*", " ä.\n".as_bytes()));
        assert!(
            !is_found("+.", b" x"),
            "other characters stand for themselves"
        );
        assert_eq!(
            Pattern::parse("+%", tutti_options::table::QUERY),
            Err(PatternError::Percent)
        );
        assert!(matches(&["a+b"], "a+b") && !matches(&["a+b"], "a b"));
    }

    /// Issue 28, 1.16: 2,000 patterns took 1 GB and 21 seconds.
    #[test]
    fn the_expressions_of_a_configuration_are_bounded_together_and_equal_ones_shared() {
        let parse = |source: &str| Pattern::parse(source, Syntax::default());
        let large = |number: usize| format!("~a{number}(b{{1,1000}}){{1,10}}");
        assert_eq!(parse(r"~(\d{1000}){1000}"), Err(PatternError::TooLarge));
        let outcomes: Vec<_> =
            within_bounds(|| (0..100).map(|number| parse(&large(number))).collect());
        let refused = outcomes.iter().position(Result::is_err).unwrap();
        assert!((10..=40).contains(&refused), "{refused}");
        assert_eq!(outcomes[refused], Err(PatternError::TooMany));
        within_bounds(|| {
            let first = parse(&large(0)).unwrap();
            for _ in 0..100 {
                let PatternKind::Regex(again) = parse(&large(0)).unwrap().kind else {
                    panic!("a regular expression");
                };
                assert!(
                    matches!(&first.kind, PatternKind::Regex(regex) if Arc::ptr_eq(regex, &again))
                );
            }
            for number in 0..5_000 {
                parse(&format!("~^/blog/{number}/[^/]+\\.php(/.*)?$")).unwrap();
            }
            // Without regard to case it is a different one.
            assert!(parse("~^/blog/").is_ok());
        });
        // Each look-ahead has an automaton of its own.
        let heads = "(?=b{1,1000})".repeat(1000);
        assert_eq!(
            within_bounds(|| parse(&format!("~{heads}"))),
            Err(PatternError::TooMany)
        );
        let calls = format!("~(?<a>x){}", r"(\g<a>\g<a>)".repeat(40_000));
        assert!(matches!(parse(&calls), Err(PatternError::Regex(_))));
    }

    #[test]
    fn percent_masks_special_characters() {
        assert!(matches(&["%21a"], "!a"));
        assert!(matches(&["%7Ea"], "~a"));
        assert!(matches(&["a%2Ab"], "a*b"));
        assert!(!matches(&["a%2Ab"], "axb"));
        let syntax = Syntax {
            case: Case::Exact,
            percent: true,
            plus: false,
        };
        assert!(
            Pattern::parse("*%C3*", syntax)
                .unwrap()
                .found_in("Ö".as_bytes())
                .unwrap()
        );
        assert_eq!(Pattern::parse("50%", syntax), Err(PatternError::Percent));
    }

    #[test]
    fn regular_expressions_search_and_are_bounded() {
        assert!(matches(
            &["~^/data/www/.*\\.php(/.*)?$"],
            "/data/www/a.php/info"
        ));
        assert!(!matches(
            &["/articles/*", "!~/articles/\\d{4}-\\d{2}-\\d{2}"],
            "/articles/2024-01-02"
        ));
        assert!(matches(&["~(?<!x)foo(?=bar)"], "foobar"));
    }

    /// Issue 10: it was taken for one that does not match, so that a rule which denies let the value through.
    #[test]
    fn an_expression_out_of_steps_neither_matches_nor_fails_to_match() {
        // Takes exponentially many steps.
        const ENDLESS: &str = r"^(?:(a+)(a+)(a+))+\1\2\3(?=c)";
        let long = "a".repeat(60);
        let set = |sources: &[String]| {
            let patterns = sources.iter();
            let patterns =
                patterns.map(|source| Pattern::parse(source, Syntax::default()).unwrap());
            Patterns::new(patterns.collect())
        };
        let unknown = Err(OutOfSteps {
            expression: ENDLESS,
        });
        let plain = format!("~{ENDLESS}");
        let negated = format!("!~{ENDLESS}");
        for sources in [
            vec![plain.clone()],
            vec![negated.clone()],
            vec!["b".to_owned(), plain.clone()],
            vec!["a*".to_owned(), negated.clone()],
        ] {
            assert_eq!(
                set(&sources).matches(long.as_bytes()),
                unknown,
                "{sources:?}"
            );
        }
        // A set that is decided without it does not evaluate it.
        assert_eq!(
            set(&["a*".to_owned(), plain]).matches(long.as_bytes()),
            Ok(true)
        );
        assert_eq!(
            set(&["!a*".to_owned(), negated]).matches(long.as_bytes()),
            Ok(false)
        );
    }

    #[test]
    fn case_is_ignored_where_asked_for() {
        let syntax = Syntax {
            case: Case::Ignore,
            percent: false,
            plus: false,
        };
        assert!(
            Pattern::parse("*GZIP*", syntax)
                .unwrap()
                .found_in(b"br, gzip, deflate")
                .unwrap()
        );
        assert!(
            Pattern::parse("~^MOZ", syntax)
                .unwrap()
                .found_in(b"mozilla")
                .unwrap()
        );
        assert!(
            Pattern::parse("100%", syntax)
                .unwrap()
                .found_in(b"100%")
                .unwrap()
        );
    }
}
