# The promises of the interface beyond Plack's own suite: each path is one question, answered by its sub below.
package Questions;
use strict;
use warnings;
use IO::File;
use IO::Handle;

my $work = $ENV{WORK} // '/nonexistent';
my $loaded_by = $$;
my $first_number = rand;
our $kept;
my $served = 0;

sub text { [200, ['Content-Type' => 'text/plain'], [@_]] }

sub note {
    my ($name, $text) = @_;
    open my $file, '>>', "$work/$name" or die "$work/$name: $!";
    print {$file} "$text\n";
    close $file;
}

sub json {
    my $value = shift;
    if (ref $value eq 'HASH') { return '{' . join(',', map { json($_) . ':' . json($value->{$_}) } sort keys %$value) . '}' }
    if (ref $value eq 'ARRAY') { return '[' . join(',', map { json($_) } @$value) . ']' }
    return 'null' unless defined $value;
    my $text = ref $value ? ref $value : "$value";
    $text =~ s/([\\"\x00-\x1f\x7f-\xff])/sprintf '\\u%04x', ord $1/ge;
    return "\"$text\"";
}

package Lines { sub new { my $class = shift; bless [@_], $class } sub getline { my $self = shift; my $line = shift @$self; ref $line ? $line->() : $line } sub close { Questions::note('closed', 'lines'); } }
package Own { our @ISA = 'IO::File'; sub getline { my $self = shift; my $line = $self->SUPER::getline; defined $line ? uc $line : undef } }
package Tied { sub TIEHANDLE { bless [1 .. 3], shift } sub READLINE { my $self = shift; my $n = shift @$self; defined $n ? "tied $n\n" : undef } sub CLOSE { Questions::note('closed', 'tied') } }
package Textual { use overload '""' => sub { $_[0][0] }, 'bool' => sub { 0 }, fallback => 1; sub new { bless [$_[1]], $_[0] } }
package Guard { sub new { bless [$_[1]], $_[0] } sub DESTROY { Questions::note('destroyed', $_[0][0]) } }

my %answers = (
    env => sub { text(json($_[0])) },
    program => sub { text(join ' ', $^X, `$^X -e 'print \$]'` eq $] ? 'the same version' : 'another version') },
    count => sub { text(join ' ', ++$served, $$, $loaded_by, $first_number, rand) },

    # The body of the request.
    input => sub {
        my $input = $_[0]{'psgi.input'};
        my @found;
        $input->read(my $some, 4);
        push @found, $some;
        push @found, tell $input;
        read $input, $some, 3, 4;
        push @found, $some;
        push @found, scalar <$input>;
        push @found, $input->getline;
        push @found, eof($input) ? 'end' : 'more';
        seek $input, 2, 0;
        push @found, scalar readline $input;
        $input->seek(-3, 2);
        { local $/; push @found, <$input> }
        push @found, $input->eof ? 'end' : 'more';
        push @found, $input->read($some, 10);
        seek $input, 0, 0;
        push @found, $input->getc, ord getc $input;
        $input->ungetc(65);
        push @found, $input->read($some, 2), $some;
        text(json(\@found));
    },
    # The body by a descriptor of its own, from where the handle is: as a copy of the handle, by number, and as standard input of a program.
    copied => sub {
        my $input = $_[0]{'psgi.input'};
        read $input, my $first, 2;
        open my $copy, '<&', $input or return text("copying: $!");
        open my $number, '<&=', fileno $input or return text("by number: $!");
        local $/;
        my $rest = <$copy>;
        my $size = -s $input;
        my $by_number = <$number>;
        seek $input, 0, 0;
        open my $saved, '<&', \*STDIN or return text("saving: $!");
        open STDIN, '<&', $input or return text("as standard input: $!");
        my $sum = `cksum`;
        open STDIN, '<&', $saved or return text("restoring: $!");
        seek $input, 0, 0;
        text(json([$first, unpack('%32C*', $rest), length $rest, length $by_number, $size, (split ' ', $sum)[1], length(scalar <$input> // '')]));
    },
    lines => sub {
        my $input = $_[0]{'psgi.input'};
        my @lengths = map length, <$input>;
        text(json(\@lengths));
    },
    sum => sub {
        my $input = $_[0]{'psgi.input'};
        my ($sum, $length) = (0, 0);
        for my $round (1, 2) {
            while (my $count = $input->read(my $piece, 50_000)) { $sum += unpack '%32C*', $piece; $length += $count }
            seek $input, 0, 0;
        }
        seek $input, 123_456, 0;
        read $input, my $middle, 10;
        text("$length $sum $middle");
    },
    close_input => sub { close $_[0]{'psgi.input'}; binmode $_[0]{'psgi.errors'}, ':utf8'; close $_[0]{'psgi.errors'}; text('closed') },
    crlf_input => sub { binmode $_[0]{'psgi.input'}, ':crlf'; $_[0]{'psgi.input'}->read(my $all, 100); text(length $all) },
    keep => sub { $kept = $_[0]; text('kept') },
    kept => sub {
        my $input = $kept->{'psgi.input'};
        seek $input, 0, 0;
        my $count = $input->read(my $all, 1_000_000);
        text($kept == $_[0] ? 'the same' : 'another', ' ', $kept->{QUERY_STRING}, ' ', $count // 'nothing');
    },
    iterate => sub { my $count = keys %{ $_[0] }; while (my ($key) = each %{ $_[0] }) { last } text($count) },
    errors => sub {
        my $errors = $_[0]{'psgi.errors'};
        $errors->print("in two ", "pieces\n");
        print {$errors} "first line\nsecond line\n";
        $errors->printf("without an end: %d", 42);
        text('logged');
    },
    # The same by a descriptor: as a copy of the handle, by number, and as standard error of a program.
    errors_by_number => sub {
        my $errors = $_[0]{'psgi.errors'};
        my $is_terminal = -t $errors;
        open my $copy, '>&', $errors or return text("copying: $!");
        print {$copy} "by a copy\n";
        close $copy or return text("closing: $!");
        open my $number, '>&=', fileno $errors or return text("by number: $!");
        print {$number} "by a number\n";
        close $number;
        { local *STDERR = $errors; system 'echo by a program >&2'; }
        open STDERR, '>&', $errors or return text("as standard error: $!");
        print STDERR "by STDERR\n";
        print {$errors} "by itself\n";
        text(join ' ', fileno $errors, !$is_terminal == !-t STDERR ? 'as STDERR' : 'another');
    },

    # Bodies.
    pieces => sub { text('one ', '', 'two ', undef, 3) },
    empty => sub { [204, ['X-Empty' => 'yes'], []] },
    overloaded => sub { [200, ['X-Object' => Textual->new('a field')], [Textual->new('a body')]] },
    latin => sub { my $text = "caf\xe9"; utf8::upgrade($text); text($text) },
    wide => sub { text("\x{263a}") },
    wide_field => sub { [200, ['X-Wide' => "\x{263a}"], ['never']] },
    file => sub { open my $file, '<', $0 or die; [200, [], $file] },
    file_rest => sub { open my $file, '<', $0 or die; my $line = <$file>; [200, [], $file] },
    file_object => sub { [200, [], IO::File->new($0, 'r')] },
    file_own => sub { my $file = Own->new($0, 'r'); [200, [], $file] },
    file_crlf => sub { open my $file, '<:crlf', "$work/crlf" or die; [200, [], $file] },
    file_large => sub { open my $file, '<', "$work/large" or die; [200, ['Content-Type' => 'application/octet-stream'], $file] },
    memory => sub { open my $file, '<', \"in memory\nand more\n" or die; [200, [], $file] },
    pipe => sub { open my $file, '-|', 'printf', 'from a %s', 'process' or die $!; [200, [], $file] },
    tied => sub { tie *TIED, 'Tied'; [200, [], \*TIED] },
    object => sub { [200, [], Lines->new('a', '', 'b', sub { ref $/ eq 'SCALAR' ? ${ $/ } : 'lines' })] },
    object_dies => sub { [200, [], Lines->new(sub { die "at the first line\n" })] },
    object_dies_later => sub { [200, [], Lines->new('begun', sub { die "at the second line\n" })] },
    object_wide => sub { [200, [], Lines->new("\x{263a}")] },
    guarded => sub { text(Guard->new('never seen') ? 'guarded' : '') },

    # Delayed and streaming.
    delayed => sub { sub { $_[0]->([200, ['X-Delayed' => 1], ['delayed']]) } },
    stream => sub { sub { my $writer = $_[0]->([200, []]); $writer->write("piece $_\n") for 1 .. 3; $writer->close; $writer->close } },
    stream_open => sub { sub { $_[0]->([200, []])->write('never closed') } },
    stream_dies => sub { sub { my $writer = $_[0]->([200, []]); $writer->write('begun'); die "in the middle\n" } },
    stream_twice => sub { sub { $_[0]->([200, [], ['once']]); eval { $_[0]->([200, [], ['twice']]) }; note('twice', $@) } },
    stream_late => sub { sub { my $writer = $_[0]->([200, []]); $writer->close; eval { $writer->write('more') }; note('late', $@) } },
    stream_never => sub { sub { return } },
    stream_keep => sub { sub { $kept = shift; $kept->([200, [], ['kept']]) } },
    stream_kept => sub { eval { $kept->([200, [], ['of an old request']]) }; text($@) },
    stream_slow => sub {
        my $env = shift;
        sub {
            my $writer = $_[0]->([200, []]);
            $writer->write("first\n");
            select undef, undef, undef, 0.01 until -e "$work/go";
            $writer->write("second\n");
            $writer->close;
        };
    },
    stream_endless => sub { sub { my $writer = $_[0]->([200, []]); $SIG{__DIE__} = sub { note('gone', $_[0]) }; $writer->write('x' x 10_000) while 1 } },

    # The failures.
    die => sub { die "the application dies\n" },
    die_object => sub { die Textual->new('a false object dies') },
    die_text => sub { eval { die "caught\n" }; die "in ", "pieces" },
    nothing => sub { return },
    string => sub { 'a string' },
    short => sub { [200, []] },
    odd => sub { [200, ['X-One'], ['never']] },
    status => sub { ["what?", [], ['never']] },
    early => sub { [103, [], ['never']] },
    bad_field => sub { [200, ["X-Bad" => "a\nb", 'X-Good' => 'yes'], ['sent']] },
    framing => sub { [200, ['Transfer-Encoding' => 'chunked', 'Connection' => 'close', 'Content-Type' => 'text/plain'], ['not chunked']] },
    body_string => sub { [200, [], 'a string'] },
    exit => sub { exit 3 },
    exit_late => sub { sub { my $writer = $_[0]->([200, []]); $writer->write('all of it'); $writer->close; exit 0 } },
    fork => sub {
        my $pid = fork // die;
        if (!$pid) { note('child', 'exits'); exit 0 }
        waitpid $pid, 0;
        text("parent, child ended with $?");
    },
    fork_returns => sub {
        my $pid = fork // die;
        if ($pid) { waitpid $pid, 0; return text("parent of $pid") }
        text('child');
    },
    fork_dies => sub {
        my $pid = fork // die;
        if ($pid) { waitpid $pid, 0; return text('parent') }
        die "the child dies\n";
    },
    command => sub { my $output = `echo from a command`; text($output, $? >> 8, ' ', system('sh', '-c', 'exit 7') >> 8) },
    signal => sub {
        my $answer = 'nothing';
        local $SIG{ALRM} = sub { die "alarm\n" };
        alarm 1;
        eval { 1 while 1 };
        text($@);
    },
    kill => sub { kill KILL => $$; sleep 10 },
    loop => sub { note('looping', $$); inner(1) },
    harakiri => sub { $_[0]{'psgix.harakiri.commit'} = 1; text($$) },
    cleanup => sub {
        my $env = shift;
        my $end = "$work/after";
        push @{ $env->{'psgix.cleanup.handlers'} },
            sub { select undef, undef, undef, 0.01 until -e $end; note('cleaned', "first $_[0]{QUERY_STRING}"); push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { note('cleaned', 'added') } },
            sub { die "a handler dies\n" }, sub { note('cleaned', 'third') };
        text('answered');
    },
);

sub inner { outer(@_) }
sub outer { 1 while $_[0] }

sub {
    my $env = shift;
    my ($name) = $env->{PATH_INFO} =~ m{(\w+)$};
    my $answer = $answers{ $name // '' } or return [404, ['Content-Type' => 'text/plain'], ["no such question\n"]];
    return $answer->($env);
};
