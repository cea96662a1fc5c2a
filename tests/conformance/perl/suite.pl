#!/usr/bin/perl
# The client side of Plack::Test::Suite against a server that serves suite.psgi: `suite.pl PORT`.
use strict;
use warnings;
use Plack::LWPish;
use Plack::Test::Suite;
use Test::More;

my $port = shift // die "usage: suite.pl PORT\n";
my $agent = Plack::LWPish->new(no_proxy => ['127.0.0.1']);

# As run_server_tests() does it, which would start the server itself.
for my $number (0 .. $#Plack::Test::Suite::TEST) {
    my ($name, $client) = @{ $Plack::Test::Suite::TEST[$number] };
    subtest $name => sub {
        $client->(sub {
            my $request = shift;
            $request->uri->port($port);
            $request->header('X-Plack-Test' => $number);
            return $agent->request($request);
        });
    };
}
done_testing;
