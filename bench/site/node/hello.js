const http = require('node:http');

const body = 'Hello, world!\n';
const headers = { 'content-type': 'text/plain', 'content-length': Buffer.byteLength(body) };
http.createServer((request, response) => {
    response.writeHead(200, headers);
    response.end(body);
}).listen({ port: process.env.PORT, host: process.env.HOST, backlog: 4096 });
