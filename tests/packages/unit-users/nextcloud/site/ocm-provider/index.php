<?php echo "ocm";
