<?php
// Whose process this is, and where.
fwrite(fopen('php://stdout', 'w'), "to stdout\n");
fwrite(fopen('php://stderr', 'w'), "to stderr\n");
echo json_encode(['pid' => getmypid(), 'uid' => posix_geteuid(), 'gid' => posix_getegid(), 'groups' => posix_getgroups(), 'cwd' => getcwd(),
    'server' => $_SERVER['COLOUR'] ?? null, 'getenv' => getenv('COLOUR'), 'home' => getenv('HOME'), 'user' => getenv('USER'), 'logname' => getenv('LOGNAME')]);
