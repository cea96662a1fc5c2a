<?php
// A kernel of Symfony's components, with routes that show what could go from one request to the next.
require_once '/usr/share/php/Symfony/Component/HttpKernel/autoload.php';
require_once '/usr/share/php/Symfony/Component/Routing/autoload.php';

use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\HttpFoundation\{JsonResponse, Request, RequestStack, Response, StreamedResponse};
use Symfony\Component\HttpKernel\Controller\{ArgumentResolver, ControllerResolver};
use Symfony\Component\HttpKernel\EventListener\RouterListener;
use Symfony\Component\HttpKernel\HttpKernel;
use Symfony\Component\Routing\{Matcher\UrlMatcher, RequestContext, Route, RouteCollection};

$routes = new RouteCollection();
$add = fn (string $name, string $path, callable $answer) => $routes->add($name, new Route($path, ['_controller' => $answer]));
$stack = new RequestStack();
$add('home', '/', fn () => new Response('<h1>Symfony is up</h1>'));
$add('hello', '/hello/{name}', fn (Request $request, string $name) => new JsonResponse(['hello' => $name, 'query' => $request->query->all()]));
$add('echo', '/echo', fn (Request $request) => new JsonResponse(['sent' => json_decode($request->getContent(), true), 'method' => $request->getMethod()], 201));
$add('stream', '/stream', fn () => new StreamedResponse(function () { foreach (['a', 'b', 'c'] as $part) { echo $part; flush(); } }));
$add('upload', '/upload', fn (Request $request) => new JsonResponse(['bytes' => $request->files->get('file')?->getSize()]));
$add('stacked', '/stacked', fn () => new JsonResponse(['main' => $stack->getMainRequest()->getPathInfo(), 'parent' => $stack->getParentRequest()]));
$add('fails', '/fails', fn () => throw new RuntimeException('on purpose'));

$dispatcher = new EventDispatcher();
$dispatcher->addSubscriber(new RouterListener(new UrlMatcher($routes, new RequestContext()), $stack));

return new HttpKernel($dispatcher, new ControllerResolver(), $stack, new ArgumentResolver());
