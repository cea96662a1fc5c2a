//! The state of a trace, which vendors pass on: W3C Trace Context, level 2, §3.3 (its keys are those of level 1, and more).

/// Members that a list may have (§3.3.1.1).
const MOST_MEMBERS: usize = 32;

/// Bytes of a key, and of a value (§3.3.1.3).
const LONGEST: usize = 256;

/// True if the values of all `tracestate` fields form a valid list with at least one member; another is not passed on (§3.3.1).
pub fn is_tracestate<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let members = values.flat_map(|value| value.split(|byte| *byte == b','));
    let mut count = 0;
    for member in members.map(trimmed).filter(|member| !member.is_empty()) {
        count += 1;
        if count > MOST_MEMBERS || !is_member(member) {
            return false;
        }
    }
    count > 0
}

/// Without the white space around it (RFC 9110 §5.6.3).
fn trimmed(text: &[u8]) -> &[u8] {
    let is_white = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_white(byte));
    let end = text.iter().rposition(|byte| !is_white(byte));
    start
        .zip(end)
        .and_then(|(start, end)| text.get(start..=end))
        .unwrap_or_default()
}

/// True for `key=value`, without white space around it.
fn is_member(member: &[u8]) -> bool {
    let mut parts = member.splitn(2, |byte| *byte == b'=');
    let (key, value) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let begins = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_in_key = |byte: &u8| begins(byte) || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@');
    let is_in_value = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    key.first().is_some_and(begins)
        && key.iter().all(is_in_key)
        && key.len() <= LONGEST
        && !value.is_empty()
        && value.iter().all(is_in_value)
        && value.len() <= LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(fields: &[&str]) -> bool {
        is_tracestate(fields.iter().map(|field| field.as_bytes()))
    }

    #[test]
    fn a_valid_state_is_a_list_of_members() {
        let long = format!("{}={}", "k".repeat(256), "v".repeat(256));
        let most = (0..32).map(|number| format!("k{number}=1"));
        let most = most.collect::<Vec<_>>().join(",");
        for fields in [
            &["a=1"][..],
            &["a=1,b=2", "c=3"],
            &["a=1 \t, \tb=2 "],
            &["", "a=1", ""],
            &["a=1,,b=2"],
            &["a=1,a=1", "a=2"],
            &["0a=b c"],
            &["a@b@c_-*/=!~+<"],
            &[&long],
            &[&most],
        ] {
            assert!(is_valid(fields), "{fields:?}");
        }
    }

    #[test]
    fn another_state_is_not_passed_on() {
        let key = format!("{}=1", "k".repeat(257));
        let value = format!("k={}", "v".repeat(257));
        let many = (0..33).map(|number| format!("k{number}=1"));
        let many = many.collect::<Vec<_>>().join(",");
        for fields in [
            &[][..],
            &[""],
            &[" , "],
            &["a"],
            &["=1"],
            &["a="],
            &["a=,b=1"],
            &["a =1"],
            &["a= "],
            &["A=1"],
            &["a.b=1"],
            &["@a=1"],
            &["_a=1"],
            &["a=b=c"],
            &["a=\t"],
            &["a=b\tc"],
            &["a=\u{e9}"],
            &["a=1", "B=2"],
            &[&key],
            &[&value],
            &[&many],
            &[&many[..many.len() - 5], "k32=1"],
        ] {
            assert!(!is_valid(fields), "{fields:?}");
        }
    }
}
