<?php
// Tells what a directive is and whether the script may change it.
$name = $_GET['name'];
echo json_encode(['before' => ini_get($name), 'set' => ini_set($name, $_GET['value'] ?? ''), 'after' => ini_get($name), 'file' => php_ini_loaded_file(), 'scanned' => php_ini_scanned_files()]);
