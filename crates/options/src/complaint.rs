//! Faults that involve several options of an object or that no kind can express; each type of application checks its
//! own.

/// The part of a member that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPart {
    /// Its name: the member should not be present.
    Name,
    /// Its value.
    Value,
}

/// A fault, located relative to the object that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Names and indexes from the checked object to the value.
    pub path: Vec<String>,
    /// The part that is at fault.
    pub part: MemberPart,
    /// The fault, as a sentence.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// Collects faults while an object and its members are checked.
pub struct Complaints<'c> {
    around: Vec<String>,
    is_written: &'c dyn Fn(&[String]) -> bool,
    list: Vec<Complaint>,
}

impl<'c> Complaints<'c> {
    /// Creates an empty collection. `is_written` returns true if the configuration has a value at a path.
    pub fn new(is_written: &'c dyn Fn(&[String]) -> bool) -> Self {
        Complaints {
            around: Vec::new(),
            is_written,
            list: Vec::new(),
        }
    }

    /// Returns the collected faults, in order.
    pub fn into_list(self) -> Vec<Complaint> {
        self.list
    }

    /// Runs a check of a member; paths inside it are relative to that member.
    pub fn inside(&mut self, member: impl ToString, check: impl FnOnce(&mut Self)) {
        self.around.push(member.to_string());
        check(self);
        self.around.pop();
    }

    /// True if the configuration contains this member, so its value is not the default.
    pub fn is_written(&self, member: &str) -> bool {
        (self.is_written)(&self.path(member))
    }

    /// Reports a member whose value is not allowed.
    pub fn value(&mut self, member: &str, message: impl Into<String>) {
        self.add(member, MemberPart::Value, message.into(), None);
    }

    /// Reports a member whose value is not allowed, with a remedy.
    pub fn value_with_hint(
        &mut self,
        member: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(member, MemberPart::Value, message.into(), Some(hint.into()));
    }

    /// Reports a member that should not be present.
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
