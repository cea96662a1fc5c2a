// njs's `crypto` (https://nginx.org/en/docs/njs/reference.html#crypto): digests and their keyed forms.
import { digest, keyedDigest } from 'tutti:native';
import { Buffer } from 'buffer';

const ALGORITHMS = ['md5', 'sha1', 'sha256'];

class Hash {
    #make;
    #parts = [];
    #isDone = false;

    constructor(make) {
        this.#make = make;
    }

    update(data, encoding) {
        if (this.#isDone) {
            throw new Error('the digest has been taken already');
        }
        this.#parts.push(Buffer.from(data, encoding));
        return this;
    }

    digest(encoding) {
        if (this.#isDone) {
            throw new Error('the digest has been taken already');
        }
        this.#isDone = true;
        const bytes = Buffer.from(this.#make(Buffer.concat(this.#parts)));
        return encoding === undefined || encoding === 'buffer' ? bytes : bytes.toString(encoding);
    }

    copy() {
        const other = new Hash(this.#make);
        other.#parts = [...this.#parts];
        other.#isDone = this.#isDone;
        return other;
    }
}

const known = (algorithm) => {
    const name = String(algorithm).toLowerCase();
    if (!ALGORITHMS.includes(name)) {
        throw new TypeError(`"${algorithm}" is no algorithm: ${ALGORITHMS.join(', ')} are`);
    }
    return name;
};

export const createHash = (algorithm) => {
    const name = known(algorithm);
    return new Hash((bytes) => digest(name, bytes.toString('latin1')));
};

export const createHmac = (algorithm, key) => {
    const name = known(algorithm);
    const secret = Buffer.from(key).toString('latin1');
    return new Hash((bytes) => keyedDigest(name, secret, bytes.toString('latin1')));
};

export default { createHash, createHmac };
