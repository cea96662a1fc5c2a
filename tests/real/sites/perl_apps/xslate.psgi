# A page by Text::Xslate, as in the published comparison of PSGI servers; also what bench measures (P18).
use strict;
use warnings;
use FindBin;
use Text::Xslate;

my $xslate = Text::Xslate->new(path => ["$FindBin::Bin/xslate_templates"], cache_dir => $ENV{XSLATE_CACHE} // "/tmp/xslate-$<", cache => 1, syntax => 'TTerse');
my @people = map { { name => "Person <$_>", mail => "person$_\@example.org" } } 1 .. 20;

sub {
    my $env = shift;
    my $page = $xslate->render('page.tx', { title => 'People & places', path => $env->{PATH_INFO}, people => \@people });
    utf8::encode($page);
    return [200, ['Content-Type' => 'text/html; charset=utf-8', 'Content-Length' => length $page], [$page]];
};
