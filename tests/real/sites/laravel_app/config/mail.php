<?php

return ['default' => 'log', 'mailers' => ['log' => ['transport' => 'log']]];
