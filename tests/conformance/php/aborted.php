<?php
// Writes until it learns that the client has gone.
ignore_user_abort(isset($_GET['ignore']));
while (ob_get_level()) { ob_end_flush(); }
register_shutdown_function(function () { file_put_contents($_GET['file'], json_encode([connection_aborted(), connection_status(), $GLOBALS['i']])); });
for ($i = 0; $i < 1000 && !connection_aborted(); $i++) { echo str_repeat('x', 1000); flush(); }
