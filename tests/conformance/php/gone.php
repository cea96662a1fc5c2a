<?php
// Writes until it learns that the client has gone, and reports what it learnt. Without `ignore` PHP ends it there.
ignore_user_abort(isset($_GET['ignore']));
while (ob_get_level()) { ob_end_flush(); }
$went_on = false;
register_shutdown_function(function () use (&$went_on) {
    file_put_contents($_GET['file'], json_encode(['aborted' => connection_aborted(), 'went_on' => $went_on]));
});
touch($_GET['file'] . '.started');
while (!connection_aborted()) { echo str_repeat('x', 1000); flush(); usleep(1000); }
$went_on = true;
