<?php
// Waits for a second in the way that is asked for, and says what came of it and how long it took.
[$one, $other] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
$from = hrtime(true);
switch ($_GET['how']) {
    case 'sleep':
        $is_whole = sleep(1) === 0;
        break;
    case 'usleep':
        usleep(1000000);
        $is_whole = true;
        break;
    case 'nanosleep':
        $is_whole = time_nanosleep(1, 0) === true;
        break;
    case 'select':
        $read = [$one];
        $write = $except = null;
        $is_whole = stream_select($read, $write, $except, 1) === 0;
        break;
    case 'read':
        stream_set_timeout($one, 1);
        fread($one, 1);
        $is_whole = stream_get_meta_data($one)['timed_out'];
        break;
    case 'lock':
        $file = tempnam(sys_get_temp_dir(), 'lock');
        $holder = popen("flock $file sh -c 'echo held; sleep 1'", 'r');
        $is_whole = fgets($holder) === "held\n" && flock(fopen($file, 'r'), LOCK_EX);
        unlink($file);
        // It began before the holder said so.
        $from -= 1000000000;
        break;
}
echo $is_whole ? 'whole ' : 'broken ', intdiv(hrtime(true) - $from, 1000000);
