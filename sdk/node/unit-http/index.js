'use strict';
// `require('unit-http')` and `import ... from 'unit-http'`: Node.js's own `http`, whose first server that listens gets the requests. The
// server's host has seen to that before the script began (sdk/node/preload.js). Outside of the server it is `http` and nothing else.
const http = require('http');

if (process.env.TUTTI_WIRE !== undefined && !process[Symbol.for('tutti.node')]) {
    throw new Error('unit-http: the application\'s `executable` is not `node` itself, nor a script whose first line names it; '
        + 'use `"type": "node"` and `"script"`, or name `node` as the executable');
}

// One by one, so that an ES module can import each by its name.
exports.Agent = http.Agent;
exports.ClientRequest = http.ClientRequest;
exports.IncomingMessage = http.IncomingMessage;
exports.METHODS = http.METHODS;
exports.OutgoingMessage = http.OutgoingMessage;
exports.STATUS_CODES = http.STATUS_CODES;
exports.Server = http.Server;
exports.ServerRequest = http.IncomingMessage;
exports.ServerResponse = http.ServerResponse;
exports.createServer = http.createServer;
exports.get = http.get;
exports.globalAgent = http.globalAgent;
exports.maxHeaderSize = http.maxHeaderSize;
exports.request = http.request;
exports.validateHeaderName = http.validateHeaderName;
exports.validateHeaderValue = http.validateHeaderValue;
