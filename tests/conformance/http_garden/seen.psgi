# Tells which request an application is given.
use strict;
use warnings;
use JSON::PP;

sub {
    my $env = shift;
    my $body = '';
    while ($env->{'psgi.input'}->read(my $part, 65536)) {
        $body .= $part;
    }
    my %seen = (stamp => $env->{HTTP_X_ROUTER} // '', method => $env->{REQUEST_METHOD}, target => $env->{REQUEST_URI}, body => $body);
    # In this order, as the others have it.
    my $json = JSON::PP->new->latin1->sort_by(sub {
        my %place = (stamp => 0, method => 1, target => 2, body => 3);
        $place{$JSON::PP::a} <=> $place{$JSON::PP::b};
    });
    [200, ['Content-Type', 'application/json'], [$json->ascii->encode(\%seen) . "\n"]];
}
