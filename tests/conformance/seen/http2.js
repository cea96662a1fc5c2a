// Tells what a server that speaks HTTP/2 without TLS sees of a request.
require('node:http2').createServer((request, response) => {
    response.end(JSON.stringify({ uri: request.url, fields: request.headers }));
}).listen(Number(process.env.PORT), '127.0.0.1');
