<?php
// The whole body back.
readfile('php://input');
