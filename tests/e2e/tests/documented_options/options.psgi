# Returns what the configuration made of this process; `/hold` answers when there is a file `go`.
use strict;
use warnings;
use Cwd;
use Encode;
use JSON::PP;

sub {
    my $env = shift;
    my $work = $ENV{WORK};
    if ($env->{PATH_INFO} eq '/hold') {
        open my $file, '>', "$work/at-$$" or die "$work: $!";
        close $file;
        select undef, undef, undef, 0.01 until -e "$work/go";
    }
    local $| = 1;
    print STDOUT "to stdout\n";
    print STDERR "to stderr\n";
    opendir my $root, '/' or die "/: $!";
    my %told = (pid => $$, uid => $>, gid => (split ' ', $))[0] + 0, folder => getcwd(), colour => decode('UTF-8', $ENV{COLOUR}), home => $ENV{HOME},
        root => [grep { !/^\.\.?$/ } readdir $root]);
    return [200, ['Content-Type' => 'application/json'], [encode_json(\%told)]];
};
