<?php
// As Composer's: the loader is made once in a process, and given each time.
require_once __DIR__ . '/autoload_real.php';

return ComposerAutoloaderShape::getLoader();
