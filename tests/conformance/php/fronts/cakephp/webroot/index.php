<?php

require dirname(__DIR__) . '/vendor/autoload.php';

use Shape\Application;
use Shape\Server;

$server = new Server(new Application(dirname(__DIR__) . '/config'));

$server->emit($server->run());
