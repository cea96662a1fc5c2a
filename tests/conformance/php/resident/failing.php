<?php
// The ways a boot can fail.
switch (getenv('HOW')) {
    case 'return': return;
    case 'exit': exit('leaving');
    case 'throw': throw new RuntimeException('the database is away');
    case 'fatal': undefined_function();
    case 'parse': include __DIR__ . '/broken.inc';
    case 'argument': tutti_handle_request('no such function');
    case 'second':
        // Boots once and never again.
        $mark = getenv('MARK');
        if (file_exists($mark)) { throw new RuntimeException('once is enough'); }
        touch($mark);
}
while (tutti_handle_request(function () { if (isset($_GET['reset'])) { opcache_reset(); } echo 'served'; }));
