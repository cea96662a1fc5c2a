// Tells what a handler sees of a request, as the applications beside it do in their languages.
require('node:http').createServer((request, response) => {
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ uri: request.url, fields: request.headers }));
}).listen(0);
