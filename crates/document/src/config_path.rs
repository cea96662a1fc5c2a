//! The path from the root of a document to a value during a traversal.
//!
//! Used by the parser and by checks. It lives on the stack and costs nothing; only a report converts it to a pointer.

use crate::pointer::Pointer;

/// A value on the path.
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
    /// Returns the whole document.
    pub fn root() -> Self {
        ConfigPath {
            parent: None,
            segment: Segment::Root,
            depth: 0,
        }
    }

    /// Returns a member of it.
    #[must_use]
    pub fn name(&'p self, name: &'p str) -> Self {
        ConfigPath {
            parent: Some(self),
            segment: Segment::Name(name),
            depth: self.depth + 1,
        }
    }

    /// Returns an element of it.
    #[must_use]
    pub fn index(&'p self, index: usize) -> Self {
        ConfigPath {
            parent: Some(self),
            segment: Segment::Index(index),
            depth: self.depth + 1,
        }
    }

    /// Returns the pointer to it.
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
