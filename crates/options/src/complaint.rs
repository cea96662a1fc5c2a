//! Faults that concern several options of an object at once, or that no kind can say: each type of application checks its own.

/// The part of a member that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPart {
    /// Its name: it should not be there.
    Name,
    /// Its value.
    Value,
}

/// A fault, in the terms of the object that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Names and indexes from the object that was checked to the value.
    pub path: Vec<String>,
    /// The part that is at fault.
    pub part: MemberPart,
    /// The fault, in a sentence.
    pub message: String,
    /// The cure.
    pub hint: Option<String>,
}

/// Collects faults while an object and what is in it are checked.
pub struct Complaints<'c> {
    around: Vec<String>,
    is_written: &'c dyn Fn(&[String]) -> bool,
    list: Vec<Complaint>,
}

impl<'c> Complaints<'c> {
    /// None yet. `is_written` tells whether the configuration has a value at a path.
    pub fn new(is_written: &'c dyn Fn(&[String]) -> bool) -> Self {
        Complaints {
            around: Vec::new(),
            is_written,
            list: Vec::new(),
        }
    }

    /// Those that were collected, in order.
    pub fn into_list(self) -> Vec<Complaint> {
        self.list
    }

    /// Checks a member: paths are counted from it meanwhile.
    pub fn inside(&mut self, member: impl ToString, check: impl FnOnce(&mut Self)) {
        self.around.push(member.to_string());
        check(self);
        self.around.pop();
    }

    /// True if the configuration has this member: its value is not the default.
    pub fn is_written(&self, member: &str) -> bool {
        (self.is_written)(&self.path(member))
    }

    /// A member has a value that it must not have.
    pub fn value(&mut self, member: &str, message: impl Into<String>) {
        self.add(member, MemberPart::Value, message.into(), None);
    }

    /// The same, with the cure.
    pub fn value_with_hint(
        &mut self,
        member: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(member, MemberPart::Value, message.into(), Some(hint.into()));
    }

    /// A member should not be there.
    pub fn name(&mut self, member: &str, message: impl Into<String>, hint: Option<&str>) {
        self.add(
            member,
            MemberPart::Name,
            message.into(),
            hint.map(str::to_owned),
        );
    }

    fn add(&mut self, member: &str, part: MemberPart, message: String, hint: Option<String>) {
        self.list.push(Complaint {
            path: self.path(member),
            part,
            message,
            hint,
        });
    }

    fn path(&self, member: &str) -> Vec<String> {
        let mut path = self.around.clone();
        path.extend(member.split('/').map(str::to_owned));
        path
    }
}
