# The application of the language contract (`tests/e2e/tests/contract.rs`) in Perl.
use strict;
use warnings;

my $loaded = $$;
our $grown;

sub hang {
    while (1) { select undef, undef, undef, 0.01 }
}

# The body as it comes.
sub echo_body {
    my $env = shift;
    return sub {
        my $writer = shift->([200, ['Content-Type' => 'application/octet-stream']]);
        if ($env->{HTTP_X_LINES}) {
            while (defined(my $line = readline $env->{'psgi.input'})) { $writer->write($line) }
            return $writer->close;
        }
        while (1) {
            my $count = $env->{'psgi.input'}->read(my $piece, 8192);
            if (!defined $count) {
                $env->{'psgi.errors'}->print("cut short: $!\n");
                last;
            }
            last if !$count;
            # The client may be seen to have gone here already.
            if (!eval { $writer->write($piece); 1 }) {
                $env->{'psgi.errors'}->print("cut short: $@");
                last;
            }
        }
        $writer->close;
    };
}

sub slow {
    return sub {
        my $writer = shift->([200, ['Content-Type' => 'text/plain']]);
        $writer->write("first\n");
        select undef, undef, undef, 0.005 until -e "$ENV{WORK}/go";
        $writer->write("second\n");
        $writer->close;
    };
}

sub endless {
    return sub {
        my $writer = shift->([200, []]);
        while (1) { $writer->write('x' x 65536) }
    };
}

sub text { return [200, ['Content-Type' => 'text/plain'], [@_]] }

my %pages = (
    '/' => sub { text($_[0]{REQUEST_METHOD} eq 'HEAD' ? () : "Hello from Perl\n") },
    '/body' => \&echo_body,
    '/head' => sub {
        my @head = ('Set-Cookie' => 'a=1', 'Set-Cookie' => 'b=2', 'X-Empty' => '', 'X-Back' => $_[0]{HTTP_X_LONG});
        [201, \@head, [$_[0]{HTTP_X_SEEN}]];
    },
    '/slow' => \&slow,
    '/endless' => \&endless,
    '/fails' => sub { die "asked to fail\n" },
    '/ends' => sub { kill 'KILL', $$ },
    '/hangs' => \&hang,
    '/grows' => sub {
        # Perl repeats a string when it compiles the script if the count is a constant.
        my $size = 200 << 20;
        $grown = 'x' x $size;
        select undef, undef, undef, 0.5;
        text('grown');
    },
    '/loaded' => sub { text("$loaded $$") },
);

sub { $pages{$_[0]{PATH_INFO}}->(@_) };
