my $body = "Hello, world!\n";
sub { [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $body], [$body]] };
