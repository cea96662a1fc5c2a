<?php
// The front controller of the framework test: notes kept in the session, and what a server must tell PHP.
require '/usr/share/php/Slim/autoload.php';

session_save_path(getenv('SESSION_FOLDER'));
session_start();
$_SESSION['notes'] ??= [];

$app = new \Slim\App(['settings' => ['displayErrorDetails' => false]]);

$app->get('/', function ($request, $response) {
    return $response->write('<h1>Slim is up in ' . getenv('APP_MODE') . '</h1>');
});
$app->get('/hello/{name}', function ($request, $response, $arguments) {
    $greeting = $request->getQueryParam('greeting', 'Hello');
    return $response->write("$greeting, " . rawurldecode($arguments['name']));
});
$app->get('/notes', function ($request, $response) {
    return $response->withJson(array_values($_SESSION['notes']));
});
$app->post('/notes', function ($request, $response) {
    $_SESSION['notes'][] = $request->getParsedBody();
    $number = array_key_last($_SESSION['notes']);
    return $response->withJson($_SESSION['notes'][$number], 201)->withHeader('Location', "/notes/$number");
});
$app->map(['GET', 'PUT', 'DELETE'], '/notes/{number:[0-9]+}', function ($request, $response, $arguments) {
    $number = (int) $arguments['number'];
    if (!isset($_SESSION['notes'][$number])) {
        return $response->withStatus(404);
    }
    if ($request->isDelete()) {
        unset($_SESSION['notes'][$number]);
        return $response->withStatus(204);
    }
    if ($request->isPut()) {
        $_SESSION['notes'][$number] = $request->getParsedBody();
    }
    return $response->withJson($_SESSION['notes'][$number]);
});
$app->post('/length', function ($request, $response) {
    $length = strlen((string) $request->getBody());
    return $response->withJson(['bytes' => $length, 'type' => $request->getContentType()]);
});
$app->get('/server', function ($request, $response) {
    return $response->withJson(array_filter($_SERVER, 'is_scalar'));
});
$app->get('/fails', function () {
    throw new RuntimeException('on purpose');
});
$app->run();
