//! The names of a certificate, and whether one of them matches the requested one (RFC 6125 §6.4, RFC 6066 §3).

/// The kind of match between a certificate's name and the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// By a wildcard.
    Wildcard,
    /// Exactly.
    Exact,
}

/// The names of one certificate, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    exact: Vec<Box<str>>,
    /// The part after `*`, with the period.
    wildcards: Vec<Box<str>>,
}

impl Names {
    /// Names as they are in a certificate.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = Names::default();
        for name in names {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            if name.is_empty() {
                continue;
            }
            match name.strip_prefix('*') {
                Some(suffix) if suffix.starts_with('.') => found.wildcards.push(suffix.into()),
                _ => found.exact.push(name.into()),
            }
        }
        found
    }

    /// Returns how one of them matches `asked`, which is in lower case; `None` if none does.
    pub(crate) fn fit(&self, asked: &str) -> Option<Fit> {
        if self.exact.iter().any(|name| **name == *asked) {
            return Some(Fit::Exact);
        }
        // A wildcard matches exactly one label.
        let dot = asked.find('.').filter(|dot| *dot > 0)?;
        let suffix = asked.get(dot..)?;
        let is_wild = self.wildcards.iter().any(|wildcard| **wildcard == *suffix);
        is_wild.then_some(Fit::Wildcard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_and_wildcards_of_one_label_fit() {
        let names = Names::new(["Example.COM", "*.example.com", "*.a.example.com."]);
        assert_eq!(names.fit("example.com"), Some(Fit::Exact));
        assert_eq!(names.fit("www.example.com"), Some(Fit::Wildcard));
        assert_eq!(names.fit("x.a.example.com"), Some(Fit::Wildcard));
        assert_eq!(names.fit("x.b.example.com"), None);
        assert_eq!(names.fit(".example.com"), None);
        assert_eq!(names.fit("example.org"), None);
        assert_eq!(names.fit(""), None);
        // CHANGES of FreeUnit 1.36.0: an empty name was compared beyond its end.
        let empty = Names::new(["", ".", "*", "*."]);
        assert_eq!(empty.fit(""), None);
        assert_eq!(empty.fit("example.com"), None);
        assert_eq!(empty.fit(".com"), None);
    }
}
