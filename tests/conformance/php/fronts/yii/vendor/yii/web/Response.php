<?php

namespace yii\web;

class Response
{
    public array $data = [];

    public function send(): void
    {
        header('Content-Type: application/json');
        echo json_encode($this->data);
    }
}
