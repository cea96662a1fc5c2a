'use strict';
// The connections that requests come on in memory, where this process takes them from the server itself (sdk/node/addon). All that listens to
// them is Node.js's own: `connection` of the application's server is emitted for each, and the callbacks of its parser are called with what the server
// has parsed. So every IncomingMessage and ServerResponse, and all that happens between them and their connection, is Node.js's.
//
// One connection carries one request after the other, as a kept one does. Must never happen: a connection that is used for the next
// request while anything of the last one is under way.
const { AsyncResource } = require('async_hooks');
const { Duplex } = require('stream');

// The states of a response (`State` of the library).
const TAKEN = 0;
const FULL = 1;
const WHOLE = 2;
// Kinds of bodies of requests (`Body`), and the answers to a reader of one beside bytes.
const NO_BODY = 0;
const BODY_COMES = 2;
const LATER = 0;
const END = 1;
// Flags of what is written: a character is a byte; a whole answer ends its request; more is about to be written.
const LATIN1 = 1;
const ENDS = 2;
const GOES_ON = 4;
// The encodings of strings that the library takes; of others bytes are made first.
const IS_LATIN1 = { latin1: LATIN1, binary: LATIN1, utf8: 0, 'utf-8': 0 };
// Methods that Node.js knows are numbered from 0.
const MOST_METHODS = 100;

// Begins to take requests for `server`. `client` is the member of a connection that says who its client is. Returns what has the rest relayed.
module.exports = function take(library, server, client) {
    const { parser, numbers } = studied(server);
    const { onHead, onBody, onEnd } = numbers;
    // By slot, and those without a request.
    const channels = [];
    const resting = [];

    class Channel extends Duplex {
        constructor() {
            super({ decodeStrings: false });
            this.slot = -1;
            this.server = null;
            this.connecting = false;
            this.timeout = 0;
            this.bytesRead = 0;
            this.bytesWritten = 0;
            // The body does not go through the stream, whose own `isPaused()` and `readableEnded` so say nothing of it: that would cost each request
            // a turn of the event loop, with `resume()` of Readable.
            this.isHeld = false;
            this.isBodyOver = true;
            this.isPumping = false;
            // The callback of a write that waits for room.
            this.waiting = null;
            this.timer = null;
            this.resource = null;
        }

        begin(slot, method, url, fields, body) {
            this.slot = slot;
            channels[slot] = this;
            this.isHeld = false;
            this.isBodyOver = body === NO_BODY;
            this.body = body;
            server._connections++;
            const { parser } = this;
            const number = numberOf(method);
            if (number === undefined) {
                this.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
                return;
            }
            parser[onHead](1, 1, fields, number, url, undefined, undefined, false, true);
            this.watch();
            if (!this.isBodyOver) this.pump();
            else if (this.parser !== null) parser[onEnd]();
        }

        // True if nothing of the last request is under way.
        get isAtRest() {
            return this.slot === -1 && !this._httpMessage && !this.destroyed && !this.writableEnded && this.writableLength === 0
                && this.isBodyOver && this.parser !== null && (this.parser.incoming === null || this.parser.incoming.complete);
        }

        // The request has ended, for the server.
        release() {
            if (channels[this.slot] === this) channels[this.slot] = undefined;
            this.slot = -1;
            server._connections--;
            server._emitCloseIfDrained();
        }

        settle(state, callback) {
            if (state === TAKEN) return callback();
            if (state === FULL) {
                this.waiting = callback;
                return undefined;
            }
            if (state !== WHOLE) {
                // It has no reader, like a connection that its client has closed.
                this.release();
                this.destroy();
                return callback();
            }
            if (this.isBodyOver) {
                this.rest();
            } else if (this.body === BODY_COMES) {
                // The rest of it is not waited for.
                this.release();
                setImmediate(() => this.destroy());
            } else {
                // Node.js reads what the application has left of a request when it is answered.
                setImmediate(() => this.settleBody());
            }
            return callback();
        }

        settleBody() {
            if (this.slot === -1) return;
            const isUsable = library.finish(this.slot) === WHOLE && this.isBodyOver;
            if (isUsable) {
                this.rest();
            } else {
                this.release();
                this.destroy();
            }
        }

        rest() {
            this.release();
            // A limit that this request has set holds for no other.
            this.setTimeout(server.timeout);
            resting.push(this);
        }

        // Gives data to the library; `flags` tell more about it.
        put(data, encoding, flags) {
            if (typeof data === 'string') {
                const isLatin1 = IS_LATIN1[encoding];
                if (isLatin1 === undefined) data = Buffer.from(data, encoding);
                else flags |= isLatin1;
            }
            this.bytesWritten += data.length;
            return library.write(this.slot, data, flags | this.ends);
        }

        // The flag for an answer that ends its request when it is whole: else the body is read before.
        get ends() {
            return this.isBodyOver || this.body === BODY_COMES ? ENDS : 0;
        }

        _write(data, encoding, callback) {
            if (this.slot === -1) return this.unasked(data.length, callback);
            if (this.timer !== null) this.timer.refresh();
            return this.settle(this.put(data, encoding, 0), callback);
        }

        _writev(pieces, callback) {
            if (this.slot === -1) return this.unasked(pieces.reduce((sum, { chunk }) => sum + chunk.length, 0), callback);
            if (this.timer !== null) this.timer.refresh();
            const last = pieces.length - 1;
            for (let index = 0; index < last; index++) this.put(pieces[index].chunk, pieces[index].encoding, GOES_ON);
            return this.settle(this.put(pieces[last].chunk, pieces[last].encoding, 0), callback);
        }

        // Written after the answer's end; nothing is, often.
        unasked(length, callback) {
            callback();
            if (length > 0) this.destroy();
        }

        _final(callback) {
            if (this.slot !== -1) {
                library.end(this.slot);
                this.release();
            }
            callback();
        }

        _destroy(error, callback) {
            if (this.slot !== -1) {
                library.abort(this.slot);
                this.release();
            }
            this.unwatch();
            this.leaveResource();
            const { waiting } = this;
            this.waiting = null;
            if (waiting !== null) waiting(error);
            callback(error);
        }

        // Tells those who follow asynchronous resources that the last request's is over: what it has begun may use it until then.
        leaveResource() {
            if (this.resource !== null) this.resource.emitDestroy();
            this.resource = null;
        }

        // Nothing is read from it: its parser is called.
        _read() {}

        pause() {
            this.isHeld = true;
            return this;
        }

        resume() {
            this.isHeld = false;
            if (!this.isBodyOver) this.pump();
            return this;
        }

        // Gives what there is of the body to the parser.
        pump() {
            if (this.isPumping) return;
            this.isPumping = true;
            try {
                while (!this.isHeld && !this.isBodyOver && this.slot !== -1 && this.parser !== null) {
                    const piece = library.read(this.slot);
                    if (piece === LATER) return;
                    if (piece === END) {
                        this.isBodyOver = true;
                        this.parser[onEnd]();
                    } else if (typeof piece === 'number') {
                        this.destroy();
                    } else {
                        this.bytesRead += piece.length;
                        if (this.timer !== null) this.timer.refresh();
                        this.parser[onBody](piece);
                    }
                }
            } finally {
                this.isPumping = false;
            }
        }

        // Something has happened to the request that it waits for.
        hear() {
            if (library.isGone(this.slot)) {
                this.destroy();
                return;
            }
            const { waiting } = this;
            if (waiting !== null) {
                this.waiting = null;
                this.settle(library.write(this.slot, EMPTY, this.ends), waiting);
            }
            if (!this.isBodyOver) this.pump();
        }

        destroySoon() {
            if (this.writable) this.end();
            if (this.writableFinished) this.destroy();
            else this.once('finish', this.destroy);
        }

        setTimeout(time, callback) {
            this.unwatch();
            this.timeout = Number(time) || 0;
            this.watch();
            if (callback) {
                if (this.timeout > 0) this.once('timeout', callback);
                else this.removeListener('timeout', callback);
            }
            return this;
        }

        // The time counts while a request is under way: an idle connection has no client.
        watch() {
            if (this.timeout <= 0 || this.slot === -1 || this.timer !== null) return;
            this.timer = setTimeout(() => this.emit('timeout'), this.timeout).unref();
        }

        unwatch() {
            if (this.timer === null) return;
            clearTimeout(this.timer);
            this.timer = null;
        }

        setNoDelay() {
            return this;
        }

        setKeepAlive() {
            return this;
        }

        ref() {
            return this;
        }

        unref() {
            return this;
        }

        get pending() {
            return false;
        }

        get readyState() {
            return this.destroyed || !this.writable ? 'closed' : 'open';
        }
    }

    const EMPTY = Buffer.alloc(0);
    const numberOf = methodsOf(parser, onHead);
    if (numberOf('GET') === undefined) throw unknown();

    function free() {
        for (;;) {
            const channel = resting.pop();
            if (channel === undefined) break;
            if (channel.isAtRest) return channel;
        }
        const channel = new Channel();
        server.emit('connection', channel);
        // Time limits of connections are the server's.
        channel.parser.remove();
        return channel;
    }

    function onRequest(slot, text, body) {
        // Closed by the application: what comes now is not for this server.
        if (!server.listening) library.relay();
        const fields = text.split('\0');
        const method = fields.pop();
        const url = fields.pop();
        const who = fields.pop();
        const channel = free();
        channel[client] = who;
        channel.leaveResource();
        channel.resource = new AsyncResource('TUTTIREQUEST', { requireManualDestroy: true });
        channel.resource.runInAsyncScope(channel.begin, channel, slot, method, url, fields, body);
    }

    function onNews(slot) {
        const channel = channels[slot];
        if (channel !== undefined) channel.resource.runInAsyncScope(channel.hear, channel);
    }

    library.begin(onRequest, onNews);
    return {
        relay() {
            library.relay();
        },
    };

    // The parser that Node.js gives a connection of this server, and the numbers of its callbacks. Throws where they are not as we know them.
    function studied(server) {
        const probe = new Duplex({ read() {}, write(data, encoding, callback) { callback(); } });
        server.emit('connection', probe);
        const { parser } = probe;
        const kind = parser.constructor;
        const numbers = { onHead: kind.kOnHeadersComplete, onBody: kind.kOnBody, onEnd: kind.kOnMessageComplete };
        const isKnown = Object.values(numbers).every((number) => Number.isInteger(number) && typeof parser[number] === 'function')
            && typeof parser.onIncoming === 'function' && typeof parser.remove === 'function'
            && typeof server._emitCloseIfDrained === 'function' && Number.isInteger(server._connections);
        const found = { parser: { [numbers.onHead]: parser[numbers.onHead] }, numbers };
        probe.destroy();
        if (!isKnown) throw unknown();
        return found;
    }

    function unknown() {
        return new Error(`this version of Node.js (${process.version}) is not known`);
    }

    // Tells by which number the parser names a method. They are found out as far as they are asked for: each costs a request that goes nowhere.
    function methodsOf(parser, onHead) {
        const numbers = new Map();
        let next = 0;
        return (method) => {
            let number = numbers.get(method);
            while (number === undefined && next < MOST_METHODS) {
                let name;
                const own = { socket: null, maxHeaderPairs: 0, onIncoming: (request) => { name = request.method; } };
                parser[onHead].call(own, 1, 1, [], next, '/', undefined, undefined, false, true);
                if (name === undefined || name === null) {
                    next = MOST_METHODS;
                } else {
                    numbers.set(name, next);
                    next += 1;
                    number = numbers.get(method);
                }
            }
            return number;
        };
    }
};
