<?php
require TUTTI_RESIDENT . '/resident.php';
Tutti\Resident\front_controller(__DIR__ . '/public/index.php');
