<?php
function work() {
    if ($_SERVER['QUERY_STRING'] === 'loop') {
        $n = 0;
        while (true) { $n++; }
    }
    while (true) {
        sleep(60);
    }
}

// Called from here.

work();
