<?php
// Holds a session's lock until a file is there.
session_save_path($_GET['path']);
session_start();
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 10;
touch("{$_GET['path']}/holding");
do { clearstatcache(); usleep(1000); } while (!file_exists("{$_GET['path']}/go"));
echo $_SESSION['count'];
