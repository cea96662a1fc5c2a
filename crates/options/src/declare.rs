//! The declaration of options: a structure whose fields are rows.

use serde_json::{Map, Value as Json};

use crate::table::{Object, Opt};
use crate::typed::{Scalar, Tree, Typed, UnreadableValue};

/// An object of options, declared by [`options!`](crate::options).
pub trait Options: Typed {
    /// The table that the whole object is checked against.
    const TABLE: &'static Object;
    /// The rows of its own fields.
    const ROWS: &'static [Opt];
    /// Exactly one of these must be present; empty: no such rule.
    const EXACTLY_ONE: &'static [&'static str];

    /// Reads every option that is present; the others have their defaults.
    fn of<'t>(tree: Option<impl Tree<'t>>) -> Self;

    /// Takes those options of `inner` for which `is_given` is true.
    fn take(&mut self, inner: &Self, is_given: &mut dyn FnMut(&Opt) -> bool);

    /// Adds every option to an object.
    fn write(&self, members: &mut Map<String, Json>);

    /// Reads the form that [`Options::write`] gives.
    fn from_json(object: &Json) -> Result<Self, UnreadableValue> {
        match Self::unreadable(object, &Self::KIND) {
            Some(unreadable) => Err(unreadable),
            None => Ok(Self::of(Some(object))),
        }
    }
}

#[doc(hidden)]
pub fn read<'t, T: Typed>(tree: Option<impl Tree<'t>>, row: &Opt) -> T {
    let written = tree.and_then(|tree| tree.member(row.name));
    written
        .and_then(T::read)
        .or_else(|| default(row))
        .unwrap_or_else(T::missing)
}

fn default<T: Typed>(row: &Opt) -> Option<T> {
    let json: Json = serde_json::from_str(row.default).ok()?;
    T::read(&json)
}

#[doc(hidden)]
pub fn write<T: Typed>(
    value: &T,
    row: &Opt,
    exactly_one: &[&str],
    members: &mut Map<String, Json>,
) {
    // If options exclude each other, those that are not written have no default either.
    let is_other =
        |json: &Json| exactly_one.contains(&row.name) && T::missing().json().as_ref() == Some(json);
    if let Some(json) = value.json().filter(|json| !is_other(json)) {
        members.insert(row.name.to_owned(), json);
    }
}

#[doc(hidden)]
pub fn unreadable<'t, T: Typed>(tree: impl Tree<'t>, row: &Opt) -> Option<UnreadableValue> {
    let written = tree.member(row.name);
    let written = written.filter(|value| value.scalar() != Scalar::Null);
    let found = match written {
        Some(value) => T::unreadable(value, &row.kind),
        None if row.required && !T::MAY_BE_MISSING => Some(UnreadableValue::new(&row.kind)),
        None => None,
    };
    found.map(|found| found.inside(row.name))
}

/// Returns the text of a doc comment without its leading space.
#[doc(hidden)]
pub const fn prose(comment: &'static str) -> &'static str {
    match comment.as_bytes() {
        [b' ', ..] => comment.split_at(1).1,
        _ => comment,
    }
}

/// Fails to compile for a row whose type cannot hold what its kind allows, or that may be missing and has no default.
#[doc(hidden)]
pub const fn must_fit<T: Typed>(row: &Opt, exactly_one: &[&str]) {
    assert!(
        T::SHAPE.reads(&row.kind),
        "the type of an option cannot hold every value that its kind allows"
    );
    assert!(
        T::MAY_BE_MISSING
            || row.required
            || !row.default.is_empty()
            || contains(exactly_one, row.name),
        "an option that may be missing needs a default, or the type `Option`"
    );
}

const fn contains(list: &[&str], name: &str) -> bool {
    let mut index = 0;
    while index < list.len() {
        if is_equal(list[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    a.len() == b.len()
}

/// Declares an object of options: its structure, and the table that configurations are checked against.
///
/// ```
/// use tutti_options::table::ValueKind;
/// use tutti_options::{Options, options};
///
/// options! {
///     /// How long things take
///     pub struct Times: TIMES = "times" {
///         /// Time to connect
///         connect: std::time::Duration [kind(ValueKind::Number(0.001, 3600.0)), default("10"), unit("seconds")],
///     }
/// }
/// assert_eq!(Times::default().connect.as_secs(), 10);
/// let given = serde_json::json!({"connect": 0.5});
/// assert_eq!(Times::from_json(&given).unwrap().connect.as_millis(), 500);
/// ```
///
/// The comment of the structure is its summary, that of a field the effect of the option, in the schema and the reference. In
/// brackets are the methods of [`Opt`](crate::table::Opt) that say the rest. `..entry: Target` takes the options of another
/// structure in, before the own ones; `beside [ROWS]`
/// and `followed_by [ROWS]` put rows into the table, before and after the own ones, that are read elsewhere; `inherits true`
/// says that an absent option has the value of an outer object.
#[macro_export]
macro_rules! options {
    (
        $(#[doc = $summary:literal])+
        $(#[derive($($derive:ident),+)])?
        pub struct $name:ident: $table:ident = $title:literal
        $(, beside [$($beside:expr),+])?
        $(, exactly_one [$($one:literal),+])?
        $(, unless [$($unless:literal),+])?
        $(, followed_by [$($followed_by:expr),+])?
        $(, inherits $inherits:literal)?
        {
            $(..$flat:ident: $flat_type:ty,)*
            $(
                $(#[doc = $effect:literal])+
                $field:ident: $type:ty [$($method:ident($($argument:expr),*)),* $(,)?],
            )*
        }
    ) => {
        $(#[doc = $summary])+
        #[derive(Clone, Debug, PartialEq $(, $($derive),+)?)]
        pub struct $name {
            $(
                #[doc = "The options of another structure, taken in."]
                pub $flat: $flat_type,
            )*
            $(
                $(#[doc = $effect])+
                pub $field: $type,
            )*
        }

        #[doc = concat!("The table of `", stringify!($name), "`.")]
        pub static $table: $crate::table::Object = $crate::table::Object {
            name: $title,
            summary: $crate::declare::prose(concat!($($summary),+)),
            options: &[
                $($($beside,)+)?
                $(<$flat_type as $crate::Options>::ROWS,)*
                <$name as $crate::Options>::ROWS,
                $($($followed_by,)+)?
            ],
            exactly_one: <$name as $crate::Options>::EXACTLY_ONE,
            unless: &[$($($unless),+)?],
            inherits: false $(|| $inherits)?,
        };

        #[allow(non_upper_case_globals, reason = "the names are those of the options")]
        impl $name {
            $(
                #[doc = concat!("The row of `", stringify!($field), "`.")]
                pub const $field: $crate::table::Opt = {
                    let row = $crate::table::opt(
                        stringify!($field),
                        <$type as $crate::Typed>::KIND,
                        $crate::declare::prose(concat!($($effect),+)),
                    )$(.$method($($argument),*))*;
                    $crate::declare::must_fit::<$type>(&row, <$name as $crate::Options>::EXACTLY_ONE);
                    row
                };
            )*
        }

        impl $crate::Options for $name {
            const TABLE: &'static $crate::table::Object = &$table;
            const ROWS: &'static [$crate::table::Opt] = &[$(Self::$field),*];
            const EXACTLY_ONE: &'static [&'static str] = &[$($($one),+)?];

            fn of<'t>(tree: Option<impl $crate::Tree<'t>>) -> Self {
                // An object may have no options of its own.
                let _ = tree;
                $name {
                    $($flat: $crate::Options::of(tree),)*
                    $($field: $crate::declare::read(tree, &Self::$field),)*
                }
            }

            fn take(&mut self, inner: &Self, is_given: &mut dyn FnMut(&$crate::table::Opt) -> bool) {
                // An object may have no options of its own.
                let _ = (inner, &is_given);
                $($crate::Options::take(&mut self.$flat, &inner.$flat, is_given);)*
                $(if is_given(&Self::$field) {
                    self.$field.clone_from(&inner.$field);
                })*
            }

            fn write(&self, members: &mut $crate::serde_json::Map<String, $crate::serde_json::Value>) {
                $($crate::Options::write(&self.$flat, members);)*
                $($crate::declare::write(&self.$field, &Self::$field, Self::EXACTLY_ONE, members);)*
            }
        }

        impl $crate::Typed for $name {
            const KIND: $crate::table::ValueKind = $crate::table::ValueKind::Object(|| &$table);
            const SHAPE: $crate::Shape = $crate::Shape::Object;
            const MAY_BE_MISSING: bool = true;

            fn read<'t>(tree: impl $crate::Tree<'t>) -> Option<Self> {
                (tree.scalar() == $crate::Scalar::Object).then(|| $crate::Options::of(Some(tree)))
            }

            fn missing() -> Self {
                Self::default()
            }

            fn json(&self) -> Option<$crate::serde_json::Value> {
                let mut members = $crate::serde_json::Map::new();
                $crate::Options::write(self, &mut members);
                Some(members.into())
            }

            fn unreadable<'t>(
                tree: impl $crate::Tree<'t>,
                kind: &$crate::table::ValueKind,
            ) -> Option<$crate::UnreadableValue> {
                if tree.scalar() != $crate::Scalar::Object {
                    return Some($crate::UnreadableValue::new(kind));
                }
                let found = None;
                $(let found = found.or_else(|| <$flat_type as $crate::Typed>::unreadable(tree, kind));)*
                $(let found = found.or_else(|| $crate::declare::unreadable::<$type>(tree, &Self::$field));)*
                found
            }
        }

        /// Every option has its default.
        impl Default for $name {
            fn default() -> Self {
                $crate::Options::of(None::<&$crate::serde_json::Value>)
            }
        }

        /// As the configuration writes it, defaults applied.
        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::serde::Serialize::serialize(&$crate::Typed::json(self), to)
            }
        }

        /// As the configuration writes it.
        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let json = <$crate::serde_json::Value as $crate::serde::Deserialize>::deserialize(from)?;
                <Self as $crate::Options>::from_json(&json).map_err($crate::serde::de::Error::custom)
            }
        }
    };
}

/// Declares the words that an option may be.
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $summary:literal])+
        pub enum $name:ident {
            $(
                $(#[doc = $meaning:literal])+
                $variant:ident = $word:literal,
            )+
        }
    ) => {
        $(#[doc = $summary])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(
                $(#[doc = $meaning])+
                $variant,
            )+
        }

        impl $name {
            /// Every word, in order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            /// The variant of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($name::$variant),)+
                    _ => None,
                }
            }
        }

        impl $crate::Typed for $name {
            const KIND: $crate::table::ValueKind = $crate::table::ValueKind::String($crate::table::Text::Word($name::WORDS));
            const SHAPE: $crate::Shape = $crate::Shape::Text;

            fn read<'t>(tree: impl $crate::Tree<'t>) -> Option<Self> {
                match tree.scalar() {
                    $crate::Scalar::Text(text) => Self::from_word(text),
                    _ => None,
                }
            }

            fn missing() -> Self {
                [$($name::$variant),+][0]
            }

            fn json(&self) -> Option<$crate::serde_json::Value> {
                Some(self.word().into())
            }
        }
    };
}
