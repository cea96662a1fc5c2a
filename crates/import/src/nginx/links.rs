//! `valid_referers` and `secure_link`, whose variables conditions test.

use serde_json::{Map, Value, json};

use super::condition::Condition;
use super::site::{Compiler, Site};
use super::tree::Statement;
use crate::output::when;
use crate::template::Text;

/// The conditions for a page that links here.
pub(super) fn of_referer(words: &[String]) -> Option<Map<String, Value>> {
    let patterns = words.iter().map(|word| {
        // nginx compares the beginning of a path.
        match word.starts_with('~') || !word.contains('/') || word.ends_with('*') {
            true => word.clone(),
            false => format!("{word}*"),
        }
    });
    let patterns: Vec<String> = patterns.collect();
    (!patterns.is_empty()).then(|| when("referer", patterns))
}

/// The answer of an `if` to one value of `$secure_link`: empty for a wrong link, `0` for one that has expired.
fn refusal(statement: &Statement) -> Option<(String, u16)> {
    let Some(Condition::Compare {
        variable,
        operator,
        value,
    }) = Condition::read(statement.arguments())
    else {
        return None;
    };
    let is_about = statement.name() == "if" && variable == "secure_link" && operator == "=";
    let [only] = statement.inner() else {
        return None;
    };
    let status: u16 = only.argument(0).parse().ok()?;
    let is_answer =
        only.name() == "return" && only.arguments().len() == 1 && (400..500).contains(&status);
    (is_about && is_answer && matches!(value.as_str(), "" | "0")).then_some((value, status))
}

/// True if a condition uses the result of `secure_link`, or a statement has such a condition in it.
fn tests(statement: &Statement) -> bool {
    let is_it = |word: &String| word.contains("$secure_link") || word.contains("${secure_link");
    let is_condition = statement.name() == "if" && statement.words.iter().any(is_it);
    is_condition || statement.inner().iter().any(tests)
}

impl Compiler<'_> {
    /// [`Self::signed_link`], and what a place behind it knows.
    pub(super) fn link(&mut self, site: &mut Site, block: &[Statement]) -> Option<Value> {
        let link = self.signed_link(site, block);
        site.has_signed_link = link.is_some();
        if link.is_some() {
            Self::behind_link(site);
        }
        link
    }

    /// `authenticate` for the signed links of a block, where the first of its conditions stands; `None` where it cannot be
    /// written.
    fn signed_link(&mut self, site: &Site, block: &[Statement]) -> Option<Value> {
        let (Some((link, _)), Some((expression, place))) =
            (&site.scope.link, &site.scope.link_text)
        else {
            return None;
        };
        let (mut wrong, mut expired) = (None, None);
        for statement in block {
            match refusal(statement) {
                Some((value, status)) if value.is_empty() => wrong = Some(status),
                Some((_, status)) => expired = Some(status),
                None if tests(statement) => return None,
                None => {}
            }
        }
        let wrong = wrong?;
        let (signature, expires) = link.split_once(',').unwrap_or((link.as_str(), ""));
        // Without the answer to it, an expired link would be served.
        if !expires.is_empty() && expired.is_none() {
            return None;
        }
        let expression = expression
            .replace("${secure_link_expires}", expires)
            .replace("$secure_link_expires", expires);
        let place = place.clone();
        let mut plain = |text: &str| {
            let text = self.text(site, text, &place, "secure_link")?.template();
            (!text.starts_with('`')).then_some(text)
        };
        let mut options = Map::from_iter([
            ("method".to_owned(), "md5".into()),
            ("signature".to_owned(), plain(signature)?.into()),
            ("expires".to_owned(), plain(expires)?.into()),
            ("text".to_owned(), plain(&expression)?.into()),
            ("status".to_owned(), wrong.into()),
        ]);
        if let Some(expired) = expired {
            options.insert("expired_status".to_owned(), expired.into());
        }
        Some(json!({"signed_link": options}))
    }

    /// Gives the variables of a signed link the values that they have behind its check.
    fn behind_link(site: &mut Site) {
        let link = site.scope.link.as_ref();
        let expires = link.and_then(|(link, _)| Some(link.split_once(',')?.1.to_owned()));
        let expires = site.meaning.text(&expires.unwrap_or_default());
        let named = &mut site.meaning.named;
        named.insert("secure_link".to_owned(), Text::literal("1"));
        match expires {
            Ok(expires) => drop(named.insert("secure_link_expires".to_owned(), expires)),
            Err(_) => drop(named.remove("secure_link_expires")),
        }
    }

    /// True for a condition that [`Self::signed_link`] has taken.
    pub(super) fn is_of_link(site: &Site, statement: &Statement) -> bool {
        site.has_signed_link && refusal(statement).is_some()
    }
}
