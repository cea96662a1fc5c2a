# Echoes the body while it comes, by lines or by pieces.
use strict;
use warnings;

sub {
    my $env = shift;
    die "the body has been buffered" if $env->{'psgix.input.buffered'} && $env->{REQUEST_METHOD} eq 'POST';
    return sub {
        my $writer = shift->([200, ['Content-Type' => 'application/octet-stream']]);
        my $body = $env->{'psgi.input'};
        if ($env->{PATH_INFO} eq '/lines') {
            while (defined(my $line = <$body>)) { $writer->write($line) }
        } else {
            while (1) {
                my $count = $body->read(my $piece, 8192);
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
        }
        $writer->close;
    };
};
