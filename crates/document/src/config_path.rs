//! The way from the root of a document to a value, while it is walked.
//!
//! Used by the parser and by checking. It lives on the stack and costs nothing; only a report makes a pointer of it.

use crate::pointer::Pointer;

/// A value on the way.
#[derive(Clone, Copy)]
pub struct ConfigPath<'p> {
    parent: Option<&'p ConfigPath<'p>>,
    segment: Segment<'p>,
    /// Arrays and objects around it.
    pub depth: usize,
}

#[derive(Clone, Copy)]
enum Segment<'p> {
    Root,
    Name(&'p str),
    Index(usize),
}

impl<'p> ConfigPath<'p> {
    /// The whole.
    pub fn root() -> Self {
        ConfigPath {
            parent: None,
            segment: Segment::Root,
            depth: 0,
        }
    }

    /// A member of it.
    #[must_use]
    pub fn name(&'p self, name: &'p str) -> Self {
        ConfigPath {
            parent: Some(self),
            segment: Segment::Name(name),
            depth: self.depth + 1,
        }
    }

    /// An element of it.
    #[must_use]
    pub fn index(&'p self, index: usize) -> Self {
        ConfigPath {
            parent: Some(self),
            segment: Segment::Index(index),
            depth: self.depth + 1,
        }
    }

    /// The pointer to it.
    pub fn pointer(&self) -> Pointer {
        let mut segments = Vec::new();
        let mut place = Some(self);
        while let Some(current) = place {
            match current.segment {
                Segment::Root => {}
                Segment::Name(name) => segments.push(name.to_owned()),
                Segment::Index(index) => segments.push(index.to_string()),
            }
            place = current.parent;
        }
        segments.reverse();
        Pointer::from_segments(segments)
    }
}
