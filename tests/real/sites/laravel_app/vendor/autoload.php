<?php
// Debian's packages stand in for Composer's; like Composer's loader it is made once, however often this file is asked for.
require_once __DIR__ . '/autoload_real.php';

return ApplicationLoader::get();
