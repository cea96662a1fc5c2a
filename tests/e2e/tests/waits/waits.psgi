# As index.php.
use strict;
use warnings;
use Fcntl ':flock';
use File::Temp;
use IO::Select;
use Socket;
use Time::HiRes 'clock_gettime', 'CLOCK_MONOTONIC';

my %ways = (
    sleep => sub { sleep(1) >= 1 },
    usleep => sub { Time::HiRes::usleep(1_000_000) >= 1_000_000 },
    select => sub { select(undef, undef, undef, 1) == 0 },
    read => sub {
        socketpair(my $one, my $other, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die $!;
        $! = 0;
        !IO::Select->new($one)->can_read(1) && !$!;
    },
    lock => sub {
        my $file = File::Temp->new;
        open my $holder, '-|', "flock $file sh -c 'echo held; sleep 1'" or die $!;
        <$holder> eq "held\n" && flock($file, LOCK_EX);
    },
);

sub {
    my ($how) = shift->{QUERY_STRING} =~ /how=(\w+)/;
    my $from = clock_gettime(CLOCK_MONOTONIC);
    my $is_whole = $ways{$how}->();
    my $took = int((clock_gettime(CLOCK_MONOTONIC) - $from + ($how eq 'lock')) * 1000);
    [200, ['Content-Type' => 'text/plain'], [($is_whole ? 'whole' : 'broken') . " $took"]];
};
