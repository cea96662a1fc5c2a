<?php

return [
    'default' => 'sqlite',
    'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => database_path('site.sqlite'), 'prefix' => '', 'foreign_key_constraints' => true]],
    'migrations' => 'migrations',
];
