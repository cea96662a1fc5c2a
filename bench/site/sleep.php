<?php
// Milliseconds to sleep.
usleep(1000 * (int) ($_GET['ms'] ?? 500));
echo "slept\n";
