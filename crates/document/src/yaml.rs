//! YAML 1.2 to a [`Document`] with spans: the subset that every reader interprets in the same way.
//!
//! Used for files and requests in YAML. Built on the events of `saphyr-parser`, without recursion. Must never happen: a
//! tag with an effect, an alias that fills memory, a word that one reader takes for text and another for a boolean or
//! number. So tags other than `!!str`, merge keys and ambiguous plain words are rejected, each with a remedy.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span as Marks, Tag};

use crate::diagnostic::{Diagnostic, Diagnostics, SourceText, shorten};
use crate::parse::DEPTH_LIMIT;
use crate::pointer::Pointer;
use crate::tree::{Document, Member, SourceSpan, TreeNode, Value};

/// Faults reported before giving up.
const FAULT_LIMIT: usize = 20;

/// The approximate bytes of memory that aliases may add to a document: a bomb of a few lines requests gigabytes.
const EXPANSION_LIMIT: usize = 16 << 20;

/// Approximate memory of a node without its text.
const NODE_BYTES: usize = 64;

/// Parses a document.
pub(crate) fn parse(source: SourceText) -> Result<Document, Diagnostics> {
    let text = source.text()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        source: &source,
        offsets: Offsets::new(text, source.bytes.len() - text.len()),
        frames: Vec::new(),
        anchors: HashMap::new(),
        expanded: 0,
        root: None,
        documents: 0,
        faults: Vec::new(),
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, marks)) => builder.event(event, marks),
            Err(error) => {
                let at = builder.offsets.at(error.marker().index());
                builder.scan_fault(at, error.info());
                break;
            }
        }
        if builder.faults.len() >= FAULT_LIMIT || builder.is_lost() {
            break;
        }
    }
    let (root, mut faults) = (builder.root, builder.faults);
    if !faults.is_empty() {
        return Err(Diagnostics(faults));
    }
    match root {
        Some(root) => Ok(Document::from_source(root, source)),
        None => {
            let fault = source.slip(Pointer::root(), 0..0, "the document is empty");
            faults.push(fault.suggest("write a mapping, for example `listeners: {}`"));
            Err(Diagnostics(faults))
        }
    }
}

/// Converts character positions of the scanner to byte positions.
struct Offsets {
    /// The position of each character, unless every character is one byte.
    starts: Option<Vec<u32>>,
    /// Bytes before the text.
    before: usize,
    length: usize,
}

impl Offsets {
    fn new(text: &str, before: usize) -> Offsets {
        let starts = (!text.is_ascii()).then(|| {
            let starts = text.char_indices();
            starts
                .map(|(start, _)| u32::try_from(start).unwrap_or(u32::MAX))
                .collect()
        });
        Offsets {
            starts,
            before,
            length: text.len(),
        }
    }

    fn at(&self, characters: usize) -> usize {
        let offset = match &self.starts {
            None => characters,
            Some(starts) => starts
                .get(characters)
                .map_or(self.length, |start| *start as usize),
        };
        self.before + offset.min(self.length)
    }
}

/// An array or object that is not closed yet.
struct Frame {
    anchor: usize,
    start: usize,
    content: Content,
}

enum Content {
    Array(Vec<TreeNode>),
    Object(Entries),
}

#[derive(Default)]
struct Entries {
    members: Vec<Member>,
    names: HashMap<Box<str>, SourceSpan>,
    /// The name of the next value.
    name: Option<(Box<str>, SourceSpan)>,
}

/// The value of an anchor.
struct Anchored {
    node: TreeNode,
    bytes: usize,
    depth: usize,
}

struct Builder<'s> {
    source: &'s SourceText,
    offsets: Offsets,
    frames: Vec<Frame>,
    anchors: HashMap<usize, Anchored>,
    /// Bytes that aliases have added.
    expanded: usize,
    root: Option<TreeNode>,
    documents: usize,
    faults: Vec<Diagnostic>,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, marks: Marks) {
        let (start, end) = (
            self.offsets.at(marks.start.index()),
            self.offsets.at(marks.end.index()),
        );
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let fault = self.fault(start, end, "a second document begins here");
                    fault.suggestion = Some("a configuration is one document".to_owned());
                }
            }
            Event::Alias(anchor) => self.alias(anchor, start, end),
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), (start, end));
            }
            Event::SequenceStart(anchor, tag) => {
                self.tag(tag.as_deref(), "seq", start, end);
                self.open(anchor, start, Content::Array(Vec::new()));
            }
            Event::MappingStart(anchor, tag) => {
                self.tag(tag.as_deref(), "map", start, end);
                self.open(anchor, start, Content::Object(Entries::default()));
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(end),
            _ => {}
        }
    }

    /// After this many faults further ones are not helpful.
    fn is_lost(&self) -> bool {
        self.documents > 1 || self.frames.len() > DEPTH_LIMIT || self.expanded > EXPANSION_LIMIT
    }

    fn open(&mut self, anchor: usize, start: usize, content: Content) {
        if self.awaits_name() {
            let fault = self.fault(start, start + 1, "a name is an array or object here");
            fault.suggestion = Some("a name is a text: put it in quotes".to_owned());
        }
        self.frames.push(Frame {
            anchor,
            start,
            content,
        });
        if self.frames.len() > DEPTH_LIMIT {
            let message = format!("more than {DEPTH_LIMIT} arrays and objects inside each other");
            self.fault(start, start + 1, message);
        }
    }

    fn close(&mut self, end: usize) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        let value = match frame.content {
            Content::Array(elements) => Value::Array(elements),
            Content::Object(entries) => Value::Object(entries.members),
        };
        let node = TreeNode {
            value,
            span: self.span(frame.start, end.max(frame.start)),
        };
        self.anchor(frame.anchor, &node);
        self.add(node);
    }

    fn awaits_name(&self) -> bool {
        match self.frames.last().map(|frame| &frame.content) {
            Some(Content::Object(entries)) => entries.name.is_none(),
            _ => false,
        }
    }

    fn alias(&mut self, anchor: usize, start: usize, end: usize) {
        if self.awaits_name() {
            let fault = self.fault(start, end, "a name is an alias here");
            fault.suggestion = Some(ALIAS_HINT.to_owned());
            return self.name("", self.span(start, end));
        }
        let Some(anchored) = self.anchors.get(&anchor) else {
            self.fault(
                start,
                end,
                "this alias is inside the value that it refers to",
            );
            return self.add(self.node(Value::Null, start, end));
        };
        let (node, bytes, depth) = (anchored.node.clone(), anchored.bytes, anchored.depth);
        self.expanded = self.expanded.saturating_add(bytes);
        if self.expanded > EXPANSION_LIMIT {
            let message = format!(
                "the aliases up to here make more than {} MB of configuration",
                EXPANSION_LIMIT >> 20
            );
            self.fault(start, end, message);
        } else if self.frames.len() + depth > DEPTH_LIMIT {
            let message = format!(
                "with this alias there are more than {DEPTH_LIMIT} arrays and objects inside each other"
            );
            self.fault(start, end, message);
        } else {
            return self.add(node);
        }
        self.add(self.node(Value::Null, start, end));
    }

    fn anchor(&mut self, anchor: usize, node: &TreeNode) {
        if anchor > 0 {
            let (bytes, depth) = measure(node);
            let node = node.clone();
            self.anchors.insert(anchor, Anchored { node, bytes, depth });
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        (start, end): (usize, usize),
    ) {
        let is_text = self.tag(tag, "str", start, end);
        if self.awaits_name() {
            if style == ScalarStyle::Plain && text == "<<" {
                let fault = self.fault(start, end, "`<<` does not merge mappings");
                fault.suggestion = Some(
                    "YAML 1.2 has no merge keys: repeat the members, or use an alias for the whole value"
                        .to_owned(),
                );
            }
            return self.name(text, self.span(start, end));
        }
        let value = if style != ScalarStyle::Plain || is_text {
            Value::String(text.into())
        } else {
            plain(text).unwrap_or_else(|(message, suggestion)| {
                let fault = self.fault(start, end, message);
                fault.suggestion = Some(suggestion);
                Value::Null
            })
        };
        let node = self.node(value, start, end);
        self.anchor(anchor, &node);
        self.add(node);
    }

    /// Rejects every tag except `!!str` and those without effect; true for `!!str`.
    fn tag(&mut self, tag: Option<&Tag>, harmless: &str, start: usize, end: usize) -> bool {
        let Some(tag) = tag else { return false };
        if tag.is_yaml_core_schema() && tag.suffix == harmless {
            return tag.suffix == "str";
        }
        let name = if tag.is_yaml_core_schema() {
            format!("!!{}", tag.suffix)
        } else {
            tag.to_string()
        };
        let message = format!("the tag `{}` is not supported here", shorten(&name));
        let fault = self.fault(start, end, message);
        fault.suggestion = Some("remove it; tags are not supported".to_owned());
        false
    }

    fn name(&mut self, name: &str, span: SourceSpan) {
        let repeated = match self.frames.last_mut().map(|frame| &mut frame.content) {
            Some(Content::Object(entries)) => {
                entries.name = Some((name.into(), span));
                entries.names.insert(name.into(), span)
            }
            _ => None,
        };
        if let Some(first) = repeated {
            let first = self.source.locate(first.start as usize, first.end as usize);
            let message = format!(
                "the name `{}` is repeated; it was first given at line {}, column {}",
                shorten(name),
                first.line,
                first.column
            );
            let fault = self.fault(span.start as usize, span.end as usize, message);
            fault.suggestion = Some("remove or rename one of them".to_owned());
        }
    }

    fn add(&mut self, node: TreeNode) {
        match self.frames.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(node),
            Some(Content::Array(elements)) => elements.push(node),
            Some(Content::Object(entries)) => {
                // Without a name it has been reported, and the document is rejected.
                if let Some((name, name_span)) = entries.name.take() {
                    entries.members.push(Member {
                        name,
                        name_span,
                        node,
                    });
                }
            }
        }
    }

    fn node(&self, value: Value, start: usize, end: usize) -> TreeNode {
        TreeNode {
            value,
            span: self.span(start, end),
        }
    }

    fn span(&self, start: usize, end: usize) -> SourceSpan {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        SourceSpan {
            source: self.source.id,
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// Returns the current place of parsing, as far as names are known.
    fn pointer(&self) -> Pointer {
        let mut segments = Vec::new();
        for frame in &self.frames {
            match &frame.content {
                Content::Array(elements) => segments.push(elements.len().to_string()),
                Content::Object(Entries {
                    name: Some((name, _)),
                    ..
                }) => segments.push(name.to_string()),
                Content::Object(_) => break,
            }
        }
        // The value itself does not exist yet: its parent does.
        segments.pop();
        Pointer::from_segments(segments)
    }

    fn fault(&mut self, start: usize, end: usize, message: impl Into<String>) -> &mut Diagnostic {
        let fault = self.source.slip(self.pointer(), start..end, message);
        self.faults.push(fault);
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }

    fn scan_fault(&mut self, at: usize, info: &str) {
        let byte = self.source.bytes.get(at).copied();
        let line_start = self
            .source
            .bytes
            .get(..at)
            .and_then(|before| memchr::memrchr(b'\n', before))
            .map_or(0, |newline| newline + 1);
        let line = self.source.bytes.get(line_start..).unwrap_or_default();
        let indent = line
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .any(|byte| *byte == b'\t');
        let hint = if info.contains("anchor") || byte == Some(b'*') {
            Some(ALIAS_HINT)
        } else if indent {
            Some("indent with spaces: YAML does not allow tabs there")
        } else if info.contains("did not find expected") || info.contains("mapping values") {
            Some(INDENT_HINT)
        } else {
            None
        };
        let fault = self.fault(at, at + 1, info.trim_end_matches('.'));
        fault.suggestion = hint.map(str::to_owned);
    }
}

const INDENT_HINT: &str = "check the indentation: the members of an object begin in the same column, further right than its name";

const ALIAS_HINT: &str = "`*` begins an alias: write an address or pattern in quotes, `\"*:8080\"`";

/// Returns the approximate memory and the depth of a tree; no deeper than [`DEPTH_LIMIT`], because anchors are checked
/// when they are created.
fn measure(node: &TreeNode) -> (usize, usize) {
    let add = |(bytes, depth): (usize, usize), (more, inner): (usize, usize)| {
        (bytes.saturating_add(more), depth.max(inner))
    };
    let (bytes, depth) = match &node.value {
        Value::String(text) | Value::Number(text) => (text.len(), 0),
        Value::Array(elements) => {
            let inner = elements.iter().map(measure).fold((0, 0), add);
            (inner.0, inner.1 + 1)
        }
        Value::Object(members) => {
            let inner = members.iter().map(|member| {
                let (bytes, depth) = measure(&member.node);
                (bytes + member.name.len() + NODE_BYTES, depth)
            });
            let inner = inner.fold((0, 0), add);
            (inner.0, inner.1 + 1)
        }
        _ => (0, 0),
    };
    (bytes.saturating_add(NODE_BYTES), depth)
}

/// Message and remedy.
type Ambiguity = (String, String);

/// Interprets a word without quotes by the core schema (YAML 1.2.2 §10.3.2), unless YAML 1.1 interprets it differently.
fn plain(text: &str) -> Result<Value, Ambiguity> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let lower = text.to_ascii_lowercase();
    if let Some(truth) = match lower.as_str() {
        "yes" | "on" => Some(true),
        "no" | "off" => Some(false),
        _ => None,
    } {
        let message = format!("`{text}` is a text to some readers of YAML and {truth} to others");
        return Err((
            message,
            format!("write `\"{text}\"` for the text, `{truth}` for the truth value"),
        ));
    }
    number(text).unwrap_or_else(|| Ok(Value::String(text.into())))
}

/// Returns a number in JSON's notation; `None` if the text is not one.
fn number(text: &str) -> Option<Result<Value, Ambiguity>> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { "-" } else { "" }, rest),
        None => ("", text),
    };
    let first = digits.bytes().next()?;
    if !first.is_ascii_digit() && first != b'.' {
        return None;
    }
    let based = |prefix: &str, base: u32| {
        let number = text.strip_prefix(prefix)?;
        u64::from_str_radix(number, base).ok()
    };
    if let Some(number) = based("0x", 16).or_else(|| based("0o", 8)) {
        return Some(Ok(Value::Number(number.to_string().into())));
    }
    if matches!(digits.to_ascii_lowercase().as_str(), ".inf" | ".nan") {
        let hint = format!("write `\"{text}\"` for the text");
        return Some(Err((format!("`{text}` is not a usable number"), hint)));
    }
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()) {
        let message = format!("`{text}` is octal to some readers of YAML and decimal to others");
        let hint =
            format!("write `\"{text}\"` for the text, or the number without the zero before it");
        return Some(Err((message, hint)));
    }
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (digits.get(..at)?, Some(digits.get(at + 1..)?)),
        None => (digits, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        !digits.is_empty() && all_digits(digits)
    };
    if !all_digits(whole)
        || !fraction.is_none_or(all_digits)
        || (whole.is_empty() && fraction.is_none_or(str::is_empty))
        || !exponent.is_none_or(is_exponent)
    {
        return None;
    }
    // JSON requires digits on both sides of the point, and no leading zeros.
    let whole = whole.trim_start_matches('0');
    let mut number = format!("{sign}{}", if whole.is_empty() { "0" } else { whole });
    if let Some(fraction) = fraction {
        number.push('.');
        number.push_str(if fraction.is_empty() { "0" } else { fraction });
    }
    if let Some(exponent) = exponent {
        number.push('e');
        number.push_str(exponent);
    }
    Some(Ok(Value::Number(number.into())))
}
