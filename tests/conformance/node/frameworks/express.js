const express = require('express');

const app = express();
app.use(express.json());
app.get('/', (request, response) => response.send('Hello from Express'));
app.get('/items/:id', (request, response) => response.json({ id: request.params.id, query: request.query, ip: request.ip, protocol: request.protocol }));
app.post('/items', (request, response) => response.status(201).cookie('seen', '1').json(request.body));
app.get('/redirect', (request, response) => response.redirect('/items/1'));
app.get('/fails', async () => { throw new Error('express fails'); });
app.listen(3000, () => console.log('Express listens'));
