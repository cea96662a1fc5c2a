'use strict';
// The tests of the package `ws`, unmodified, with a real server between their clients and their servers.
//
// This is an application of type `node`. Asked for `/run` (`?listed=3`: that of `disabled.txt`), it runs the tests in its process, by mocha. A test makes
// servers of `http`, which listen by themselves, and connects to them: the connection goes to the server of the tests instead (SERVER_PORT), and what comes of it to this
// application is given to the test's server. `tests/e2e/tests/node_ws.rs` starts it and looks at what came out; tests that cannot pass are listed with
// their reasons in `disabled.txt`.
const fs = require('fs');
const http = require('http');
const net = require('net');
const path = require('path');

const port = Number(process.env.SERVER_PORT);
const source = process.env.WS_SOURCE;
// Those that connect: the others take bytes apart.
const FILES = ['websocket.test.js', 'websocket-server.test.js', 'create-websocket-stream.test.js'];
// Their own is two seconds.
const PATIENCE = 60_000;
const PATIENCE_FOR_LISTED = 5_000;

// The servers of tests, by the ports that they have themselves; and those that clients meant, by the clients' ports.
const servers = new Map();
const meant = new Map();

const application = http.createServer((request, response) => {
    const server = meant.get(request.socket.remotePort);
    if (server !== undefined) server.emit('request', request, response);
    else if (request.url.startsWith('/run')) run(placeIn(request.url), response);
    else response.end('the suite is up\n');
});
application.on('upgrade', (request, socket, head) => {
    const server = meant.get(request.socket.remotePort);
    if (server !== undefined && server.listenerCount('upgrade') > 0) server.emit('upgrade', request, socket, head);
    else socket.destroy();
});
application.listen(port);

const listen = http.Server.prototype.listen;
http.Server.prototype.listen = function (...given) {
    let own;
    this.once('listening', () => {
        own = this.address();
        if (own !== null && typeof own === 'object') servers.set(own.port, this);
    });
    this.once('close', () => own && servers.delete(own.port));
    return listen.apply(this, given);
};

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...given) {
    const options = Array.isArray(given[0]) ? given[0][0] : given[0];
    const server = options !== null && typeof options === 'object' ? servers.get(Number(options.port)) : undefined;
    if (server === undefined) return connect.apply(this, given);
    Object.assign(options, { port, host: '127.0.0.1', hostname: undefined });
    let own;
    this.once('connect', () => {
        own = this.localPort;
        meant.set(own, server);
    });
    this.once('close', () => meant.get(own) === server && meant.delete(own));
    return connect.apply(this, given);
};

function placeIn(url) {
    return new URL(url, 'http://suite').searchParams.get('listed');
}

// Runs all but those that are listed as failing, or only the one with this place in the list, and answers with the outcome of each by its title. A listed
// one leaves servers and clients behind, whose end would be the next one's failure, or that of the process; and may have no end, which is 504.
function run(place, response) {
    // Tests name their certificates from there.
    process.chdir(source);
    const Mocha = require('mocha');
    const outcomes = {};
    const mocha = new Mocha({ timeout: place === null ? PATIENCE : PATIENCE_FOR_LISTED, reporter: class {} });
    if (place === null) mocha.grep(new RegExp(`^(${listed().join('|')})$`)).invert();
    else mocha.grep(new RegExp(`^${listed()[place]}$`));
    for (const file of FILES.map((name) => path.join(source, 'test', name))) {
        // Tests are made where their file is loaded, also for another run.
        delete require.cache[file];
        mocha.addFile(file);
    }
    const runner = mocha.run(() => response.writableEnded || response.end(JSON.stringify(outcomes)));
    if (place !== null) setTimeout(() => response.writableEnded || response.writeHead(504).end(), 3 * PATIENCE_FOR_LISTED).unref();
    const title = (test) => [`test/${path.basename(test.file)}`, ...test.titlePath()].join(' > ');
    const note = (test, outcome) => {
        outcomes[title(test)] ??= outcome;
        if (process.env.VERBOSE) console.error(`${outcome}: ${title(test)}`);
    };
    runner.on('pass', (test) => note(test, 'passed'));
    runner.on('pending', (test) => note(test, 'skipped'));
    runner.on('fail', (test, error) => note(test, String((error && error.stack) || error)));
}

// The titles in `disabled.txt` as Mocha joins them, as regular expressions.
function listed() {
    const lines = fs.readFileSync(path.join(__dirname, 'disabled.txt'), 'utf8').split('\n');
    const titles = lines.map((line) => line.replace(/^either /, '')).filter((line) => line.startsWith('test/'));
    return titles.map((title) => title.split(' > ').slice(1).join(' ').replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
}
