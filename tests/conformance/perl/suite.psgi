# The applications of Plack::Test::Suite, chosen by the field X-Plack-Test, under Plack's own checker of the interface.
use strict;
use warnings;
use Plack::Middleware::Lint;
use Plack::Test::Suite;

Plack::Middleware::Lint->wrap(Plack::Test::Suite->test_app_handler);
