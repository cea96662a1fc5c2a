<?php

defined('APP_NAMESPACE') || define('APP_NAMESPACE', 'App');
defined('EXIT_SUCCESS') || define('EXIT_SUCCESS', 0);
