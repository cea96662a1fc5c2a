<?php

return [
    'id' => 'shape',
    'basePath' => dirname(__DIR__),
    'components' => [
        'request' => ['class' => 'yii\web\Request'],
        'response' => ['class' => 'yii\web\Response'],
        'db' => ['class' => 'yii\web\Connection'],
    ],
];
