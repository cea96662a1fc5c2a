<?php

namespace app\controllers;

use Yii;
use yii\web\Application;

class Site
{
    public function index(Application $app): array
    {
        $seen = [$app->get('request')->name(), Yii::$app === $app, $app->params, Yii::$aliases['@app'] === dirname(__DIR__),
            Yii::$container->has('left'), YII_ENV];
        // The next request must not find these.
        $app->params['left'] = $seen[0];
        Yii::$container->setSingleton('left', $this);

        return $seen;
    }

    public function aliases(Application $app): array
    {
        $isThere = isset(Yii::$aliases['@left']);
        Yii::setAlias('@left', '/left');

        return [$isThere];
    }

    public function connection(Application $app): array
    {
        $connection = $app->get('db');
        $wasOpen = $connection->getTransaction() !== null;
        $connection->beginTransaction();

        return [$connection->number, $wasOpen];
    }

    public function exit(Application $app): array
    {
        $app->get('response')->data = ['ended', $app->get('request')->name()];
        $app->end();
    }

    public function fails(Application $app): array
    {
        throw new \RuntimeException('on purpose: ' . $app->get('request')->name());
    }
}
