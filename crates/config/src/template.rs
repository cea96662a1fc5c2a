//! Strings with variables, `/var/www$uri`, `routes/${method}_route`, and JavaScript template literals, in backticks.
//!
//! Part of the typed model; parsed here once, rendered by `tutti-routing`. An unknown variable is an error when the
//! configuration is checked; a variable without a value in a request is empty.

use std::fmt;

use tutti_script::CompileError;

use crate::variables::{self, Variable};

/// A parsed template. Two templates are equal if their source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    source: Box<str>,
    parts: Box<[TemplatePart]>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TemplatePart {
    /// Text.
    Literal(Box<str>),
    /// The value of a variable.
    Variable(Variable),
    /// A JavaScript template literal, backticks included; always the only part.
    Script(Box<str>),
}

/// Why a template cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// `$` with no name after it.
    #[error("a `$` is not followed by the name of a variable")]
    LoneDollar,
    /// `${` without `}`.
    #[error("a `${{` is never closed by `}}`")]
    Unclosed,
    /// No such variable.
    #[error("there is no variable `${name}`")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The nearest existing name.
        nearest: Option<String>,
    },
    /// A JavaScript template literal that cannot be compiled.
    #[error("{}{}", .0.message, placed(.0))]
    Script(CompileError),
}

impl TemplateError {
    /// Returns the remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            TemplateError::LoneDollar => {
                Some("write `$dollar` for the character itself".to_owned())
            }
            TemplateError::Unclosed => Some("add the missing `}`".to_owned()),
            TemplateError::Unknown { nearest, .. } => nearest
                .as_ref()
                .map(|name| format!("did you mean `${name}`?")),
            TemplateError::Script(fault) => fault.hint.map(str::to_owned),
        }
    }
}

impl Template {
    /// Parses `source`.
    pub fn parse(source: &str) -> Result<Template, TemplateError> {
        if source.starts_with('`') {
            tutti_script::check_template(source).map_err(TemplateError::Script)?;
            return Ok(Template {
                source: source.into(),
                parts: [TemplatePart::Script(source.into())].into(),
            });
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once('$') {
            literal.push_str(before);
            let (name, tail) = split_name(after)?;
            rest = tail;
            let found = variables::named(name).map_err(|nearest| TemplateError::Unknown {
                name: name.to_owned(),
                nearest,
            })?;
            match found {
                None => literal.push('$'),
                Some(variable) => {
                    if !literal.is_empty() {
                        parts.push(TemplatePart::Literal(std::mem::take(&mut literal).into()));
                    }
                    parts.push(TemplatePart::Variable(variable));
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal.into()));
        }
        Ok(Template {
            source: source.into(),
            parts: parts.into(),
        })
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns its parts; none for the empty string.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// Returns it without some of its parts.
    #[must_use]
    pub fn without(&self, is_left_out: impl Fn(&TemplatePart) -> bool) -> Template {
        let parts = self.parts.iter().filter(|part| !is_left_out(part));
        Template {
            source: self.source.clone(),
            parts: parts.cloned().collect(),
        }
    }

    /// True if it is a JavaScript template literal.
    pub fn is_script(&self) -> bool {
        matches!(&*self.parts, [TemplatePart::Script(_)])
    }

    /// The text, if there are no variables.
    pub fn as_literal(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// Returns the position in the script, in the string after JSON's escapes.
pub(crate) fn placed(fault: &CompileError) -> String {
    let of = match fault.module {
        Some(_) => "module",
        None => "script",
    };
    match fault.place {
        Some((line, column)) => format!(" (line {line}, column {column} of the {of})"),
        None => String::new(),
    }
}

/// Splits the text after a `$` into the variable's name and the rest.
fn split_name(after: &str) -> Result<(&str, &str), TemplateError> {
    if let Some(braced) = after.strip_prefix('{') {
        let (name, tail) = braced.split_once('}').ok_or(TemplateError::Unclosed)?;
        return if name.is_empty() {
            Err(TemplateError::LoneDollar)
        } else {
            Ok((name, tail))
        };
    }
    // "Variable names can contain letters and underscores"; argument and cookie names have digits in practice, and
    // `$header_accept-encoding` is documented, so a hyphen is part of the name there.
    let dashes = after.starts_with("header_") || after.starts_with("response_header_");
    let named =
        after.starts_with("arg_") || after.starts_with("raw_arg_") || after.starts_with("cookie_");
    // Only one name of a whole variable contains digits.
    if let Some(tail) = after.strip_prefix("time_iso8601") {
        return Ok(("time_iso8601", tail));
    }
    let end = after
        .find(|c: char| {
            !(c.is_ascii_alphabetic()
                || c == '_'
                || (dashes && c == '-')
                || ((dashes || named) && c.is_ascii_digit()))
        })
        .unwrap_or(after.len());
    match after.split_at(end) {
        ("", _) => Err(TemplateError::LoneDollar),
        split => Ok(split),
    }
}
