<?php
// Debian has no Composer autoloader for all; like Composer's this file gives its loader, each time.
require_once '/usr/share/php/Symfony/Component/Runtime/autoload.php';

return new ArrayObject();
