//! TOML to a [`Document`] with spans, by `toml_edit`.
//!
//! Used for files and requests in TOML. TOML values that a configuration cannot have (dates, infinity) are rejected.

use toml_edit::{Item, Table, TableLike, Value as TomlValue};

use crate::config_path::ConfigPath;
use crate::diagnostic::{Diagnostic, Diagnostics, SourceText};
use crate::tree::{Document, Member, SourceSpan, TreeNode, Value};

/// Parses a document.
pub(crate) fn parse(source: SourceText) -> Result<Document, Diagnostics> {
    let text = source.text()?;
    let parsed = match toml_edit::Document::parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let at = error.span().unwrap_or(0..0);
            let message = error.message().trim().replace('\n', "; ");
            let fault = source.slip(ConfigPath::root().pointer(), at, message);
            return Err(Diagnostics::one(fault));
        }
    };
    let mut reader = Reader {
        source: &source,
        faults: Vec::new(),
    };
    let table: &Table = parsed.as_table();
    let root = TreeNode {
        value: reader.table(table, &ConfigPath::root()),
        span: reader.span(0..text.len()),
    };
    if reader.faults.is_empty() {
        Ok(Document::from_source(root, source))
    } else {
        Err(Diagnostics(reader.faults))
    }
}

struct Reader<'s> {
    source: &'s SourceText,
    faults: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn span(&self, range: std::ops::Range<usize>) -> SourceSpan {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        SourceSpan {
            source: self.source.id,
            start: narrow(range.start),
            end: narrow(range.end),
        }
    }

    /// `toml_edit` limits the depth, and so this recursion.
    fn table(&mut self, table: &dyn TableLike, place: &ConfigPath<'_>) -> Value {
        let mut members = Vec::new();
        for (name, item) in table.iter() {
            let name_span = table.key(name).and_then(toml_edit::Key::span);
            let place = place.name(name);
            // A table that is only implied by others has no position.
            let at = item.span().or(name_span.clone()).unwrap_or(0..0);
            let value = self.item(item, at.clone(), &place);
            members.push(Member {
                name: name.into(),
                name_span: self.span(name_span.unwrap_or_else(|| at.clone())),
                node: TreeNode {
                    value,
                    span: self.span(at),
                },
            });
        }
        Value::Object(members)
    }

    fn item(&mut self, item: &Item, at: std::ops::Range<usize>, place: &ConfigPath<'_>) -> Value {
        match item {
            Item::None => Value::Null,
            Item::Value(value) => self.value(value, at, place),
            Item::Table(table) => self.table(table, place),
            Item::ArrayOfTables(tables) => {
                let mut elements = Vec::new();
                for (index, table) in tables.iter().enumerate() {
                    let span = self.span(table.span().unwrap_or_else(|| at.clone()));
                    let value = self.table(table, &place.index(index));
                    elements.push(TreeNode { value, span });
                }
                Value::Array(elements)
            }
        }
    }

    fn value(
        &mut self,
        value: &TomlValue,
        at: std::ops::Range<usize>,
        place: &ConfigPath<'_>,
    ) -> Value {
        match value {
            TomlValue::String(text) => Value::String(text.value().as_str().into()),
            TomlValue::Integer(number) => Value::Number(number.value().to_string().into()),
            TomlValue::Boolean(value) => Value::Bool(*value.value()),
            TomlValue::Float(number) => match serde_json::Number::from_f64(*number.value()) {
                Some(number) => Value::Number(number.to_string().into()),
                None => self.refuse("this number cannot be used", at, place),
            },
            TomlValue::Datetime(_) => {
                self.refuse("a date is not supported in a configuration", at, place)
            }
            TomlValue::Array(array) => {
                let mut elements = Vec::new();
                for (index, element) in array.iter().enumerate() {
                    let at = element.span().unwrap_or_else(|| at.clone());
                    let span = self.span(at.clone());
                    let value = self.value(element, at, &place.index(index));
                    elements.push(TreeNode { value, span });
                }
                Value::Array(elements)
            }
            TomlValue::InlineTable(table) => self.table(table, place),
        }
    }

    fn refuse(
        &mut self,
        message: &str,
        at: std::ops::Range<usize>,
        place: &ConfigPath<'_>,
    ) -> Value {
        let fault = self.source.slip(place.pointer(), at, message);
        self.faults
            .push(fault.suggest("put it in quotes for the text"));
        Value::Null
    }
}

/// Prints the value as TOML; parsing it gives the same value. Fails with the place of a value that TOML cannot
/// represent: `null`, a number out of its range, or a root that is not an object.
pub(crate) fn print(root: &TreeNode) -> Result<String, Diagnostics> {
    let Value::Object(members) = &root.value else {
        return Err(unsayable(
            "only an object can be written as TOML",
            &ConfigPath::root(),
        ));
    };
    let mut document = toml_edit::DocumentMut::new();
    *document.as_table_mut() = printed_table(members, &ConfigPath::root())?;
    Ok(document.to_string())
}

fn printed_table(members: &[Member], place: &ConfigPath<'_>) -> Result<Table, Diagnostics> {
    let mut table = Table::new();
    for member in members {
        let place = place.name(&member.name);
        table.insert(&member.name, printed_item(&member.node, &place)?);
    }
    // It gets its own header only if it has values of its own, or is empty.
    table.set_implicit(!members.is_empty());
    Ok(table)
}

fn printed_item(node: &TreeNode, place: &ConfigPath<'_>) -> Result<Item, Diagnostics> {
    match &node.value {
        Value::Object(members) => Ok(Item::Table(printed_table(members, place)?)),
        Value::Array(elements) if is_list_of_tables(elements) => {
            let mut tables = toml_edit::ArrayOfTables::new();
            for (index, element) in elements.iter().enumerate() {
                if let Value::Object(members) = &element.value {
                    tables.push(printed_table(members, &place.index(index))?);
                }
            }
            Ok(Item::ArrayOfTables(tables))
        }
        _ => Ok(Item::Value(printed_value(node, place)?)),
    }
}

fn is_list_of_tables(elements: &[TreeNode]) -> bool {
    let is_table = |node: &TreeNode| matches!(node.value, Value::Object(_));
    !elements.is_empty() && elements.iter().all(is_table)
}

fn printed_value(node: &TreeNode, place: &ConfigPath<'_>) -> Result<TomlValue, Diagnostics> {
    Ok(match &node.value {
        Value::Null => return Err(unsayable("TOML has no `null`", place)),
        Value::Bool(value) => (*value).into(),
        Value::String(text) => (**text).into(),
        Value::Number(digits) => match (digits.parse::<i64>(), digits.parse::<f64>()) {
            (Ok(number), _) => number.into(),
            // A larger whole number would lose digits.
            (Err(_), Ok(number)) if number.is_finite() && digits.contains(['.', 'e', 'E']) => {
                number.into()
            }
            _ => return Err(unsayable("TOML has no number like this", place)),
        },
        Value::Array(elements) => {
            let mut array = toml_edit::Array::new();
            for (index, element) in elements.iter().enumerate() {
                array.push(printed_value(element, &place.index(index))?);
            }
            array.into()
        }
        Value::Object(members) => {
            let mut table = toml_edit::InlineTable::new();
            for member in members {
                let place = place.name(&member.name);
                table.insert(&*member.name, printed_value(&member.node, &place)?);
            }
            table.into()
        }
    })
}

fn unsayable(message: &str, place: &ConfigPath<'_>) -> Diagnostics {
    Diagnostics::one(Diagnostic::apply(place.pointer(), message))
}
