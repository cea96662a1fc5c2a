//! The objects that represent a request in a script.

use std::collections::HashMap;

use rquickjs::{Ctx, Object, Result};

/// The values of a request. Invalid UTF-8 is replaced by U+FFFD.
pub trait Values {
    /// `uri`: the path, decoded and normalised.
    fn uri(&self) -> Vec<u8>;
    /// `host`: lower case, without port.
    fn host(&self) -> Vec<u8>;
    /// `remoteAddr`.
    fn remote_address(&self) -> Vec<u8>;
    /// `args`: every argument of the query string, decoded, in order.
    fn each_argument(&self, each: &mut dyn FnMut(&[u8], &[u8]));
    /// `cookies`: every cookie, in order.
    fn each_cookie(&self, each: &mut dyn FnMut(&[u8], &[u8]));
    /// `headers`: every field of the request, with its name as received, in order.
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8]));
    /// Every field of the response, if there is one already.
    fn each_response_header(&self, each: &mut dyn FnMut(&[u8], &[u8]));
    /// `vars`: every variable without a parameter in its name: `method`, `request_id`.
    fn each_variable(&self, each: &mut dyn FnMut(&str, &[u8]));
}

/// Which values a template uses: the others are not made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uses {
    pub(crate) uri: bool,
    pub(crate) host: bool,
    pub(crate) remote_address: bool,
    pub(crate) arguments: bool,
    pub(crate) cookies: bool,
    pub(crate) headers: bool,
    pub(crate) variables: bool,
}

impl Uses {
    /// Names that may be used. A name in a string counts, too, which costs only time; a name cannot be hidden, because there is no `eval`
    /// (an escape such as `\u0075ri` could: it counts as all names).
    pub(crate) fn of(source: &str) -> Uses {
        let all = source.contains("\\u");
        let has = |name: &str| all || source.contains(name);
        let variables = has("vars");
        Uses {
            uri: has("uri"),
            host: has("host"),
            remote_address: has("remoteAddr"),
            arguments: has("args") || variables,
            cookies: has("cookies") || variables,
            headers: has("headers") || variables,
            variables,
        }
    }
}

/// A request usually has no more values of a kind: they are compared one by one.
const FEW: usize = 16;

/// An object of named values. Of several with one name the last counts, or, if `joined`, they are one list (RFC 9110 §5.3).
pub(crate) fn object<'js>(
    ctx: &Ctx<'js>,
    joined: Option<&str>,
    walk: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])),
) -> Result<Object<'js>> {
    let list = list(joined, walk);
    let object = Object::new(ctx.clone())?;
    // Without `constructor`, `toString` and the like: names that a client did not send are undefined.
    object.set_prototype(None)?;
    for (name, value) in list {
        object.set(name, value)?;
    }
    Ok(object)
}

/// The values of [`object`] in their order.
fn list(
    joined: Option<&str>,
    walk: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])),
) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = Vec::new();
    // Where each name is, once there are more than a few: a client may send thousands, and the time limit begins later.
    let mut places: HashMap<String, usize> = HashMap::new();
    let key = |name: &str| match joined {
        Some(_) => name.to_ascii_lowercase(),
        None => name.to_owned(),
    };
    walk(&mut |name, value| {
        let name = String::from_utf8_lossy(name);
        let value = String::from_utf8_lossy(value);
        let place = match list.len() {
            ..=FEW => list.iter().position(|(known, _)| match joined {
                Some(_) => known.eq_ignore_ascii_case(&name),
                None => *known == name,
            }),
            _ => places.get(&key(&name)).copied(),
        };
        match (place.and_then(|place| list.get_mut(place)), joined) {
            (None, _) => {
                list.push((name.into_owned(), value.into_owned()));
                if list.len() > FEW {
                    let unknown = list.iter().enumerate().skip(places.len());
                    places.extend(unknown.map(|(place, (name, _))| (key(name), place)));
                }
            }
            (Some((_, known)), None) => *known = value.into_owned(),
            (Some((_, known)), Some(between)) => {
                known.push_str(between);
                known.push_str(&value);
            }
        }
    });
    list
}

#[cfg(test)]
mod tests {
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn values_of_the_same_name_are_found_among_few_and_many() {
        for count in [3, FEW, FEW + 1, 100] {
            let walk = |each: &mut dyn FnMut(&[u8], &[u8])| {
                for round in ["a", "b"] {
                    for number in 0..count {
                        each(format!("{round}{number}").to_uppercase().as_bytes(), b"1");
                        each(format!("{round}{number}").as_bytes(), b"2");
                    }
                }
            };
            let joined = list(Some(", "), walk);
            assert_eq!(joined.len(), 2 * count);
            assert!(joined.iter().all(|(_, value)| value == "1, 2"));
            assert_eq!(joined[count].0, "B0");
            let distinct = list(None, |each| {
                walk(each);
                walk(each);
            });
            assert_eq!(distinct.len(), 4 * count);
            assert_eq!(distinct[1], ("a0".to_owned(), "2".to_owned()));
        }
    }

    /// Each name was compared with all before it, which took the thread seconds for a long query string.
    #[test]
    fn many_values_take_time_proportional_to_their_number() {
        let before = clock_gettime(ClockId::ThreadCPUTime).tv_sec;
        let found = list(None, |each| {
            for number in 0..200_000 {
                each(format!("{number}").as_bytes(), b"");
            }
        });
        assert_eq!(found.len(), 200_000);
        // Compared with each other, they take minutes.
        assert!(clock_gettime(ClockId::ThreadCPUTime).tv_sec - before < 10);
    }
}
