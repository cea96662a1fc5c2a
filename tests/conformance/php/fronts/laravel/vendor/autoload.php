<?php
require_once __DIR__ . '/framework.php';
require_once __DIR__ . '/helpers.php';

return true;
