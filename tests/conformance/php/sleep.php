<?php
usleep((int) $_GET['ms'] * 1000);
echo 'slept';
