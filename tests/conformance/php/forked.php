<?php
echo 'before, ';
register_shutdown_function(function () { echo 'shutdown'; });
$child = pcntl_fork();
if ($child === 0) {
    echo 'child';
    flush();
    switch ($_GET['how']) {
        case 'exit': exit(3);
        case 'fatal': eval('class Twice {} class Twice {}');
    }
    return;
}
pcntl_waitpid($child, $status);
echo 'parent ', pcntl_wexitstatus($status), ', ';
