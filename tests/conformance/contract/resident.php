<?php
require __DIR__ . '/app.php';

while (tutti_handle_request(answer(...)));
