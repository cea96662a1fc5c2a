import Fastify from 'fastify';

const fastify = Fastify({ logger: true });
fastify.get('/', async () => 'Hello from Fastify');
fastify.get('/items/:id', async (request) => ({ id: request.params.id, query: request.query, ip: request.ip, protocol: request.protocol }));
fastify.post('/items', async (request, reply) => {
    reply.code(201).header('set-cookie', 'seen=1');
    return request.body;
});
fastify.get('/redirect', (request, reply) => reply.redirect('/items/1'));
fastify.get('/fails', async () => { throw new Error('fastify fails'); });
console.log(await fastify.listen({ port: 3000, host: '0.0.0.0' }));
