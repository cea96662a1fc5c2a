<?php echo "ocs";
