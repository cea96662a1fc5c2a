//! Options of `maps`.

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options};

options! {
    /// A map: the variable `$map_NAME`, whose value depends on that of another text. It is evaluated when it is used, for the path and the
    /// query as they are then. Maps may use other maps, but not themselves
    pub struct MapOptions: MAP = "map", exactly_one ["values", "hosts", "addresses", "shares"] {
        /// Text that decides. By default `$remote_addr` for `addresses`, `$host` for `hosts`; required otherwise
        key: Unread [kind(ValueKind::String(Text::Template)), beyond()],
        /// Values by text, in any case of ASCII letters. A text that begins with `~` is a regular expression, with `~*` one in any case;
        /// exact texts go first, then the first regular expression that matches. A leading `\` is removed: it precedes texts that begin
        /// with `~` or `\` themselves
        values: Unread [kind(ValueKind::Map(Names::Any, &VALUE)), beyond()],
        /// Values by host name: exact names, names that begin with `*.` or end with `.*`, `.example.com` for that name and those below it,
        /// and regular expressions as in `values`. Of several that match, the exact name applies, then the longest of each kind in this
        /// order
        hosts: Unread [kind(ValueKind::Map(Names::NotEmpty, &VALUE)), beyond()],
        /// Values by address: `10.0.0.0/8`, `192.0.2.1`, `192.0.2.1-192.0.2.9`, `2001:db8::/32`. The smallest range that contains the
        /// address applies
        addresses: Unread [kind(ValueKind::Map(Names::Addresses, &VALUE)), beyond()],
        /// Values for shares of the texts, which are distributed by a hash, the same as that of nginx's `split_clients`; a text always has
        /// the same value while the shares before its own do not change
        shares: Unread [kind(ValueKind::Array(&MapShareOptions::KIND)), beyond()],
        /// Value if nothing else applies; empty by default
        otherwise: Unread [key("default"), kind(VALUE), beyond()],
    }
}

/// In a value for a regular expression, `$match_1` and `$match_NAME` are its groups.
const VALUE: ValueKind = ValueKind::String(Text::MapValue);

options! {
    /// A share of a map
    pub struct MapShareOptions: MAP_SHARE = "share of a map" {
        /// Percentage of the texts; two decimal places count. The rest has the `default`
        percent: f64 [kind(ValueKind::Number(0.01, 100.0)), beyond(), required()],
        /// Their value
        value: Unread [kind(VALUE), beyond(), required()],
    }
}
