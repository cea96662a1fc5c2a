<?php
// Streams: each part is followed by a wait for a file of its number, so that a client can show that it has it.
while (ob_get_level()) { ob_end_flush(); }
for ($i = 0; $i < 3; $i++) {
    echo "step $i\n";
    flush();
    do { clearstatcache(); usleep(1000); } while (!file_exists("{$_GET['folder']}/step$i"));
}
