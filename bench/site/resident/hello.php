<?php
while (tutti_handle_request(function () { echo "Hello, world!\n"; }));
