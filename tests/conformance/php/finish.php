<?php
// Goes on when the client has its answer.
header('X-Finish: 1');
echo 'answer';
$first = fastcgi_finish_request();
echo 'this has no reader';
flush();
$second = fastcgi_finish_request();
file_put_contents($_GET['file'], json_encode([$first, $second, connection_status(), getenv('REQUEST_METHOD'), getallheaders()['X-Late'], $_SERVER['REQUEST_URI']]));
