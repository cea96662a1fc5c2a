<?php
require TUTTI_RESIDENT . '/resident.php';
Tutti\Resident\lumen(__DIR__ . '/../lumen/bootstrap/app.php', __DIR__ . '/../lumen/index.php');
