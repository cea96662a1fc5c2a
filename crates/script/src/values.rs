//! The objects that represent a request in a script.

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

/// An object of named values. Of several with one name the last counts, or, if `joined`, they are one list (RFC 9110 §5.3).
pub(crate) fn object<'js>(
    ctx: &Ctx<'js>,
    joined: Option<&str>,
    walk: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])),
) -> Result<Object<'js>> {
    let mut list: Vec<(String, String)> = Vec::new();
    walk(&mut |name, value| {
        let name = String::from_utf8_lossy(name);
        let value = String::from_utf8_lossy(value);
        let same = list.iter_mut().find(|(known, _)| match joined {
            Some(_) => known.eq_ignore_ascii_case(&name),
            None => *known == name,
        });
        match (same, joined) {
            (None, _) => list.push((name.into_owned(), value.into_owned())),
            (Some((_, known)), None) => *known = value.into_owned(),
            (Some((_, known)), Some(between)) => {
                known.push_str(between);
                known.push_str(&value);
            }
        }
    });
    let object = Object::new(ctx.clone())?;
    // Without `constructor`, `toString` and the like: names that a client did not send are undefined.
    object.set_prototype(None)?;
    for (name, value) in list {
        object.set(name, value)?;
    }
    Ok(object)
}
