<?php
// Stays until a file is there, and says that it waits.
touch($_GET['file'] . '.waiting');
do { clearstatcache(); usleep(1000); } while (!file_exists($_GET['file']));
echo 'released';
