//! OpenMetrics 1.0, as text.
//!
//! <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>

use crate::page::Page;
use crate::text;

/// Writes a page.
pub(crate) fn write(page: &Page) -> String {
    let mut out = String::new();
    for (family, series) in page.families() {
        let name = family.name;
        out.push_str(&format!("# TYPE {name} {}\n", family.kind.word()));
        if let Some(unit) = family.unit.word() {
            out.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        out.push_str(&format!("# HELP {name} "));
        // This format escapes quotation marks in help texts too.
        text::escape(family.help, text::Quotes::Escaped, &mut out);
        out.push('\n');
        for one in series {
            text::sample(family, one, &mut out);
        }
    }
    out.push_str("# EOF\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::names::{RECEIVED, REQUESTS};

    #[test]
    fn a_family_has_its_name_without_the_ending_of_its_series() {
        let mut page = Page::default();
        page.add(RECEIVED, &[], 12_u64);
        page.add(REQUESTS, &["share", "", "", "4xx"], 1_u64);
        let text = write(&page);
        assert!(text.starts_with(
            "# TYPE tutti_received_bytes counter\n# UNIT tutti_received_bytes bytes\n"
        ));
        assert!(text.contains("\ntutti_received_bytes_total 12\n"));
        assert!(text.contains("# TYPE tutti_requests counter\n"));
        assert!(text.ends_with("tutti_requests_total{action=\"share\",class=\"4xx\"} 1\n# EOF\n"));
    }
}
