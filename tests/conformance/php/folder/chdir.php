<?php chdir(".."); echo getcwd();
