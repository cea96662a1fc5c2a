'use strict';
// The tests of the package `ws`, unmodified, with a real server between their clients and their servers.
//
// This is an application of type `node`. Asked for `/run`, it runs the tests in its process, by mocha. A test makes servers of `http`, which listen
// by themselves, and connects to them: the connection goes to the server of the tests instead (SERVER_PORT), and what comes of it to this
// application is given to the test's server. `tests/e2e/tests/node_ws.rs` starts it and looks at what came out; tests that cannot pass are listed with
// their reasons in `disabled.txt`.
const http = require('http');
const net = require('net');
const path = require('path');

const port = Number(process.env.SERVER_PORT);
const source = process.env.WS_SOURCE;
// Those that connect: the others take bytes apart.
const FILES = ['websocket.test.js', 'websocket-server.test.js', 'create-websocket-stream.test.js'];
// Their own is two seconds.
const PATIENCE = 60_000;

// The servers of tests, by the ports that they have themselves; and those that clients meant, by the clients' ports.
const servers = new Map();
const meant = new Map();

const application = http.createServer((request, response) => {
    const server = meant.get(request.socket.remotePort);
    if (server !== undefined) server.emit('request', request, response);
    else if (request.url.startsWith('/run')) run((outcomes) => response.end(JSON.stringify(outcomes)));
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

function run(done) {
    const Mocha = require('mocha');
    const outcomes = {};
    const mocha = new Mocha({ timeout: PATIENCE, reporter: class {} });
    for (const file of FILES) mocha.addFile(path.join(source, 'test', file));
    const runner = mocha.run(() => done(outcomes));
    const title = (test) => [`test/${path.basename(test.file)}`, ...test.titlePath()].join(' > ');
    runner.on('test', (test) => process.env.VERBOSE && console.error(`test ${title(test)}`));
    runner.on('pass', (test) => { outcomes[title(test)] ??= 'passed'; });
    runner.on('pending', (test) => { outcomes[title(test)] ??= 'skipped'; });
    runner.on('fail', (test, error) => { outcomes[title(test)] = String((error && error.stack) || error); });
}
