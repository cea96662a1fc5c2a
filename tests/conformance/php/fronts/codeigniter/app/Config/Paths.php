<?php

namespace Config;

class Paths
{
    public string $systemDirectory = __DIR__ . '/../../system';
    public string $appDirectory = __DIR__ . '/..';
}
