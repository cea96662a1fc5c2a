//! `settings.cache`, and `cache` of an action.

use std::collections::BTreeMap;
use std::time::Duration;

use tutti_document::{Diagnostic, Pointer, TreeNode, Value, shorten};
use tutti_options::Typed as _;

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{ActionKind, Cache, CacheDisk, CacheStore, Destination, Pass, TemplatePart};
use crate::table::{
    ActionOptions, CacheDiskOptions, CacheOptions, CacheStoreOptions, PLAIN, SettingsOptions,
};

/// Statuses that a single time in `valid` applies to: those whose meaning does not change with the next request (RFC
/// 9110 §15.1), except those of parts, of choices and of methods.
const LASTING: [u16; 5] = [200, 301, 308, 404, 410];

impl<'d> Builder<'d> {
    /// The stores, by name.
    pub(super) fn cache_stores(&mut self, reader: &Reader<'d>) -> BTreeMap<String, CacheStore> {
        let Some((node, pointer)) = reader.get(&SettingsOptions::cache) else {
            return BTreeMap::new();
        };
        let mut stores = BTreeMap::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            let options: CacheStoreOptions = reader.read();
            if options.max_object > options.memory / 4
                && let Some((node, pointer)) = reader
                    .get(&CacheStoreOptions::max_object)
                    .or_else(|| reader.get(&CacheStoreOptions::memory))
            {
                let message = format!(
                    "`max_object` is {} bytes, more than a quarter of `memory` with {}",
                    options.max_object, options.memory
                );
                let diagnostic = Diagnostic::new(pointer, message);
                let hint =
                    "one response would evict most others: raise `memory` or lower `max_object`";
                self.faults.value(diagnostic.suggest(hint), node);
            }
            let disk = self.cache_disk(&reader, options.memory);
            let store = CacheStore {
                pointer: reader.pointer,
                options,
                disk,
            };
            stores.insert(member.name.to_string(), store);
        }
        stores
    }

    /// Builds `disk` of a store with this memory.
    fn cache_disk(&mut self, store: &Reader<'d>, memory: usize) -> Option<CacheDisk> {
        let (node, pointer) = store.get(&CacheStoreOptions::disk)?;
        let reader = Reader::new(node, pointer);
        let options: CacheDiskOptions = reader.read();
        let eighth = usize::try_from(options.size / 8).unwrap_or(usize::MAX);
        let most = (memory / 4).min(eighth);
        if options.max_object.is_some_and(|object| object > most)
            && let Some((node, pointer)) = reader.get(&CacheDiskOptions::max_object)
        {
            let message = format!(
                "`max_object` of `disk` is {} bytes, more than a quarter of `memory` or an eighth of `size`, which is {most}",
                options.max_object.unwrap_or_default()
            );
            let diagnostic = Diagnostic::new(pointer, message);
            let hint = "large responses are assembled in memory, and evict others from the disk: raise `memory` and `size` or lower \
                 `max_object`";
            self.faults.value(diagnostic.suggest(hint), node);
        }
        if let Some(path) = &options.path
            && !path.is_absolute()
            && let Some((node, pointer)) = reader.get(&CacheDiskOptions::path)
        {
            let message = format!("`{}` is not an absolute path", path.display());
            let diagnostic = Diagnostic::new(pointer, message);
            self.faults
                .value(diagnostic.suggest("begin it with `/`"), node);
        }
        Some(CacheDisk {
            object: options.max_object.unwrap_or(most),
            pointer: reader.pointer,
            options,
        })
    }

    /// Builds `cache` of an action: the name of a store, or an object.
    pub(super) fn cache(
        &mut self,
        action: &Reader<'d>,
        kind: Option<&ActionKind>,
    ) -> Option<Cache> {
        let (node, pointer) = action.get(&ActionOptions::cache)?;
        if !is_cached(kind) {
            let message = "`cache` has no effect here: it is for `proxy` and for a `pass` to `applications/NAME` or `upstreams/NAME`";
            self.refuse(action, &ActionOptions::cache, message);
        }
        let reader = Reader::new(node, pointer);
        let mut options: CacheOptions = reader.read();
        let named = match node.as_str() {
            Some(name) => {
                name.clone_into(&mut options.store);
                Some((node, reader.pointer.clone()))
            }
            None => reader.get(&CacheOptions::store),
        };
        if let Some((node, pointer)) = named {
            self.check_store((node, pointer), &SettingsOptions::cache, "{}");
        }
        self.check_slice(&reader, &options);
        let valid = reader.get(&CacheOptions::valid);
        let key = reader.template(&CacheOptions::key);
        let bypass = reader.condition(&CacheOptions::bypass);
        let hint = "use a field or a cookie of the request, such as `$header_authorization`, or leave it out: a response to a user is stored only if it allows that itself";
        self.refuse_user(&reader, &CacheOptions::key, key.as_ref(), hint);
        let condition = bypass.as_ref().map(|bypass| &bypass.template);
        self.refuse_user(&reader, &CacheOptions::bypass, condition, hint);
        Some(Cache {
            key,
            valid: valid.map_or_else(Vec::new, |(node, pointer)| self.valid(node, &pointer)),
            bypass,
            cookies: reader.patterns(&CacheOptions::cookies, PLAIN),
            options,
            pointer: reader.pointer,
        })
    }

    /// Checks that a slice fits the store.
    fn check_slice(&mut self, reader: &Reader<'d>, options: &CacheOptions) {
        let stores = self.setting(&SettingsOptions::cache);
        let Some(store) = stores.and_then(|stores| stores.child(&options.store)) else {
            return;
        };
        let most = Reader::new(store, Pointer::root())
            .read::<CacheStoreOptions>()
            .max_object;
        if let Some(slice) = options.slice.filter(|slice| *slice > most)
            && let Some((node, pointer)) = reader.get(&CacheOptions::slice)
        {
            let message = format!(
                "`slice` is {slice} bytes, but the store `{}` accepts only responses of up to {most} bytes",
                shorten(&options.store)
            );
            let hint = "raise `max_object` of the store or lower `slice`";
            self.faults
                .value(Diagnostic::new(pointer, message).suggest(hint), node);
        }
    }

    fn valid(&mut self, node: &'d TreeNode, pointer: &Pointer) -> Vec<(u16, u16, Duration)> {
        if !matches!(node.value, Value::Object(_)) {
            let time = Duration::read(node);
            let each = |time: Duration| LASTING.map(|status| (status, status, time)).to_vec();
            return time.map(each).unwrap_or_default();
        }
        let mut valid = Vec::new();
        for member in node.members() {
            let Some((first, last)) = statuses(&member.name) else {
                let message = format!("`{}` is not a status", shorten(&member.name));
                let diagnostic = Diagnostic::new(pointer.child(&member.name), message);
                let hint = "write `200`, `4xx` or `any`";
                self.faults.name(diagnostic.suggest(hint), member);
                continue;
            };
            if let Some(time) = Duration::read(&member.node) {
                valid.push((first, last, time));
            }
        }
        valid.sort_by_key(|(first, last, _)| last - first);
        valid
    }
}

/// Returns the first and last status of a word in `valid`.
fn statuses(word: &str) -> Option<(u16, u16)> {
    if word == "any" {
        return Some((200, 599));
    }
    if let Some(class) = word.strip_suffix("xx") {
        let class: u16 = class.parse().ok()?;
        return (2..=5)
            .contains(&class)
            .then_some((class * 100, class * 100 + 99));
    }
    let status: u16 = word.parse().ok().filter(|_| word.len() == 3)?;
    (200..=599).contains(&status).then_some((status, status))
}

/// True for actions whose responses come from an application or an upstream.
fn is_cached(kind: Option<&ActionKind>) -> bool {
    match kind {
        Some(ActionKind::Pass(Pass::Fixed(destination))) => matches!(
            destination,
            Destination::Application { .. } | Destination::Upstream(_)
        ),
        Some(ActionKind::Pass(Pass::Computed(template))) => match template.parts().first() {
            Some(TemplatePart::Literal(first)) => !first.starts_with("routes"),
            _ => true,
        },
        _ => true,
    }
}
