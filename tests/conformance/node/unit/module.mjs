import http, { createServer } from 'unit-http';

createServer((request, response) => response.end(`module ${http.createServer === createServer}\n`)).listen();
