//! Programs of their own.

use std::path::PathBuf;

use serde_json::{Value, json};

/// Options of an external application.
#[derive(Clone, Debug, PartialEq)]
pub struct External {
    /// Path, absolute or relative to the working directory.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How a program is reached that speaks HTTP; `None` for one that speaks the worker protocol.
    pub http: Option<ExternalHttp>,
}

/// An external application that speaks HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalHttp {
    /// What it is given to listen on: `port`, `unix` or `inherit`.
    pub listen: String,
    /// Asked for before requests are sent.
    pub probe: Option<String>,
}

impl External {
    pub(super) fn start_config(&self) -> Value {
        let mut config = json!({
            "executable": self.executable.to_string_lossy(),
            "arguments": self.arguments,
        });
        if let (Some(http), Value::Object(config)) = (&self.http, &mut config) {
            config.insert("protocol".to_owned(), json!("http"));
            config.insert("listen".to_owned(), json!(http.listen));
            config.insert("probe".to_owned(), json!(http.probe));
        }
        config
    }
}
