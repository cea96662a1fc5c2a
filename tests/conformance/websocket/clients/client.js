// Does what client.py does, by the library ws: node client.js URL [CA-FILE].
"use strict";

const assert = require("assert");
const crypto = require("crypto");
const { once } = require("events");
const fs = require("fs");
const WebSocket = require("ws");

const [url, authority] = process.argv.slice(2);
const SIZES = [0, 1, 125, 126, 127, 128, 65535, 65536];
const TEXTS = ["Hello-µ@ßöäüàá-UTF-8!!", "κόσμε", "𝄞🙂", "\0\x7f\u0080\u07ff\u0800\uffff\u{10ffff}", "日本語".repeat(1000)];
const CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
const LARGE = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];
let count = 0;

// Nothing waits without an end.
setTimeout(() => { console.error(`too long, after ${count} cases`); process.exit(1); }, 300_000).unref();

async function connect() {
    const socket = new WebSocket(url, { ca: authority && fs.readFileSync(authority), perMessageDeflate: false, maxPayload: 1 << 25 });
    await once(socket, "open");
    return socket;
}

async function answered(socket, message, pieces) {
    const answer = once(socket, "message");
    pieces.forEach((piece, index) => socket.send(piece, { fin: index === pieces.length - 1, binary: typeof message !== "string" }));
    const [data, isBinary] = await answer;
    assert.strictEqual(isBinary, typeof message !== "string");
    assert.ok(Buffer.from(message).equals(data), `${data.length} bytes of ${message.length}`);
    count += 1;
}

const same = (socket, message) => answered(socket, message, [message]);

async function pinged(socket, payload) {
    const pong = once(socket, "pong");
    socket.ping(payload);
    assert.ok(Buffer.from(payload).equals((await pong)[0]));
    count += 1;
}

async function main() {
    const socket = await connect();
    for (const size of SIZES) { // 1
        await same(socket, "*".repeat(size));
        await same(socket, Buffer.alloc(size, 0xfe));
    }
    for (const payload of ["", "Hello, world!", "*".repeat(125)]) await pinged(socket, payload); // 2
    socket.pong("unasked");
    await same(socket, "after a pong");
    await answered(socket, "fragment1fragment2", ["fragment1", "fragment2"]); // 5
    await answered(socket, Buffer.from("fragment1fragment2"), [Buffer.from("fragment1"), Buffer.from("fragment2")]);
    await answered(socket, "empty", ["", "empty", ""]);
    const interrupted = once(socket, "message");
    socket.send("one", { fin: false });
    await pinged(socket, "between");
    socket.send("two", { fin: true });
    assert.strictEqual(String((await interrupted)[0]), "onetwo");
    for (const text of TEXTS) { // 6
        await same(socket, text);
        // Cut within characters.
        const bytes = [...Buffer.from(text).subarray(0, 300)].map((byte) => Buffer.from([byte]));
        await answered(socket, Buffer.concat(bytes), bytes);
    }
    for (const size of LARGE) { // 9
        await same(socket, "*".repeat(size));
        await same(socket, crypto.randomBytes(size));
    }
    const many = [...Array(1000).keys()].map((number) => `message ${number}`);
    const heard = [];
    const all = new Promise((done) => socket.on("message", (data) => heard.push(String(data)) === many.length && done()));
    many.forEach((message) => socket.send(message));
    await all;
    socket.removeAllListeners("message");
    assert.deepStrictEqual(heard, many);
    const pieces = Array(64).fill(Buffer.alloc(1024, "*"));
    await answered(socket, Buffer.concat(pieces), pieces); // 10
    socket.close();
    await once(socket, "close");
    for (const code of CODES) { // 7
        const ours = await connect();
        ours.close(code, "because");
        let [got, reason] = await once(ours, "close");
        assert.deepStrictEqual([got, String(reason)], [code, "because"]);
        const theirs = await connect();
        theirs.send(`close ${code} as you wish`);
        [got, reason] = await once(theirs, "close");
        assert.deepStrictEqual([got, String(reason)], [code, "as you wish"]);
        count += 2;
    }
    console.log(`${count} cases`);
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
