<?php
// How long, in milliseconds.
usleep(1000 * (int) ($_GET['ms'] ?? 500));
echo "slept\n";
