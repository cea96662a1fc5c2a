<?php
// Tells what the configuration made of this process; `/hold` answers when there is a file `go`.
$work = $_SERVER['WORK'];
if (str_starts_with($_SERVER['REQUEST_URI'], '/hold')) {
    touch("$work/at-" . getmypid());
    while (!file_exists("$work/go")) {
        usleep(10000);
        clearstatcache();
    }
}
fwrite(fopen('php://stdout', 'w'), "to stdout\n");
fwrite(fopen('php://stderr', 'w'), "to stderr\n");
echo json_encode(['pid' => getmypid(), 'uid' => posix_geteuid(), 'gid' => posix_getegid(), 'folder' => getcwd(), 'colour' => getenv('COLOUR'), 'home' => getenv('HOME'),
    'root' => array_values(array_diff(scandir('/'), ['.', '..']))]);
