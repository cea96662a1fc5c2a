#!/usr/bin/perl
# The application of the language contract (`tests/e2e/tests/contract.rs`) as a CGI script.
use strict;
use warnings;

$| = 1;
binmode STDIN;
binmode STDOUT;
# The client has gone.
$SIG{TERM} = sub { print STDERR "cut short\n"; exit };

sub text { print "Content-Type: text/plain\r\n\r\n", @_ }

# The body as it comes.
sub echo_body {
    print "Content-Type: application/octet-stream\n\n";
    if ($ENV{HTTP_X_LINES}) {
        while (my $line = <STDIN>) { print $line }
        return;
    }
    while (sysread STDIN, my $piece, 8192) { print $piece }
}

my %pages = (
    '/' => sub { text("Hello from CGI\n") },
    '/body' => \&echo_body,
    '/head' => sub {
        print "Status: 201 Made\nSet-Cookie: a=1\nSet-Cookie: b=2\nX-Empty: \nX-Back: $ENV{HTTP_X_LONG}\n\n";
        print $ENV{HTTP_X_SEEN};
    },
    '/slow' => sub {
        text("first\n");
        select undef, undef, undef, 0.005 until -e "$ENV{WORK}/go";
        print "second\n";
    },
    '/endless' => sub {
        text();
        while (1) { print 'x' x 65536 }
    },
    '/fails' => sub { die "asked to fail\n" },
    '/hangs' => sub { while (1) { select undef, undef, undef, 0.01 } },
    '/grows' => sub {
        # Perl repeats a string when it compiles the script if the count is a constant.
        my $size = 200 << 20;
        my $grown = 'x' x $size;
        select undef, undef, undef, 0.5;
        text('grown');
    },
);

$pages{$ENV{PATH_INFO}}->();
