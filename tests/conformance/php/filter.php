<?php
// Input as ext/filter keeps it.
echo json_encode(['server' => $_SERVER['HTTP_X_TEXT'], 'input' => filter_input(INPUT_SERVER, 'HTTP_X_TEXT', FILTER_UNSAFE_RAW),
    'has' => filter_has_var(INPUT_SERVER, 'REQUEST_URI'), 'array' => filter_input_array(INPUT_SERVER)['REQUEST_METHOD']]);
