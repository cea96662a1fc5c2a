# frozen_string_literal: true

body = "Hello, world!\n"
headers = { 'content-type' => 'text/plain', 'content-length' => body.bytesize.to_s }
run ->(_env) { [200, headers.dup, [body]] }
