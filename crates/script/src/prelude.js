// Run once in every new context, before modules and templates. Removes all functions that compile text at run time, and limits the
// built-in functions that can run for long without checking the time limit.
(function () {
    'use strict';
    const apply = Reflect.apply;
    const define = (object, name, value) =>
        Object.defineProperty(object, name, { value, writable: true, configurable: true });

    // The maximum length of arrays for functions of Array; longer ones do not fit into the memory, except with holes.
    const LONGEST = 1000000;
    // The maximum cost of a search: length of the text times length of the pattern.
    const COMPARISONS = 100000000;
    const tooLong = (list) =>
        typeof list === 'object' && list !== null && !(list.length <= LONGEST) && list.length !== undefined;
    const lazy = new Set(['constructor', 'keys', 'values', 'entries', 'toString', 'toLocaleString', 'at', 'push', 'pop']);
    const bound = (prototype, name, isTooMuch) => {
        const original = prototype[name];
        if (typeof original !== 'function') {
            return;
        }
        define(prototype, name, {
            [name](...rest) {
                if (isTooMuch(this, rest)) {
                    throw new RangeError(name + '() has too much to do');
                }
                return apply(original, this, rest);
            }
        }[name]);
    };
    const some = Array.prototype.some;
    for (const name of Object.getOwnPropertyNames(Array.prototype)) {
        if (name === 'concat' || name === 'flat' || name === 'flatMap') {
            bound(Array.prototype, name, (list, rest) =>
                tooLong(list) || apply(some, rest, [tooLong]) || apply(some, list, [tooLong]));
        } else if (!lazy.has(name)) {
            bound(Array.prototype, name, tooLong);
        }
    }
    for (const name of ['indexOf', 'lastIndexOf', 'includes', 'split', 'replace', 'replaceAll']) {
        bound(String.prototype, name, (text, rest) =>
            typeof rest[0] === 'string' && rest[0].length > 1 && String(text).length * rest[0].length > COMPARISONS);
    }

    // Scripts must not compile text while a request is served.
    for (const make of [function () {}, function* () {}, async function () {}, async function* () {}]) {
        define(Object.getPrototypeOf(make), 'constructor', undefined);
    }
    for (const name of ['eval', 'Function', 'Atomics', 'SharedArrayBuffer', 'WeakRef', 'FinalizationRegistry']) {
        delete globalThis[name];
    }

    // Fields are found in any case; they are listed in their original order.
    const headers = (fields) => {
        const names = Object.create(null);
        for (const name in fields) {
            names[name.toLowerCase()] = name;
        }
        const known = (name) => (typeof name === 'string' ? names[name.toLowerCase()] ?? name : name);
        return new Proxy(fields, {
            get: (target, name) => target[known(name)],
            has: (target, name) => known(name) in target,
            getOwnPropertyDescriptor: (target, name) => Object.getOwnPropertyDescriptor(target, known(name))
        });
    };
    // As nginx reads it: the first argument of a name in any case, not decoded.
    const rawArgument = (query, wanted) => {
        for (const pair of (query ?? '').split('&')) {
            const end = pair.indexOf('=');
            if (end >= 0 && pair.slice(0, end).toLowerCase() === wanted) {
                return pair.slice(end + 1);
            }
        }
        return undefined;
    };
    const families = (plain, args, cookies, request, response) => [
        ['arg_', (name) => args[name]],
        ['raw_arg_', (name) => rawArgument(plain.query, name.toLowerCase())],
        ['cookie_', (name) => cookies[name]],
        ['header_', (name) => request[name.replaceAll('_', '-')]],
        ['response_header_', (name) => response[name.replaceAll('_', '-')]]
    ];
    const vars = (plain, args, cookies, request, response) => {
        const known = families(plain, args, cookies, request, response);
        return new Proxy(plain, {
            get(target, name) {
                if (typeof name !== 'string' || name in target) {
                    return target[name];
                }
                for (const [prefix, find] of known) {
                    if (name.startsWith(prefix)) {
                        return find(name.slice(prefix.length));
                    }
                }
                return undefined;
            }
        });
    };
    // njs has it without an import; loaded on first use.
    const install = (load) => {
        Object.defineProperty(globalThis, 'Buffer', {
            get: () => load().Buffer,
            set: (value) => define(globalThis, 'Buffer', value),
            configurable: true
        });
    };
    return { headers, vars, install };
})()
