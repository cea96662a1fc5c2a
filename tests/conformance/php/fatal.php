<?php
trigger_error('careful', E_USER_WARNING);
undefined_function();
