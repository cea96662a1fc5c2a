//! The directives that stand before a location's answer, as blocks have them.

use std::collections::BTreeMap;

use super::tree::Statement;
use crate::finding::{Findings, SourceLocation};
use crate::units::bytes;

/// A use of a zone: its name, what stands behind it, and where.
pub(super) type Bound = (String, Vec<String>, SourceLocation);

/// The guards of a block, as nginx's modules merge them.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    /// `auth_basic`, unless it is off.
    pub(super) realm: Option<(String, SourceLocation)>,
    pub(super) password_file: Option<(String, SourceLocation)>,
    /// `auth_request`, unless it is off.
    pub(super) question: Option<(String, SourceLocation)>,
    /// Variables of `auth_request_set`, each with the field of the answer that it takes its value from.
    pub(super) answer_fields: BTreeMap<String, String>,
    pub(super) requests: Vec<Bound>,
    pub(super) concurrent: Vec<Bound>,
    pub(super) request_status: Option<u16>,
    pub(super) concurrent_status: Option<u16>,
    pub(super) is_request_dry_run: bool,
    pub(super) is_concurrent_dry_run: bool,
    pub(super) mirror: Option<(String, SourceLocation)>,
    pub(super) mirrors_no_body: bool,
}

impl Guards {
    /// Lists of directives are inherited whole or not at all.
    pub(super) fn enter(&mut self, statements: &[Statement]) {
        let has = |name: &str| statements.iter().any(|statement| statement.name() == name);
        if has("limit_req") {
            self.requests.clear();
        }
        if has("limit_conn") {
            self.concurrent.clear();
        }
        if has("auth_request_set") {
            self.answer_fields.clear();
        }
        if has("mirror") {
            self.mirror = None;
        }
    }

    pub(super) fn take(&mut self, statement: &Statement, findings: &mut Findings) {
        let first = statement.argument(0);
        let place = statement.place.clone();
        let unless_off = || (first != "off").then(|| (first.to_owned(), place.clone()));
        let rest = || statement.arguments().get(1..).unwrap_or_default().to_vec();
        match statement.name() {
            "auth_basic" => self.realm = unless_off(),
            "auth_basic_user_file" => self.password_file = Some((first.to_owned(), place)),
            "auth_request" => self.question = unless_off(),
            "auth_request_set" => {
                let variable = first.trim_start_matches('$').to_owned();
                let field = statement.argument(1).strip_prefix("$upstream_http_");
                match field {
                    Some(field) => {
                        drop(self.answer_fields.insert(variable, field.replace('_', "-")))
                    }
                    None => findings.lost(
                        &place,
                        "auth_request_set",
                        "only fields of the response (`$upstream_http_…`) can be passed on",
                        "let the service send it in a field, and list it in `copy`",
                    ),
                }
            }
            "limit_req" => {
                let zone = |word: &String| word.strip_prefix("zone=").map(str::to_owned);
                let zone = statement.arguments().iter().find_map(zone);
                self.requests.push((
                    zone.unwrap_or_default(),
                    statement.arguments().to_vec(),
                    place,
                ));
            }
            "limit_conn" => self.concurrent.push((first.to_owned(), rest(), place)),
            "limit_req_status" => self.request_status = first.parse().ok(),
            "limit_conn_status" => self.concurrent_status = first.parse().ok(),
            "limit_req_dry_run" => self.is_request_dry_run = first == "on",
            "limit_conn_dry_run" => self.is_concurrent_dry_run = first == "on",
            "mirror" if first != "off" && self.mirror.is_some() => findings.lost(
                &place,
                "mirror",
                "there is one copy of a request",
                "choose the upstream in `mirror.to`",
            ),
            "mirror" => self.mirror = unless_off(),
            "mirror_request_body" => self.mirrors_no_body = first == "off",
            _ => {}
        }
    }

    /// The paths that `auth_request` (false) and `mirror` (true) name.
    pub(super) fn asked_paths(&self) -> impl Iterator<Item = (&str, bool)> {
        let question = self.question.iter().map(|(path, _)| (path.as_str(), false));
        let mirror = self.mirror.iter().map(|(path, _)| (path.as_str(), true));
        question.chain(mirror)
    }

    /// Returns the field of an answer to `auth_request` from which a variable takes its value.
    pub(super) fn field_of(&self, value: &str) -> Option<&String> {
        let name = value.strip_prefix('$')?.trim_matches(['{', '}']);
        self.answer_fields.get(name)
    }
}

impl Guards {
    /// True for a field of a response that has the same name as the one of the answer to `auth_request` that it is from.
    pub(super) fn is_for_client(&self, name: &str, value: &str) -> bool {
        self.question.is_some()
            && self
                .field_of(value)
                .is_some_and(|field| field.eq_ignore_ascii_case(name))
    }
}

/// A thing that is counted, of `limit_req_zone` and `limit_conn_zone`.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) key: String,
    pub(super) rate: Option<String>,
    pub(super) size: Option<u64>,
}

impl Zone {
    /// Reads the zones of a configuration, by kind and name.
    pub(super) fn all(http: &[Statement]) -> BTreeMap<(bool, String), Zone> {
        let mut zones = BTreeMap::new();
        for statement in http {
            let is_rate = statement.name() == "limit_req_zone";
            if !is_rate && statement.name() != "limit_conn_zone" {
                continue;
            }
            let option = |name: &str| {
                let mut words = statement.arguments().iter();
                words.find_map(|word| word.strip_prefix(name))
            };
            let (name, size) =
                option("zone=").map_or(("", ""), |zone| zone.split_once(':').unwrap_or((zone, "")));
            let zone = Zone {
                key: statement.argument(0).to_owned(),
                rate: option("rate=").map(str::to_owned),
                size: bytes(size),
            };
            zones.insert((is_rate, name.to_owned()), zone);
        }
        zones
    }
}
