<?php
require TUTTI_RESIDENT . '/resident.php';
Tutti\Resident\front_controller(__DIR__ . '/../yii/web/index.php');
