<?php
// A counter in a session.
session_save_path($_GET['path']);
session_start();
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
echo $_SESSION['count'];
