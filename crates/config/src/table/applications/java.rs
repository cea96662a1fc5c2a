//! Java.

use super::super::{Kind, Object, Text, opt};
use super::common::{COMMON, THREADS};

pub(super) static JAVA: Object = Object {
    name: "java",
    summary: "A Java application (servlets)",
    options: &[
        COMMON,
        THREADS,
        &[
            opt(
                "webapp",
                Kind::String(Text::Path),
                "The .war file, packed or not",
            )
            .required(),
            opt(
                "classpath",
                Kind::Array(&Kind::String(Text::Path)),
                "Libraries",
            ),
            opt(
                "options",
                Kind::Array(&Kind::String(Text::Any)),
                "Options of the virtual machine",
            ),
            opt(
                "unit_jars",
                Kind::String(Text::Path),
                "Folder of the server's own .jar files",
            ),
        ],
    ],
    exactly_one: &[],
};
