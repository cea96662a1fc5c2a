<?php
// The request body in each of its forms.
$input = file_get_contents('php://input');
$again = file_get_contents('php://input');
$files = [];
foreach ($_FILES as $name => $file) {
    $files[$name] = [
        'name' => $file['name'], 'type' => $file['type'], 'error' => $file['error'], 'size' => $file['size'],
        'md5' => is_string($file['tmp_name']) && is_uploaded_file($file['tmp_name']) ? md5_file($file['tmp_name']) : null,
    ];
}
echo json_encode(['length' => strlen($input), 'md5' => md5($input), 'same' => $input === $again, 'post' => $_POST, 'files' => $files]);
