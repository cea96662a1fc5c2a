//! The languages a configuration can be written in.
//!
//! Only their names are here: files by their endings, requests by their media types.

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// RFC 8259, with comments.
    #[default]
    Json,
    /// YAML 1.2, without tags.
    Yaml,
    /// TOML 1.1.
    Toml,
}

impl Format {
    /// By the ending of a file's name; `None` for files that are none of ours.
    pub fn of_file(name: &str) -> Option<Format> {
        let (stem, ending) = name.rsplit_once('.')?;
        if stem.is_empty() || stem.ends_with('/') {
            return None;
        }
        match ending.to_ascii_lowercase().as_str() {
            "json" | "jsonc" => Some(Format::Json),
            "yaml" | "yml" => Some(Format::Yaml),
            "toml" => Some(Format::Toml),
            _ => None,
        }
    }

    /// By a media type, with or without parameters; `None` for those that say nothing of it, which are read as JSON.
    pub fn of_media_type(value: &str) -> Option<Format> {
        let name = value.split(';').next().unwrap_or_default().trim();
        match name.to_ascii_lowercase().as_str() {
            // RFC 9512, and what was used before it.
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => {
                Some(Format::Yaml)
            }
            "application/toml" | "text/toml" => Some(Format::Toml),
            "application/json" | "application/merge-patch+json" => Some(Format::Json),
            _ => None,
        }
    }

    /// The media type that an answer has.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Toml => "application/toml",
        }
    }
}
