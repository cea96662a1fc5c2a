# frozen_string_literal: true

# An application in which processes die, hang and grow.
$requests = 0

PATHS = {
  '/' => ->(_) { "hello from #{Process.pid}" },
  '/sometimes' => lambda { |_|
    Process.abort if (($requests += 1) % 40).zero?
    "hello from #{Process.pid}"
  },
  '/spin' => ->(_) { spin },
  '/grow' => lambda { |_|
    $grown = Array.new(100) { 'x' * (1 << 20) }
    "hello from #{Process.pid}"
  },
  '/stack' => ->(_) { ENV.key?('RUBY_THREAD_MACHINE_STACK_SIZE').to_s }
}.freeze

module Kernel
  def spin
    loop { $requests += 1 }
  end
end

# More than any client takes.
class Endless
  def each
    loop { yield 'x' * 65_536 }
  end
end

run lambda { |env|
  body = env['PATH_INFO'] == '/endless' ? Endless.new : [PATHS.fetch(env['PATH_INFO']).call(env)]
  [200, { 'content-type' => 'text/plain' }, body]
}
