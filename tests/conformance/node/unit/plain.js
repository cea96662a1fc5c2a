'use strict';
// It knows nothing of Unit: `--require unit-http/loader` sees to that.
const http = require('http');

http.createServer((request, response) => response.end(`Hello from ${request.socket.remoteAddress}\n`)).listen(3000);
