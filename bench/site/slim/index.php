<?php
// A light framework: one route of ten, JSON.
require_once '/usr/share/php/Slim/autoload.php';

$app = new \Slim\App(['settings' => ['displayErrorDetails' => false]]);
foreach (range(1, 9) as $number) {
    $app->get("/section$number/{name}", fn ($request, $response, $arguments) => $response->withJson($arguments));
}
$app->get('/[slim/index.php]', fn ($request, $response) => $response->withJson(['framework' => 'slim', 'query' => $request->getQueryParams()]));
$app->run();
