'use strict';
// As Node.js's own guide to `cluster` has it.
const cluster = require('node:cluster');
const http = require('node:http');
const { availableParallelism } = require('node:os');

if (cluster.isPrimary) {
    for (let i = 0; i < availableParallelism(); i++) cluster.fork();
    cluster.on('exit', (worker) => console.log(`worker ${worker.process.pid} died`));
} else {
    http.createServer((request, response) => response.end(`worker ${cluster.worker.id}`)).listen(8000);
    console.log(`Worker ${process.pid} started`);
}
