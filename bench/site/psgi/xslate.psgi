# The page of the published comparison of PSGI servers in kind: one template, a list, a few kilobytes.
use strict;
use warnings;
use FindBin;
use Text::Xslate;

my $xslate = Text::Xslate->new(path => ["$FindBin::Bin/templates"], cache_dir => "/tmp/tutti-bench-xslate-$<", syntax => 'TTerse');
my @people = map { { name => "Person <$_>", mail => "person$_\@example.org" } } 1 .. 50;

sub {
    my $page = $xslate->render('page.tx', { title => 'People & places', path => $_[0]{PATH_INFO}, people => \@people });
    utf8::encode($page);
    return [200, ['Content-Type' => 'text/html; charset=utf-8', 'Content-Length' => length $page], [$page]];
};
