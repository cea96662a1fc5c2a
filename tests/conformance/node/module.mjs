// An ES module whose imports are bound before anything listens.
import cluster, { isPrimary } from 'node:cluster';
import http, { createServer, Server } from 'node:http';

await new Promise((resolve) => setImmediate(resolve));
const server = createServer((request, response) => {
    const same = http.Server === Server && server instanceof Server;
    response.end(`module ${same} ${isPrimary} ${cluster.isWorker} ${request.socket.remoteAddress}`);
});
server.listen({ port: Number(process.env.PORT ?? 3000), host: 'localhost' });
