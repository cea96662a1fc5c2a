<?php
// The ways a script can end.
register_shutdown_function(function () { if (isset($_GET['shutdown'])) { echo 'shutdown'; } });
switch ($_GET['how']) {
    case 'exit': echo 'before'; exit;
    case 'exit-message': exit('message');
    case 'return': echo 'returned'; return;
    case 'fatal': undefined_function();
    case 'exception': throw new RuntimeException('no handler catches me');
    case 'exception-late': while (ob_get_level()) { ob_end_flush(); } echo 'sent'; flush(); throw new RuntimeException('too late');
    case 'memory': ini_set('memory_limit', '8M'); $all = []; while (true) { $all[] = str_repeat('x', 100000); }
    case 'time': set_time_limit(1); while (true) { }
    case 'take-signal': pcntl_signal(SIGPROF, SIG_IGN); break;
    case 'unlimited': set_time_limit(0); // and on
    case 'busy':
        $used = function () { $u = getrusage(); return ($u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec']) * 1000 + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1000; };
        $until = $used() + (int) $_GET['ms'];
        while ($used() < $until) { for ($i = 0; $i < 10000; $i++) { } }
        echo 'busy';
        break;
    case 'die-in-shutdown': register_shutdown_function(function () { exit('dead'); }); break;
    case 'fatal-in-shutdown': register_shutdown_function(function () { undefined_function(); }); echo 'ok'; break;
    case 'output-callback-throws': ob_start(function () { throw new Exception('in callback'); }); echo 'x'; break;
    case 'destructor': class Loud { function __destruct() { echo 'destroyed'; } } $GLOBALS['loud'] = new Loud; break;
    case 'stack': function deeper($n) { return deeper($n + 1) + 1; } ini_set('memory_limit', '32M'); deeper(0);
    case 'crash': posix_kill(getmypid(), 9);
    case 'hard': set_time_limit(1); hash_pbkdf2('sha512', 'a', 'b', 1000000000); break; // one call, which looks at no interrupt
    case 'parse': eval('this is not PHP');
}
