// Run once in a realm that several requests share, after the prelude: freezes every object that scripts can reach and did not create,
// so that a request leaves no change for the next one. A script that must change such an object fails here, and is run in a realm of
// its own.
(function () {
    'use strict';
    // Objects of the language that have no global name.
    const nameless = () => [
        function* () {}, async function () {}, async function* () {}, (function* () {})(), (async function* () {})(),
        [].values(), ''[Symbol.iterator](), new Map().entries(), new Set().values(), ''.matchAll(/x/g),
        [].values().map?.((x) => x), globalThis.Iterator?.from({ next() {} }),
        new Proxy({}, {}), Object.getPrototypeOf(Uint8Array)
    ];
    // Settings of the engine, whose setters would change it although they are frozen.
    for (const name of ['prepareStackTrace', 'stackTraceLimit', 'captureStackTrace']) {
        if (Object.hasOwn(Error, name)) {
            Object.defineProperty(Error, name, { value: undefined, writable: false, configurable: false });
        }
    }
    const seen = new Set();
    const rest = [globalThis, globalThis.Buffer, ...nameless()];
    while (rest.length > 0) {
        const one = rest.pop();
        if ((typeof one !== 'object' && typeof one !== 'function') || one === null || seen.has(one)) {
            continue;
        }
        seen.add(one);
        rest.push(Object.getPrototypeOf(one));
        for (const name of Reflect.ownKeys(one)) {
            const { value, get, set } = Object.getOwnPropertyDescriptor(one, name);
            rest.push(value, get, set);
        }
    }
    for (const one of seen) {
        Object.freeze(one);
    }
})()
