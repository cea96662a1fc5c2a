<?php
// The end of the process, by a signal or by a fault of PHP's own.
if (isset($_GET['signal'])) { posix_kill(getmypid(), (int) $_GET['signal']); }
// PHP takes a deep array apart by calling itself: the stack ends.
ini_set('memory_limit', '-1');
$deep = [];
for ($i = 0; $i < 300000; $i++) { $deep = [$deep]; }
unset($deep);
echo 'alive';
