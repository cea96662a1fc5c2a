// njs's `buffer` (https://nginx.org/en/docs/njs/reference.html#buffer): bytes, and their texts.
import { encodeText, decodeText } from 'tutti:native';

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const BASE64URL = BASE64.slice(0, 62) + '-_';

const fromHex = (text) => {
    const bytes = [];
    for (let at = 0; at + 1 < text.length; at += 2) {
        const value = Number('0x' + text.slice(at, at + 2));
        if (Number.isNaN(value)) {
            break;
        }
        bytes.push(value);
    }
    return bytes;
};

const fromBase64 = (text) => {
    const bytes = [];
    let bits = 0;
    let value = 0;
    for (const letter of text) {
        let digit = BASE64.indexOf(letter);
        if (digit < 0) {
            digit = BASE64URL.indexOf(letter);
        }
        if (letter === '=') {
            break;
        }
        if (digit < 0) {
            continue;
        }
        value = (value << 6 | digit) & 0xffffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes.push(value >> bits & 255);
        }
    }
    return bytes;
};

const toBase64 = (bytes, alphabet, pad) => {
    let text = '';
    for (let at = 0; at < bytes.length; at += 3) {
        const left = bytes.length - at;
        const value = bytes[at] << 16 | (left > 1 ? bytes[at + 1] : 0) << 8 | (left > 2 ? bytes[at + 2] : 0);
        text += alphabet[value >> 18] + alphabet[value >> 12 & 63];
        text += left > 1 ? alphabet[value >> 6 & 63] : pad;
        text += left > 2 ? alphabet[value & 63] : pad;
    }
    return text;
};

// One character for each byte.
const toLatin1 = (bytes) => {
    let text = '';
    for (let at = 0; at < bytes.length; at += 4096) {
        text += String.fromCharCode.apply(null, bytes.subarray(at, at + 4096));
    }
    return text;
};

const encodings = {
    utf8: [encodeText, (bytes) => decodeText(toLatin1(bytes))],
    hex: [fromHex, (bytes) => {
        let text = '';
        for (const byte of bytes) {
            text += (byte < 16 ? '0' : '') + byte.toString(16);
        }
        return text;
    }],
    base64: [fromBase64, (bytes) => toBase64(bytes, BASE64, '=')],
    base64url: [fromBase64, (bytes) => toBase64(bytes, BASE64URL, '')],
    latin1: [(text) => {
        const bytes = new Uint8Array(text.length);
        for (let at = 0; at < text.length; at += 1) {
            bytes[at] = text.charCodeAt(at);
        }
        return bytes;
    }, toLatin1],
};

const encoding = (name) => {
    const known = { undefined: 'utf8', 'utf-8': 'utf8', binary: 'latin1' };
    const asked = String(name).toLowerCase();
    const found = encodings[known[asked] ?? asked];
    if (!found) {
        throw new TypeError(`"${name}" is no encoding: utf8, hex, base64, base64url and latin1 are`);
    }
    return found;
};

export class Buffer extends Uint8Array {
    static from(value, second, length) {
        if (typeof value === 'string') {
            return Buffer.#of(encoding(second)[0](value));
        }
        if (value instanceof ArrayBuffer) {
            return new Buffer(value, second, length);
        }
        if (value && value.type === 'Buffer' && Array.isArray(value.data)) {
            return Buffer.#of(value.data);
        }
        if (value && typeof value === 'object' && typeof value.length === 'number') {
            return Buffer.#of(value);
        }
        throw new TypeError('Buffer.from() takes a string, bytes, or a list of numbers');
    }

    static #of(bytes) {
        const made = new Buffer(bytes.length);
        made.set(bytes);
        return made;
    }

    static alloc(size, fill, name) {
        const made = new Buffer(size);
        return fill === undefined ? made : made.fill(fill, name);
    }

    static allocUnsafe(size) {
        return new Buffer(size);
    }

    static byteLength(value, name) {
        return typeof value === 'string' ? encoding(name)[0](value).length : value.byteLength;
    }

    static isBuffer(value) {
        return value instanceof Buffer;
    }

    static isEncoding(name) {
        try {
            return encoding(name) !== undefined;
        } catch {
            return false;
        }
    }

    static compare(first, second) {
        const shorter = Math.min(first.length, second.length);
        for (let at = 0; at < shorter; at += 1) {
            if (first[at] !== second[at]) {
                return first[at] < second[at] ? -1 : 1;
            }
        }
        return Math.sign(first.length - second.length);
    }

    static concat(list, total) {
        const length = total ?? list.reduce((sum, one) => sum + one.length, 0);
        const made = new Buffer(length);
        let at = 0;
        for (const one of list) {
            const room = length - at;
            made.set(one.length > room ? one.subarray(0, room) : one, at);
            at += Math.min(one.length, room);
        }
        return made;
    }

    toString(name, start = 0, end = this.length) {
        return encoding(name)[1](this.subarray(start, end));
    }

    toJSON() {
        return { type: 'Buffer', data: [...this] };
    }

    equals(other) {
        return Buffer.compare(this, other) === 0;
    }

    compare(other) {
        return Buffer.compare(this, other);
    }

    slice(start, end) {
        return this.subarray(start, end);
    }

    write(text, offset = 0, length = this.length - offset, name = 'utf8') {
        const bytes = encoding(name)[0](text);
        const count = Math.min(bytes.length, length, this.length - offset);
        for (let at = 0; at < count; at += 1) {
            this[offset + at] = bytes[at];
        }
        return count;
    }

    fill(value, name) {
        const bytes = typeof value === 'string' ? encoding(name)[0](value) : value;
        if (typeof bytes === 'number' || bytes.length === 0) {
            return super.fill(typeof bytes === 'number' ? bytes : 0);
        }
        for (let at = 0; at < this.length; at += 1) {
            this[at] = bytes[at % bytes.length];
        }
        return this;
    }

    includes(value, from, name) {
        return this.indexOf(value, from, name) >= 0;
    }

    indexOf(value, from = 0, name = 'utf8') {
        if (typeof value === 'number') {
            return super.indexOf(value, from);
        }
        const wanted = typeof value === 'string' ? encoding(name)[0](value) : value;
        for (let at = from; at + wanted.length <= this.length; at += 1) {
            let same = 0;
            while (same < wanted.length && this[at + same] === wanted[same]) {
                same += 1;
            }
            if (same === wanted.length) {
                return at;
            }
        }
        return -1;
    }
}

// `readUInt16BE` etc., by the methods of DataView.
for (const [name, view, size] of [
    ['Int8', 'Int8', 1], ['UInt8', 'Uint8', 1], ['Int16', 'Int16', 2], ['UInt16', 'Uint16', 2], ['Int32', 'Int32', 4],
    ['UInt32', 'Uint32', 4], ['Float', 'Float32', 4], ['Double', 'Float64', 8],
]) {
    for (const order of size === 1 ? [''] : ['LE', 'BE']) {
        const of = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        const method = (made, body) =>
            Object.defineProperty(Buffer.prototype, made, { value: body, writable: true, configurable: true });
        method(`read${name}${order}`, function (offset = 0) {
            return of(this)[`get${view}`](offset, order === 'LE');
        });
        method(`write${name}${order}`, function (value, offset = 0) {
            of(this)[`set${view}`](offset, value, order === 'LE');
            return offset + size;
        });
    }
}

export default { Buffer };
