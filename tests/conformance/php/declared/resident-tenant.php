<?php
// The boot has one of the two already.
require __DIR__ . '/tenant-a.php';
require TUTTI_RESIDENT . '/resident.php';
Tutti\Resident\front_controller(__DIR__ . '/front.php');
