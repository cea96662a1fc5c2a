//! Requests from pages of other origins (the Fetch standard, "CORS protocol").

use tutti_config::model::Cors;

/// The CORS fields of a response.
const SAID: [&str; 6] = [
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-expose-headers",
    "access-control-max-age",
];

/// True for a field of a response that the server sets, so that an application must not.
pub fn is_said_here(name: &[u8]) -> bool {
    SAID.iter()
        .any(|said| name.eq_ignore_ascii_case(said.as_bytes()))
}

/// Adds a field to an answer.
pub type Put<'p> = &'p mut dyn FnMut(&'static str, &[u8]);

/// True if pages of this origin may read responses. A pattern that cannot be evaluated permits nothing.
fn is_allowed(cors: &Cors, origin: &[u8]) -> bool {
    match &cors.origins {
        None => true,
        Some(patterns) => patterns.matches(origin).unwrap_or(false),
    }
}

/// Adds the origin that may read, for a response to a page of this origin.
fn put_origin(cors: &Cors, origin: Option<&[u8]>, put: Put<'_>) -> bool {
    if cors.origins.is_some() {
        // The response depends on the origin, even if there is none.
        put("Vary", b"Origin");
    }
    let Some(origin) = origin.filter(|origin| is_allowed(cors, origin)) else {
        return false;
    };
    match cors.origins {
        None => put("Access-Control-Allow-Origin", b"*"),
        Some(_) => put("Access-Control-Allow-Origin", origin),
    }
    if cors.options.credentials {
        put("Access-Control-Allow-Credentials", b"true");
    }
    true
}

/// Adds the fields of a response that is not to a preflight.
pub fn answer(cors: &Cors, origin: Option<&[u8]>, put: Put<'_>) {
    if put_origin(cors, origin, put) && !cors.options.expose.is_empty() {
        let exposed = cors.options.expose.join(", ");
        put("Access-Control-Expose-Headers", exposed.as_bytes());
    }
}

/// Adds the fields of the response to a preflight request, which asks whether a page of `origin` may use a method and send certain fields.
pub fn preflight(cors: &Cors, origin: &[u8], asked: Option<&[u8]>, put: Put<'_>) {
    if !put_origin(cors, Some(origin), put) {
        return;
    }
    let options = &cors.options;
    put(
        "Access-Control-Allow-Methods",
        options.methods.join(", ").as_bytes(),
    );
    let is_any = options.headers.iter().any(|header| header == "*");
    if is_any {
        // With credentials, `*` is the name of a field (Fetch, "CORS protocol and credentials").
        put("Vary", b"Access-Control-Request-Headers");
        if let Some(asked) = asked.filter(|asked| is_list_of_names(asked)) {
            put("Access-Control-Allow-Headers", asked);
        }
    } else if !options.headers.is_empty() {
        put(
            "Access-Control-Allow-Headers",
            options.headers.join(", ").as_bytes(),
        );
    }
    put(
        "Access-Control-Max-Age",
        options.max_age.to_string().as_bytes(),
    );
}

/// True for names and commas: only these are echoed.
fn is_list_of_names(asked: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_, ".contains(byte);
    asked.len() <= 4096 && asked.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use tutti_config::ValidationContext;

    use super::*;

    fn cors(text: &str) -> Cors {
        let text = format!(r#"{{"routes": [{{"action": {{"return": 200, "cors": {text}}}}}]}}"#);
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let config = tutti_config::validate(&document, &ValidationContext::default()).unwrap();
        let guard = config.guards().next().unwrap();
        guard.cors.clone().unwrap()
    }

    fn said(cors: &Cors, asked: Option<&[u8]>) -> String {
        let mut said = String::new();
        preflight(cors, b"https://a.example", asked, &mut |name, value| {
            said.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value)));
        });
        said
    }

    #[test]
    fn only_names_are_said_back() {
        let any =
            cors(r#"{"origins": ["https://a.example"], "headers": ["*"], "credentials": true}"#);
        assert!(said(&any, Some(b"x-one, x-two")).contains("Allow-Headers: x-one, x-two\n"));
        assert!(!said(&any, Some(b"x-one\nx")).contains("Allow-Headers: "));
        assert!(!said(&any, None).contains("Allow-Headers: "));
        let none = cors(r#"{"origins": "https://b.example"}"#);
        assert_eq!(said(&none, Some(b"x-one")), "Vary: Origin\n");
        let all = cors(r#"{"origins": "*", "max_age": 0}"#);
        assert_eq!(
            said(&all, None),
            "Access-Control-Allow-Origin: *\nAccess-Control-Allow-Methods: GET, HEAD, POST\nAccess-Control-Max-Age: 0\n"
        );
    }

    #[test]
    fn responses_vary_by_origin_even_without_one() {
        let some = cors(r#"{"origins": "https://a.example"}"#);
        let mut names = Vec::new();
        answer(&some, None, &mut |name, _| names.push(name));
        assert_eq!(names, ["Vary"]);
    }
}
