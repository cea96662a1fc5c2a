<?php
// Compiled only when it is first asked for: then $_ENV and $_REQUEST come to be used.
$late = true;
return ['request' => $_REQUEST, 'env' => isset($_ENV), 'server' => $_SERVER['REQUEST_URI']];
