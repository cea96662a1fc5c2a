//! The languages that a configuration can be written in.
//!
//! Chosen by the ending of a file's name, or by the media type of a request.

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// RFC 8259, with comments.
    #[default]
    Json,
    /// YAML 1.2, without tags.
    Yaml,
    /// TOML 1.1.
    Toml,
}

/// The endings of files, and the language of each.
const ENDINGS: [(&str, Format); 5] = [
    (".json", Format::Json),
    (".jsonc", Format::Json),
    (".yaml", Format::Yaml),
    (".yml", Format::Yaml),
    (".toml", Format::Toml),
];

impl Format {
    /// The endings of configuration files, in lower case.
    pub fn endings() -> [&'static str; 5] {
        ENDINGS.map(|(ending, _)| ending)
    }

    /// Returns the language for the ending of a file name; `None` if it is not a configuration file.
    pub fn of_file(name: &str) -> Option<Format> {
        let name = name.to_ascii_lowercase();
        ENDINGS.iter().find_map(|(ending, format)| {
            let stem = name.strip_suffix(ending)?;
            (!stem.is_empty() && !stem.ends_with('/')).then_some(*format)
        })
    }

    /// Returns the language for a media type, with or without parameters; `None` if the type names none of them, which
    /// are then read as JSON.
    pub fn of_media_type(value: &str) -> Option<Format> {
        let name = value.split(';').next().unwrap_or_default().trim();
        match name.to_ascii_lowercase().as_str() {
            // RFC 9512, and the types in use before it.
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => {
                Some(Format::Yaml)
            }
            "application/toml" | "text/toml" => Some(Format::Toml),
            "application/json" | "application/merge-patch+json" => Some(Format::Json),
            _ => None,
        }
    }

    /// The media type of a response in this language.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Toml => "application/toml",
        }
    }
}
