use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Shop;

sub { [200, ['Content-Type' => 'text/plain'], [Shop::item($_[0]->{PATH_INFO} =~ /(\d+)/)]] };
