<?php

return [
    'yii\Container' => __DIR__ . '/Container.php',
    'yii\log\Logger' => __DIR__ . '/log/Logger.php',
    'yii\web\Application' => __DIR__ . '/web/Application.php',
    'yii\web\Connection' => __DIR__ . '/web/Connection.php',
    'yii\web\Request' => __DIR__ . '/web/Request.php',
    'yii\web\Response' => __DIR__ . '/web/Response.php',
];
