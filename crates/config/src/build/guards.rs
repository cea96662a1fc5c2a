//! Guards of an action: limits on requests, responses for other origins.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tutti_document::{Diagnostic, Pointer, TreeNode, Value, shorten, suggest};

use super::builder::Builder;
use super::reader::{Reader, each, strings};
use crate::model::{Cors, Guard, Limit};
use crate::table::{ActionOptions, CASELESS, CorsOptions, LimitOptions, Rate, RootOptions};

/// The longest delay of a request by `delay`. Clients give up sooner or later, and waiting requests use memory.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

const RATE_FORMS: &str =
    "write `\"10r/s\"`, `\"300r/m\"` or `\"1000r/h\"`, or `{\"requests\": 10, \"per\": 1}`";

impl<'d> Builder<'d> {
    /// Builds `limits`, which actions name.
    pub(super) fn named_limits(&mut self, node: &'d TreeNode, pointer: &Pointer) {
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            if let Some(limit) = self.limit(reader, Some(&member.name)) {
                self.limits.insert(member.name.to_string(), Arc::new(limit));
            }
        }
    }

    /// Builds all guards of an action, if there are any.
    pub(super) fn guard(&mut self, reader: &Reader<'d>) -> Option<Arc<Guard>> {
        let guard = Guard {
            pointer: reader.pointer.clone(),
            limits: self.limits_of(reader),
            cors: self.cors(reader),
            authenticate: self.authenticate(reader),
        };
        let is_empty =
            guard.limits.is_empty() && guard.cors.is_none() && guard.authenticate.is_none();
        (!is_empty).then(|| Arc::new(guard))
    }

    fn limits_of(&mut self, reader: &Reader<'d>) -> Vec<Arc<Limit>> {
        let Some((node, pointer)) = reader.get(&ActionOptions::limit) else {
            return Vec::new();
        };
        let written = each(node, &pointer).into_iter();
        written
            .filter_map(|(node, pointer)| match node.as_str() {
                Some(name) => self.named_limit(name, node, pointer),
                None => self.limit(Reader::new(node, pointer), None).map(Arc::new),
            })
            .collect()
    }

    fn named_limit(
        &mut self,
        name: &str,
        node: &'d TreeNode,
        pointer: Pointer,
    ) -> Option<Arc<Limit>> {
        if let Some(limit) = self.limits.get(name) {
            return Some(Arc::clone(limit));
        }
        let section = self.root.child(RootOptions::limits.name);
        // An existing one has a fault of its own.
        if name.is_empty() || section.is_some_and(|limits| limits.child(name).is_some()) {
            return None;
        }
        let message = format!("the limit `{}` does not exist", shorten(name));
        let names = section.map(TreeNode::members).unwrap_or_default();
        let near = suggest::nearest(name, names.iter().map(|member| &*member.name));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "write it, for example `\"limits\": {{\"{}\": {{\"rate\": \"10r/s\"}}}}`",
                shorten(name)
            ),
        };
        self.faults
            .value(Diagnostic::new(pointer, message).suggest(hint), node);
        None
    }

    fn limit(&mut self, reader: Reader<'d>, name: Option<&str>) -> Option<Limit> {
        let options: LimitOptions = reader.read();
        let has_rate = reader.has(&LimitOptions::rate);
        let rate = self.rate(&reader);
        self.check_limit_store(&reader, name);
        if !has_rate && options.concurrent.is_none() && options.bandwidth.is_none() {
            let diagnostic = Diagnostic::new(reader.pointer.clone(), "the limit has no effect");
            let hint = "write `rate`, `concurrent` or `bandwidth`";
            self.faults.value(diagnostic.suggest(hint), reader.node);
            return None;
        }
        if let Some(rate) = rate
            && options.delay
            && rate.interval().saturating_mul(options.burst) > LONGEST_DELAY
            && let Some((node, place)) = reader.get(&LimitOptions::burst)
        {
            let most = LONGEST_DELAY.as_nanos() / rate.interval().as_nanos();
            let message = format!(
                "the last of that many requests would wait longer than {} seconds (`delay`)",
                LONGEST_DELAY.as_secs()
            );
            let hint = format!("write {most} or less, or leave `delay` out");
            self.faults
                .value(Diagnostic::new(place, message).suggest(hint), node);
        }
        if has_rate && rate.is_none() {
            return None;
        }
        let key = reader.template(&LimitOptions::key);
        let hint = "use a field of the request, such as `$header_authorization`, or `$remote_addr`";
        self.refuse_user(&reader, &LimitOptions::key, key.as_ref(), hint);
        Some(Limit {
            name: name.map(str::to_owned),
            key,
            rate,
            options,
            pointer: reader.pointer.into(),
        })
    }

    fn rate(&mut self, reader: &Reader<'d>) -> Option<Rate> {
        let (node, place) = reader.get(&LimitOptions::rate)?;
        let rate = match &node.value {
            Value::String(text) => written_rate(text),
            _ => {
                let rate: Rate = Reader::new(node, place.clone()).read();
                (!rate.per.is_zero()).then_some(rate)
            }
        };
        if rate.is_none() && node.as_str().is_some() {
            let message = format!("`{}` is not a rate", shorten(&node.shown()));
            self.faults
                .value(Diagnostic::new(place, message).suggest(RATE_FORMS), node);
        }
        rate
    }

    fn cors(&mut self, reader: &Reader<'d>) -> Option<Cors> {
        let reader = reader.inner(&ActionOptions::cors)?;
        let options: CorsOptions = reader.read();
        let (node, place) = reader.get(&CorsOptions::origins)?;
        let is_any = strings(node).contains(&"*");
        if is_any && options.credentials {
            let message = "any page in the world could read what its visitors can read here";
            let hint = "name the origins, or leave `credentials` out";
            self.faults
                .value(Diagnostic::new(place, message).suggest(hint), node);
            return None;
        }
        Some(Cors {
            origins: match is_any {
                true => None,
                false => Some(reader.patterns(&CorsOptions::origins, CASELESS)?),
            },
            options,
        })
    }
}

/// `10r/s`, with `s`, `m`, `h` or `d`.
fn written_rate(text: &str) -> Option<Rate> {
    let (requests, unit) = text.split_once("r/")?;
    let requests: NonZeroU32 = requests.parse().ok()?;
    if requests.get() > 1_000_000 {
        return None;
    }
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    Some(Rate {
        requests,
        per: Duration::from_secs(seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_unit() {
        let rate = |requests, seconds| {
            let requests = NonZeroU32::new(requests).unwrap();
            let per = Duration::from_secs(seconds);
            Some(Rate { requests, per })
        };
        assert_eq!(written_rate("10r/s"), rate(10, 1));
        assert_eq!(written_rate("90r/m"), rate(90, 60));
        for wrong in [
            "",
            "10",
            "r/s",
            "0r/s",
            "-1r/s",
            "10r/",
            "10r/w",
            "10 r/s",
            "1000001r/s",
        ] {
            assert_eq!(written_rate(wrong), None, "{wrong}");
        }
    }
}
