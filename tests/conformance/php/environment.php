<?php
// The whole environment.
echo json_encode(getenv());
