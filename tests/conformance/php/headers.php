<?php
// One response head in each of the ways a script may make it.
switch ($_GET['case'] ?? '') {
    case 'order':
        header('X-One: 1'); header('X-Two: 2'); header('X-One: 3', false); header('X-Three:3'); header('Content-Type: text/plain');
        break;
    case 'replace':
        header('X-One: 1'); header('x-one: 2');
        break;
    case 'remove':
        header('X-One: 1'); header_remove('X-One'); header_remove('X-Powered-By');
        break;
    case 'line': header('HTTP/1.1 404 Not Here'); break;
    case 'code': http_response_code(418); break;
    case 'third': header('X-A: b', true, 202); break;
    case 'status': header('Status: 404 Not Found'); header('X-After: 1'); break;
    case 'status-line': header('HTTP/1.1 410 Gone'); header('Status: 404'); break;
    case 'location': header('Location: /elsewhere'); exit;
    case 'location-201': http_response_code(201); header('Location: /made'); exit;
    case 'cookies': setcookie('a', '1'); setcookie('b', '2', ['httponly' => true]); break;
    case 'length': header('Content-Length: 5'); echo 'hello'; exit;
    case 'late':
        ini_set('output_buffering', '0');
        while (ob_get_level()) { ob_end_clean(); }
        echo 'x'; flush(); header('X-Late: 1'); echo headers_sent() ? 'sent' : 'not sent';
        exit;
    case 'callback': header_register_callback(function () { header('X-Callback: 1'); }); break;
    case 'no-type': ini_set('default_mimetype', ''); break;
    case 'interim': header('HTTP/1.1 100 Continue'); break;
    case 'nonsense': http_response_code(99999); break;
    case 'many': for ($i = 0; $i < 200; $i++) { header("X-$i: $i"); } break;
    case 'response': header('X-One:  1'); echo json_encode(apache_response_headers()); exit;
    case 'empty': exit;
    case 'no-content': http_response_code(204); exit;
    case 'unsound': header('X Bad: 1'); header('X-Good: 1'); break;
    case 'split': @header("X-A: b\r\nX-B: c"); break;
}
echo 'body';
