<?php
// Ends the answer, then waits for a file before it tells that it went on.
echo 'answer';
fastcgi_finish_request();
do { clearstatcache(); usleep(1000); } while (!file_exists("{$_GET['folder']}/go"));
file_put_contents("{$_GET['folder']}/after.json", json_encode(['pid' => getmypid()]));
