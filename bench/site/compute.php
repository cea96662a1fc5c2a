<?php
// Computes for 20 ms of this machine's time, whatever else runs.
$end = getrusage();
$end = $end['ru_utime.tv_sec'] * 1e6 + $end['ru_utime.tv_usec'] + 20000;
$hash = 'tutti';
do {
    for ($count = 0; $count < 1000; $count++) {
        $hash = md5($hash);
    }
    $used = getrusage();
} while ($used['ru_utime.tv_sec'] * 1e6 + $used['ru_utime.tv_usec'] < $end);
echo "computed\n";
