<?php
// A status, with or without a body.
http_response_code((int) $_GET['code']);
if (isset($_GET['etag'])) { header("ETag: \"{$_GET['etag']}\""); }
if (isset($_GET['location'])) { header("Location: {$_GET['location']}", true, (int) $_GET['code']); }
if (isset($_GET['body'])) { echo $_GET['body']; }
