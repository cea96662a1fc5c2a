const Koa = require('koa');

const app = new Koa();
app.use(async (context) => {
    const [, first, id] = context.path.split('/');
    if (first === 'fails') throw new Error('koa fails');
    if (first === 'redirect') return context.redirect('/items/1');
    if (first !== 'items') {
        context.body = 'Hello from Koa';
    } else if (context.method === 'POST') {
        const chunks = [];
        for await (const chunk of context.req) chunks.push(chunk);
        context.status = 201;
        context.cookies.set('seen', '1', { httpOnly: false });
        context.body = JSON.parse(Buffer.concat(chunks));
    } else {
        context.body = { id, query: context.query, ip: context.ip, protocol: context.protocol };
    }
});
app.listen(3000);
