'use strict';

require('node:http').createServer((request, response) => {
    response.writeEarlyHints({ link: '</a.css>; rel=preload; as=style' });
    response.setHeader('Trailer', 'X-Sum');
    response.write('whole');
    response.addTrailers({ 'X-Sum': '5' });
    response.end();
}).listen(process.env.PORT || 8080);
