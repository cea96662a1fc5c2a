import { serve } from '@hono/node-server';
import { getConnInfo } from '@hono/node-server/conninfo';
import { Hono } from 'hono';
import { setCookie } from 'hono/cookie';

const app = new Hono();
app.get('/', (context) => context.text('Hello from Hono'));
app.get('/items/:id', (context) => {
    const { address } = getConnInfo(context).remote;
    const { protocol } = new URL(context.req.url);
    return context.json({ id: context.req.param('id'), query: context.req.query(), ip: address, protocol: protocol.slice(0, -1) });
});
app.post('/items', async (context) => {
    setCookie(context, 'seen', '1');
    return context.json(await context.req.json(), 201);
});
app.get('/redirect', (context) => context.redirect('/items/1'));
app.get('/fails', () => { throw new Error('hono fails'); });
serve({ fetch: app.fetch, port: 3000 });
