<?php

return [
    'required' => 'The :attribute is needed.', 'min' => ['string' => 'The :attribute needs :min characters.'], 'mimes' => 'The :attribute is no :values.',
    'email' => 'The :attribute is no address.',
];
