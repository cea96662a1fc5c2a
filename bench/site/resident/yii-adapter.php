<?php
require TUTTI_RESIDENT . '/resident.php';
require __DIR__ . '/../yii/vendor/autoload.php';
require __DIR__ . '/../yii/vendor/yii/Yii.php';
defined('YII_DEBUG') or define('YII_DEBUG', false);
defined('YII_ENV') or define('YII_ENV', 'prod');

Tutti\Resident\yii(require __DIR__ . '/../yii/config/web.php', __DIR__ . '/../yii/web/index.php', keep: ['db']);
