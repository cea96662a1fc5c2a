#!/usr/bin/env node
'use strict';
// As the documentation of NGINX Unit has it.
const { createServer, IncomingMessage, ServerResponse } = require('unit-http');
require('http').ServerResponse = ServerResponse;
require('http').IncomingMessage = IncomingMessage;

createServer((request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' });
    response.end(`Hello, Node.js on Unit! ${request.socket.remoteAddress} ${process.argv.slice(2)}\n`);
}).listen();
