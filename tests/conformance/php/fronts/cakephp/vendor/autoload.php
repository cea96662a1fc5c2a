<?php
require_once __DIR__ . '/framework.php';
