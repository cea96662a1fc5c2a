<?php
require_once __DIR__ . '/framework.php';

return Shape\Loader::get();
