//! Options that are on, off, or an object with the details.

use serde_json::Value as Json;

use crate::declare::Options;
use crate::table::ValueKind;
use crate::typed::{Scalar, Shape, Tree, Typed};

/// `true`, `false`, or an object of options that implies `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch<T> {
    /// `false`.
    Off,
    /// `true` or the object.
    On(T),
}

impl<T> Switch<T> {
    /// The options; `None`: it is off.
    pub fn on(self) -> Option<T> {
        match self {
            Switch::Off => None,
            Switch::On(options) => Some(options),
        }
    }
}

impl<T: Options> Typed for Switch<T> {
    const KIND: ValueKind = ValueKind::OneOf(&[ValueKind::Boolean, T::KIND]);
    const SHAPE: Shape = Shape::Any;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match tree.scalar() {
            Scalar::Boolean(false) => Some(Switch::Off),
            Scalar::Boolean(true) => Some(Switch::On(T::of(None::<&Json>))),
            Scalar::Object => Some(Switch::On(T::of(Some(tree)))),
            _ => None,
        }
    }

    fn missing() -> Self {
        Switch::Off
    }

    fn json(&self) -> Option<Json> {
        match self {
            Switch::Off => Some(Json::from(false)),
            Switch::On(options) => options.json(),
        }
    }
}
