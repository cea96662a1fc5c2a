//! The types of options, and how their values are read from a configuration and written for a host.
//!
//! There is one way of reading for both: the server reads a tree that knows positions, a host the JSON of its start
//! document; each is a [`Tree`]. A value of the wrong type is read as absent: the check has already reported it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;

use crate::size;
use crate::table::{Names, Text, ValueKind};

/// A JSON value in any representation.
pub trait Tree<'t>: Copy {
    /// The value without its members or elements.
    fn scalar(self) -> Scalar<'t>;
    /// Returns the value of a member of an object.
    fn member(self, name: &str) -> Option<Self>;
    /// Returns the members of an object in order; nothing for any other value.
    fn members(self) -> Vec<(&'t str, Self)>;
    /// Returns the elements of an array; nothing for any other value.
    fn elements(self) -> Vec<Self>;
}

/// A JSON value without its members or elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'t> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number, in any notation.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A string.
    Text(&'t str),
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'t> Tree<'t> for &'t Json {
    fn scalar(self) -> Scalar<'t> {
        match self {
            Json::Null => Scalar::Null,
            Json::Bool(value) => Scalar::Boolean(*value),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Scalar::Integer(integer),
                (None, number) => Scalar::Number(number.unwrap_or_default()),
            },
            Json::String(text) => Scalar::Text(text),
            Json::Array(_) => Scalar::Array,
            Json::Object(_) => Scalar::Object,
        }
    }

    fn member(self, name: &str) -> Option<Self> {
        self.get(name)
    }

    fn members(self) -> Vec<(&'t str, Self)> {
        let members = self.as_object().into_iter().flatten();
        members
            .map(|(name, value)| (name.as_str(), value))
            .collect()
    }

    fn elements(self) -> Vec<Self> {
        self.as_array().into_iter().flatten().collect()
    }
}

/// The JSON that a type can be read from, compared with the kind of an option at its declaration.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number in this range.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// A string.
    Text,
    /// An array of these, or a single one.
    List(&'static Shape),
    /// An object.
    Object,
    /// An object whose values are these.
    Map(&'static Shape),
    /// Any.
    Any,
}

impl Shape {
    /// True if every value of the kind can be read.
    pub const fn reads(&self, kind: &ValueKind) -> bool {
        match (self, kind) {
            (Shape::Any, _) => true,
            (_, ValueKind::OneOf(kinds)) => {
                let mut index = 0;
                while index < kinds.len() {
                    if !self.reads(&kinds[index]) {
                        return false;
                    }
                    index += 1;
                }
                true
            }
            (Shape::Boolean, ValueKind::Boolean)
            | (Shape::Number, ValueKind::Integer(..) | ValueKind::Number(..))
            | (Shape::Text, ValueKind::String(_))
            | (Shape::Object, ValueKind::Object(_) | ValueKind::Map(..)) => true,
            (
                Shape::Integer(least, most),
                ValueKind::Integer(min, max) | ValueKind::Size(min, max),
            ) => *least <= *min && *max <= *most,
            (Shape::List(element), ValueKind::Array(kind)) => element.reads(kind),
            (Shape::List(element), kind) => element.reads(kind),
            (Shape::Map(value), ValueKind::Map(_, kind)) => value.reads(kind),
            _ => false,
        }
    }
}

/// A type that an option can have.
pub trait Typed: Sized {
    /// The kind of an option of this type, unless its row sets another.
    const KIND: ValueKind;
    /// The JSON that it can be read from.
    const SHAPE: Shape;
    /// An option of this type needs no default.
    const MAY_BE_MISSING: bool = false;

    /// Reads the value, if it is of this type.
    fn read<'t>(tree: impl Tree<'t>) -> Option<Self>;

    /// The value of an option that is absent and has no default. It is never used for a required option.
    fn missing() -> Self;

    /// The JSON that it is read from; `None`: it is left out.
    fn json(&self) -> Option<Json>;

    /// Returns the first value in a tree that cannot be read; `kind` is the kind of the option.
    fn unreadable<'t>(tree: impl Tree<'t>, kind: &ValueKind) -> Option<UnreadableValue> {
        Self::read(tree)
            .is_none()
            .then(|| UnreadableValue::new(kind))
    }
}

impl Typed for bool {
    const KIND: ValueKind = ValueKind::Boolean;
    const SHAPE: Shape = Shape::Boolean;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match tree.scalar() {
            Scalar::Boolean(value) => Some(value),
            _ => None,
        }
    }

    fn missing() -> Self {
        false
    }

    fn json(&self) -> Option<Json> {
        Some(Json::from(*self))
    }
}

/// Reads a whole number, or a size with its unit.
fn integer<'t>(tree: impl Tree<'t>) -> Option<i64> {
    match tree.scalar() {
        Scalar::Integer(integer) => Some(integer),
        Scalar::Text(text) => i64::try_from(size::parse(text)?).ok(),
        _ => None,
    }
}

macro_rules! integers {
    ($($type:ty: $least:expr, $most:expr;)*) => {$(
        impl Typed for $type {
            const KIND: ValueKind = ValueKind::Integer($least, $most);
            const SHAPE: Shape = Shape::Integer($least, $most);

            fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
                integer(tree).and_then(|integer| Self::try_from(integer).ok())
            }

            fn missing() -> Self {
                0
            }

            fn json(&self) -> Option<Json> {
                Some(Json::from(*self))
            }
        }
    )*};
}

integers! {
    u16: 0, u16::MAX as i64;
    u32: 0, u32::MAX as i64;
    u64: 0, i64::MAX;
    usize: 0, i64::MAX;
    i32: i32::MIN as i64, i32::MAX as i64;
    i64: i64::MIN, i64::MAX;
}

impl Typed for NonZeroU32 {
    const KIND: ValueKind = ValueKind::Integer(1, u32::MAX as i64);
    const SHAPE: Shape = Shape::Integer(1, u32::MAX as i64);

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        u32::read(tree).and_then(NonZeroU32::new)
    }

    fn missing() -> Self {
        NonZeroU32::MIN
    }

    fn json(&self) -> Option<Json> {
        Some(Json::from(self.get()))
    }
}

impl Typed for f64 {
    const KIND: ValueKind = ValueKind::Number(f64::MIN, f64::MAX);
    const SHAPE: Shape = Shape::Number;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match tree.scalar() {
            // The ranges of numbers end long before 2^53.
            #[allow(clippy::cast_precision_loss)]
            Scalar::Integer(integer) => Some(integer as f64),
            Scalar::Number(number) => Some(number),
            _ => None,
        }
    }

    fn missing() -> Self {
        0.0
    }

    fn json(&self) -> Option<Json> {
        Some(Json::from(*self))
    }
}

/// In seconds.
impl Typed for Duration {
    const KIND: ValueKind = ValueKind::Number(0.0, f64::MAX);
    const SHAPE: Shape = Shape::Number;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match tree.scalar() {
            Scalar::Integer(seconds) => u64::try_from(seconds).ok().map(Duration::from_secs),
            Scalar::Number(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            _ => None,
        }
    }

    fn missing() -> Self {
        Duration::ZERO
    }

    fn json(&self) -> Option<Json> {
        Some(match self.subsec_nanos() {
            0 => Json::from(self.as_secs()),
            _ => Json::from(self.as_secs_f64()),
        })
    }
}

impl Typed for String {
    const KIND: ValueKind = ValueKind::String(Text::NotEmpty);
    const SHAPE: Shape = Shape::Text;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match tree.scalar() {
            Scalar::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }

    fn missing() -> Self {
        String::new()
    }

    fn json(&self) -> Option<Json> {
        Some(Json::from(self.as_str()))
    }
}

/// The empty string means that the option is not set, if it is allowed.
impl Typed for PathBuf {
    const KIND: ValueKind = ValueKind::String(Text::Path);
    const SHAPE: Shape = Shape::Text;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        let path = String::read(tree).filter(|path| !path.is_empty());
        path.map(PathBuf::from)
    }

    fn missing() -> Self {
        PathBuf::new()
    }

    fn json(&self) -> Option<Json> {
        Some(Json::from(self.to_string_lossy()))
    }
}

impl<T: Typed> Typed for Option<T> {
    const KIND: ValueKind = T::KIND;
    const SHAPE: Shape = T::SHAPE;
    const MAY_BE_MISSING: bool = true;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        T::read(tree).map(Some)
    }

    fn unreadable<'t>(tree: impl Tree<'t>, kind: &ValueKind) -> Option<UnreadableValue> {
        T::unreadable(tree, kind)
    }

    fn missing() -> Self {
        None
    }

    fn json(&self) -> Option<Json> {
        self.as_ref()?.json()
    }
}

/// An array, or one element in its place.
impl<T: Typed> Typed for Vec<T> {
    const KIND: ValueKind = ValueKind::Array(&T::KIND);
    const SHAPE: Shape = Shape::List(&T::SHAPE);
    const MAY_BE_MISSING: bool = true;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match tree.scalar() {
            Scalar::Array => Some(tree.elements().into_iter().filter_map(T::read).collect()),
            Scalar::Null => None,
            _ => T::read(tree).map(|element| vec![element]),
        }
    }

    fn missing() -> Self {
        Vec::new()
    }

    fn json(&self) -> Option<Json> {
        Some(self.iter().filter_map(T::json).collect())
    }

    fn unreadable<'t>(tree: impl Tree<'t>, kind: &ValueKind) -> Option<UnreadableValue> {
        if tree.scalar() != Scalar::Array {
            return T::unreadable(tree, kind);
        }
        let elements = tree.elements().into_iter().enumerate();
        elements
            .filter_map(|(index, element)| Some((index, T::unreadable(element, &T::KIND)?)))
            .map(|(index, found)| found.inside(&index.to_string()))
            .next()
    }
}

/// An object whose keys are names.
impl<T: Typed> Typed for BTreeMap<String, T> {
    const KIND: ValueKind = ValueKind::Map(Names::NotEmpty, &T::KIND);
    const SHAPE: Shape = Shape::Map(&T::SHAPE);
    const MAY_BE_MISSING: bool = true;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        Named::read(tree).map(|Named(list)| list.into_iter().collect())
    }

    fn unreadable<'t>(tree: impl Tree<'t>, kind: &ValueKind) -> Option<UnreadableValue> {
        Named::<T>::unreadable(tree, kind)
    }

    fn missing() -> Self {
        BTreeMap::new()
    }

    fn json(&self) -> Option<Json> {
        let members = self.iter();
        Some(
            members
                .filter_map(|(name, value)| Some((name.clone(), value.json()?)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        )
    }
}

/// The members of an object with keys of the user's choice, in the order in which they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(Vec::new())
    }
}

impl<T: Typed> Typed for Named<T> {
    const KIND: ValueKind = ValueKind::Map(Names::NotEmpty, &T::KIND);
    const SHAPE: Shape = Shape::Map(&T::SHAPE);
    const MAY_BE_MISSING: bool = true;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        if tree.scalar() != Scalar::Object {
            return None;
        }
        let members = tree.members().into_iter();
        Some(Named(
            members
                .filter_map(|(name, value)| Some((name.to_owned(), T::read(value)?)))
                .collect(),
        ))
    }

    fn missing() -> Self {
        Named::default()
    }

    fn unreadable<'t>(tree: impl Tree<'t>, kind: &ValueKind) -> Option<UnreadableValue> {
        if tree.scalar() != Scalar::Object {
            return Some(UnreadableValue::new(kind));
        }
        let members = tree.members().into_iter();
        members
            .filter_map(|(name, value)| Some((name, T::unreadable(value, &T::KIND)?)))
            .map(|(name, found)| found.inside(name))
            .next()
    }

    fn json(&self) -> Option<Json> {
        let members = self.0.iter();
        Some(
            members
                .filter_map(|(name, value)| Some((name.clone(), value.json()?)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        )
    }
}

/// A limit; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalLimit<T>(pub Option<T>);

impl<T: Typed + Default + PartialEq> Typed for OptionalLimit<T> {
    const KIND: ValueKind = T::KIND;
    const SHAPE: Shape = T::SHAPE;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        T::read(tree).map(|bound| OptionalLimit(Some(bound).filter(|bound| *bound != T::default())))
    }

    fn missing() -> Self {
        OptionalLimit(None)
    }

    fn json(&self) -> Option<Json> {
        match &self.0 {
            Some(bound) => bound.json(),
            None => T::default().json(),
        }
    }
}

/// An option whose value has no type of its own: the code that uses it reads the tree, under the name of the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unread;

impl Typed for Unread {
    const KIND: ValueKind = ValueKind::Null;
    const SHAPE: Shape = Shape::Any;
    const MAY_BE_MISSING: bool = true;

    fn read<'t>(_tree: impl Tree<'t>) -> Option<Self> {
        Some(Unread)
    }

    fn missing() -> Self {
        Unread
    }

    fn json(&self) -> Option<Json> {
        None
    }
}

/// An unreadable value in a start document: the server's version differs from this program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableValue {
    /// Its position, as a JSON pointer inside the object without the leading `/`.
    pub member: String,
    /// A description of readable values.
    pub expected: String,
}

impl UnreadableValue {
    #[doc(hidden)]
    pub fn new(kind: &ValueKind) -> Self {
        UnreadableValue {
            member: String::new(),
            expected: kind.words(),
        }
    }

    /// Returns the same fault, seen from an object or array that contains it in this member.
    pub fn inside(mut self, member: &str) -> Self {
        let member = member.replace('~', "~0").replace('/', "~1");
        self.member = match self.member.as_str() {
            "" => member,
            rest => format!("{member}/{rest}"),
        };
        self
    }
}

impl std::fmt::Display for UnreadableValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` must be {}", self.member, self.expected)
    }
}

impl std::error::Error for UnreadableValue {}
