// njs's `querystring` (https://nginx.org/en/docs/njs/reference.html#querystring).
export const escape = (text) => encodeURIComponent(text);

export const unescape = (text) => {
    try {
        return decodeURIComponent(text);
    } catch {
        // Text with an invalid encoding is unchanged.
        return text.replace(/(?:%[0-9a-f]{2})+/gi, (part) => {
            try {
                return decodeURIComponent(part);
            } catch {
                return part;
            }
        });
    }
};

export const parse = (text, separator = '&', equals = '=', options = {}) => {
    const { decodeURIComponent: decode = unescape, maxKeys = 1000 } = options;
    const found = {};
    let parts = String(text).split(separator).filter((part) => part !== '');
    if (maxKeys > 0) {
        parts = parts.slice(0, maxKeys);
    }
    for (const part of parts) {
        const at = part.indexOf(equals);
        const name = decode((at < 0 ? part : part.slice(0, at)).replaceAll('+', ' '));
        const value = at < 0 ? '' : decode(part.slice(at + equals.length).replaceAll('+', ' '));
        if (Object.hasOwn(found, name)) {
            found[name] = Array.isArray(found[name]) ? [...found[name], value] : [found[name], value];
        } else {
            Object.defineProperty(found, name, { value, writable: true, enumerable: true, configurable: true });
        }
    }
    return found;
};

export const stringify = (object, separator = '&', equals = '=', options = {}) => {
    const { encodeURIComponent: encode = escape } = options;
    const one = (name, value) => encode(name) + equals + encode(
        ['string', 'number', 'boolean', 'bigint'].includes(typeof value) ? String(value) : '');
    return Object.entries(object ?? {})
        .flatMap(([name, value]) => Array.isArray(value) ? value.map((each) => one(name, each)) : [one(name, value)])
        .join(separator);
};

export const decode = parse;
export const encode = stringify;

export default { parse, stringify, escape, unescape, decode, encode };
