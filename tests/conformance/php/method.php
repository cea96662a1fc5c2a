<?php
header('X-Method: ' . $_SERVER['REQUEST_METHOD']);
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['PHP_SELF'];
