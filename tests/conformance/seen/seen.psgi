# Tells what an application sees of a request, as the ones beside it do in their languages.
use strict;
use warnings;
use JSON::PP;

sub {
    my $env = shift;
    my %fields = map { /^HTTP_(.*)/ ? (lc($1 =~ tr/_/-/r) => $env->{$_}) : () } keys %$env;
    my %seen = (
        uri => $env->{REQUEST_URI}, path => $env->{PATH_INFO}, query => $env->{QUERY_STRING}, name => $env->{SERVER_NAME},
        software => $env->{SERVER_SOFTWARE}, script => $env->{SCRIPT_NAME}, fields => \%fields,
    );
    [200, ['Content-Type', 'application/json'], [encode_json(\%seen)]];
}
