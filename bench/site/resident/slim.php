<?php
require TUTTI_RESIDENT . '/resident.php';
Tutti\Resident\slim(__DIR__ . '/../slim/index.php');
