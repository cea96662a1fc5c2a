<?php echo lcg_value(), " ", mt_rand();
