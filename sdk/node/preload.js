'use strict';
// Runs in the application's process before its script (`node --require`): what the script listens on first becomes the socket that the
// server's worker relays requests to (sdk/relay). Everything else is Node.js's own: real IncomingMessage, real ServerResponse.
//
// The host puts a document into the environment variable TUTTI_NODE: `socket`, where to listen; `alive`, a socket that answers as long as
// the event loop turns; `failure`, the file that gets the reason why the script does not listen; `worker`, the number of the process;
// `options`, what the application's own NODE_OPTIONS was; `library`, which hides this process from others of its user, and by which it takes its requests from the server itself
// (channel.js) if there are `descriptors` and `variables`, which it needs for that. Without it this file does nothing: it is taken away before anything of the
// application runs, so no thread and no child of it has it.
//
// Must never happen: a client that says where it comes from; a request that arrives before its client is known.
const told = process.env.TUTTI_NODE;
if (told !== undefined) begin(JSON.parse(told));

function begin(told) {
    delete process.env.TUTTI_NODE;
    if (typeof told.options === 'string') process.env.NODE_OPTIONS = told.options;
    else delete process.env.NODE_OPTIONS;

    const fs = require('fs');
    const http = require('http');
    const net = require('net');
    const OLDEST = 18;
    // The first field of each request from the relay, which lets no client's field of this name through.
    const FIELD = 'Tutti-Client';
    // The member of a connection of ours that holds who its present client is.
    const client = Symbol('tutti.client');
    const listen = net.Server.prototype.listen;
    // The server that has the socket.
    let owner = null;
    let hasFailed = false;
    // A server has had its requests without a socket.
    let hasTaken = false;

    // The library, with this process's place in the server; null where all requests are relayed.
    function attached() {
        if (!told.library) return null;
        try {
            const loaded = { exports: {} };
            process.dlopen(loaded, told.library);
            if (!told.descriptors) return null;
            Object.assign(process.env, told.variables);
            loaded.exports.attach();
            return loaded.exports;
        } catch (error) {
            fs.writeSync(2, `tutti: requests come by a socket, which is slower: ${error.message}\n`);
        } finally {
            for (const name of Object.keys(told.variables || {})) delete process.env[name];
        }
        if (!told.descriptors) return null;
        for (const descriptor of told.descriptors) {
            try {
                fs.closeSync(descriptor);
            } catch {
                // Closed already.
            }
        }
        return null;
    }

    function fail(failure) {
        hasFailed = true;
        try {
            fs.writeFileSync(told.failure, JSON.stringify(failure));
        } catch {
            // The reason is on standard error too.
        }
    }

    const add = http.IncomingMessage.prototype._addHeaderLines;
    if (parseInt(process.versions.node, 10) < OLDEST || typeof add !== 'function') {
        fail({
            message: `Node.js ${process.version} is not supported`,
            hint: `install Node.js ${OLDEST} or later, and name it as \`runtime\` if it is not the first in PATH`,
            member: 'runtime',
        });
        process.exit(1);
    }

    const library = attached();
    // The listeners by which node:http itself takes a connection.
    const ownListeners = new http.Server().listeners('connection');

    // A failure before the script listens is the answer to the change of configuration that starts it.
    process.on('uncaughtExceptionMonitor', (error) => {
        if (owner === null) fail(reason(error));
    });
    process.on('exit', (code) => {
        if (owner === null && !hasFailed && code === 0) {
            fail({
                message: 'the script ended before it listened',
                hint: 'it must call `listen()` on a server of `http.createServer()`, and go on',
            });
        }
    });

    http.IncomingMessage.prototype._addHeaderLines = function _addHeaderLines(headers, count) {
        const socket = this.socket;
        if (headers && headers[0] === FIELD && socket && client in socket && !this.complete) {
            socket[client] = headers[1];
            headers.splice(0, 2);
            count = Math.min(count, headers.length);
        }
        return add.call(this, headers, count);
    };

    http.Server.prototype.listen = function (...given) {
        const wanted = owner === null ? asked(given) : null;
        return wanted === null ? listen.apply(this, given) : claim(this, wanted, given);
    };

    net.Server.prototype.listen = function (...given) {
        if (owner === null) fail(otherServer(this));
        return listen.apply(this, given);
    };

    // The failure of a script that listens with such a server, and with none of `http`.
    function otherServer(server) {
        const isSecure = typeof server.setSecureContext === 'function';
        const isHttp2 = /^Http2/.test(server.constructor.name);
        const call = isHttp2 ? (isSecure ? 'http2.createSecureServer' : 'http2.createServer') : isSecure ? 'https.createServer' : 'net.createServer';
        const cures = {
            'http2.createServer': 'the listener speaks HTTP/2 with clients, and HTTP/1 with the application',
            'http2.createSecureServer': 'TLS and HTTP/2 are the listener\'s (`"tls"`), which speaks HTTP/1 with the application',
            'https.createServer': 'TLS is the listener\'s (`"tls"`), and `request.socket.encrypted` is true',
            'net.createServer': 'requests go to the first server of `http` that listens; TLS and HTTP/2 are the listener\'s (`"tls"`)',
        };
        return {
            message: `it listens with another server than one of \`http\`, that of \`${call}()\`${caller()}`,
            hint: `use \`http.createServer()\`: ${cures[call]}`,
            member: 'script',
        };
    }

    // `, FILE:LINE` of the application's code that has called us, if it is known.
    function caller() {
        const lines = String(new Error().stack).split('\n').slice(1);
        const line = lines.find((line) => !line.includes(__filename) && !/[( ]node:/.test(line));
        const [, place] = /((?:file:\/\/)?\/[^()]*:\d+):\d+\)?$/.exec(line || '') || [];
        return place ? `, ${place}` : '';
    }

    // Tells once that `connect` never comes. Returns what takes the telling back.
    function tellOfConnect(server) {
        const look = (name) => {
            if (name !== 'connect') return;
            server.removeListener('newListener', look);
            fs.writeSync(2, `tutti: the application waits for \`connect\`${caller()}, which does not come: the server answers the method CONNECT with `
                + '405 (hint: a server that is a proxy listens for itself, as the second one of the process, or in a process of its own)\n');
        };
        if (server.listenerCount('connect') > 0) look('connect');
        else server.on('newListener', look);
        return () => server.removeListener('newListener', look);
    }

    // The reading of listen()'s arguments by Node.js itself; null where it will refuse them.
    function asked(given) {
        const first = given[0];
        if (first !== null && typeof first === 'object') {
            const isComplete = 'port' in first || first.path || first.fd >= 0 || first._handle || first.handle;
            return isComplete && isPort(first.port) ? first : null;
        }
        if (typeof first === 'string' && !(Number(first) >= 0)) return { path: first };
        if (first === undefined || first === null || typeof first === 'function') return {};
        if (!isPort(first)) return null;
        const backlog = given.slice(1, 3).find((value) => typeof value === 'number');
        return { port: first, host: typeof given[1] === 'string' ? given[1] : undefined, backlog };
    }

    function isPort(port) {
        if (port === undefined || port === null) return true;
        const isNumber = typeof port === 'number' || (typeof port === 'string' && port.trim() !== '');
        return isNumber && Number(port) >= 0 && Number(port) <= 65535 && Number.isInteger(Number(port));
    }

    function claim(server, wanted, given) {
        owner = server;
        if (hasFailed) {
            hasFailed = false;
            fs.rmSync(told.failure, { force: true });
        }
        const address = addressOf(wanted);
        // As the application asked for it: it prints this, and makes links of it.
        define(server, 'address', function () {
            return this.listening ? address : null;
        });
        // The relay closes what it does not use any more; if the server did, too, a request could meet the closing.
        Object.defineProperty(server, 'keepAliveTimeout', { configurable: true, get: () => 0, set: () => {} });
        const greet = (socket) => {
            socket[client] = null;
            Object.defineProperties(socket, CLIENT);
        };
        server.prependListener('connection', greet);
        const takeBack = tellOfConnect(server);
        const alive = net.createServer((socket) => {
            socket.on('error', () => {});
            socket.end('1');
        });
        server.once('close', () => {
            if (owner === server) owner = null;
            server.removeListener('connection', greet);
            takeBack();
            delete server.address;
            alive.close();
        });
        listen.call(alive, told.alive).unref();
        if (library !== null) takeRequests(server, greet);
        const last = given[given.length - 1];
        const options = { path: told.socket, signal: wanted.signal };
        if (wanted.backlog !== undefined) options.backlog = wanted.backlog;
        return listen.call(server, options, typeof last === 'function' ? last : undefined);
    }

    // Has the server get its requests without a socket, once the script has had its turn; for good relayed from when it wants what a socket has.
    function takeRequests(server, greet) {
        let taken = null;
        const isOurs = (listener) => listener === greet || ownListeners.includes(listener);
        const relay = () => {
            server.removeListener('newListener', look);
            server.removeListener('close', relay);
            (taken || library).relay();
        };
        const look = (name) => {
            if (name === 'upgrade' || name === 'connection') relay();
        };
        const begin = () => {
            const needsSocket = server.listenerCount('upgrade') > 0 || !server.listeners('connection').every(isOurs);
            if (needsSocket || hasTaken || !server.listening) {
                library.relay();
                return;
            }
            hasTaken = true;
            try {
                taken = require('./channel.js')(library, server, client);
            } catch (error) {
                fs.writeSync(2, `tutti: requests come by a socket, which is slower: ${error.message}\n`);
                library.relay();
                return;
            }
            server.on('newListener', look);
            server.once('close', relay);
        };
        server.once('listening', () => setImmediate(begin));
    }

    function addressOf(wanted) {
        if (wanted.path) return wanted.path;
        const host = wanted.host === 'localhost' ? '127.0.0.1' : wanted.host;
        const version = typeof host === 'string' ? net.isIP(host) : 0;
        return {
            address: version === 0 ? '::' : host,
            family: version === 4 ? 'IPv4' : 'IPv6',
            port: Number(wanted.port || 0),
        };
    }

    // `ADDRESS PORT ADDRESS PORT TLS`: the client's, the listener's, and 1 for TLS; `-` for the address of a UNIX socket.
    function parse(text) {
        const [remoteAddress, remotePort, localAddress, localPort, tls] = text.split(' ');
        return { remote: end(remoteAddress, remotePort), local: end(localAddress, localPort), isEncrypted: tls === '1' };
    }

    function end(address, port) {
        if (address === '-') return {};
        return { address, family: address.includes(':') ? 'IPv6' : 'IPv4', port: Number(port) };
    }

    // Parsed when somebody asks.
    function clientOf(socket) {
        if (typeof socket[client] === 'string') socket[client] = parse(socket[client]);
        return socket[client];
    }

    function known(read) {
        return {
            configurable: true,
            enumerable: true,
            get() {
                const present = clientOf(this);
                return present === null ? undefined : read(present);
            },
        };
    }

    const CLIENT = {
        remoteAddress: known((present) => present.remote.address),
        remoteFamily: known((present) => present.remote.family),
        remotePort: known((present) => present.remote.port),
        localAddress: known((present) => present.local.address),
        localFamily: known((present) => present.local.family),
        localPort: known((present) => present.local.port),
        // Absent from a connection without TLS, as in Node.js.
        encrypted: known((present) => present.isEncrypted || undefined),
        address: {
            configurable: true,
            writable: true,
            value() {
                const present = clientOf(this);
                return present === null ? {} : present.local;
            },
        },
    };

    function define(object, name, value) {
        Object.defineProperty(object, name, { configurable: true, writable: true, enumerable: false, value });
    }

    // The cause and its cure.
    function reason(error) {
        const isError = error !== null && typeof error === 'object';
        const failure = { message: String((isError && error.message) || error).split('\n')[0], member: 'script' };
        const code = isError ? error.code : undefined;
        if (code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND') {
            const [, name] = /^Cannot find (?:module|package) '([^']+)'/.exec(failure.message) || [];
            const isPackage = name !== undefined && !/^[./]/.test(name);
            if (isPackage) failure.hint = `run \`npm install\` in \`${packageFolder()}\``;
        } else if (error instanceof SyntaxError) {
            const [place] = /^\S.*:\d+$/m.exec(String(error.stack)) || [];
            failure.message = `SyntaxError: ${failure.message}${place ? `, ${place}` : ''}`;
            failure.hint = /import|export/.test(failure.message)
                ? 'an ES module is a file `.mjs`, or one below a package.json with `"type": "module"`'
                : '`node --check FILE` shows the place';
        } else if (code === 'EADDRINUSE') {
            failure.hint = 'every process of the application listens there; only the first server of `http` that listens needs no port of its own';
        }
        return failure;
    }

    // The nearest folder with a package.json.
    function packageFolder() {
        const path = require('path');
        const script = process.argv[1] ? path.dirname(path.resolve(process.argv[1])) : process.cwd();
        for (let folder = script; ; folder = path.dirname(folder)) {
            if (fs.existsSync(path.join(folder, 'package.json'))) return folder;
            if (folder === path.dirname(folder)) return script;
        }
    }

    // SIGTERM comes when the worker has no more requests. An application that does not deal with it just ends, as it would without us; but
    // its `exit` handlers run.
    process.on('SIGTERM', () => {
        if (process.listenerCount('SIGTERM') > 1) return;
        if (owner === null || !owner.listening) process.exit(0);
        owner.close(() => process.exit(0));
        if (owner !== null && owner.closeAllConnections) owner.closeAllConnections();
    });

    // SIGINT is how a script that does not come back is made to print where it stands (`--trace-sigint`). Node.js gives that up when somebody
    // listens for SIGINT, so it does not hear of that: the listeners are there, and the server never sends SIGINT for anything else.
    const emit = process.emit;
    define(process, 'emit', function (name, ...rest) {
        if (name === 'newListener' && rest[0] === 'SIGINT') return false;
        return emit.call(this, name, ...rest);
    });

    // `cluster` takes this process for one of its workers: the server has started the others.
    const cluster = require('cluster');
    const worker = new (require('events'))();
    Object.assign(worker, {
        id: told.worker + 1,
        process,
        exitedAfterDisconnect: undefined,
        send: () => false,
        isConnected: () => true,
        isDead: () => false,
        kill: (signal) => process.kill(process.pid, signal || 'SIGTERM'),
        disconnect: () => worker,
    });
    worker.destroy = worker.kill;
    Object.assign(cluster, { isMaster: false, isPrimary: false, isWorker: true, worker });
    cluster.fork = () => {
        throw new Error('cluster.fork(): the server starts the processes of this application, as many as its option `processes` says');
    };
    // A server of ours that listens for real does so by itself: there is no primary process to ask.
    // Not null: Node.js looks into what it is given where a port was asked for.
    cluster._getServer = (server, query, callback) => callback(0, false);
    const dgram = require('dgram');
    const bind = dgram.Socket.prototype.bind;
    dgram.Socket.prototype.bind = function (port, address, callback) {
        if (port !== null && typeof port === 'object') {
            const isHandle = typeof port.recvStart === 'function';
            return bind.call(this, isHandle ? port : { ...port, exclusive: true }, address, callback);
        }
        const options = { exclusive: true };
        if (typeof port === 'number' || typeof port === 'string') options.port = Number(port);
        if (typeof address === 'string') options.address = address;
        return bind.call(this, options, [port, address, callback].find((value) => typeof value === 'function'));
    };

    define(process, Symbol.for('tutti.node'), true);
    require('module').syncBuiltinESMExports();
}
