package Shop;
use strict;
use warnings;

sub item {
    my ($number) = @_;
    my $doubled = $number * 2;
    return "item $number, $doubled\n";
}

sub never {
    return 'not called';
}

1;
