<?php
// Lines for the log.
error_log("a line of the script's own");
trigger_error('a warning', E_USER_WARNING);
file_put_contents('php://stderr', "straight to stderr\n");
echo 'logged';
