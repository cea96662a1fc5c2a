# frozen_string_literal: true

# The application of the language contract (`tests/e2e/tests/contract.rs`) in Ruby.
require 'digest/sha1'

LOADED = Process.pid

module Kernel
  def text(body)
    [200, { 'content-type' => 'text/plain' }, [body]]
  end

  def hang
    loop { sleep 0.01 }
  end
end

# The body as it comes.
class Body
  def initialize(env)
    @env = env
  end

  def each
    input = @env['rack.input']
    while (piece = @env['HTTP_X_LINES'] ? input.gets : input.readpartial(8192))
      yield piece
    end
  rescue EOFError
    nil
  rescue StandardError => e
    @env['rack.errors'].puts("cut short: #{e.message}")
    raise
  end
end

class Slow
  def each
    yield "first\n"
    sleep 0.005 until File.exist?("#{ENV['WORK']}/go")
    yield "second\n"
  end
end

class Endless
  def each
    loop { yield 'x' * 65_536 }
  end
end

# One short text after the other, by hand.
def talk(env)
  accept = Digest::SHA1.base64digest("#{env['HTTP_SEC_WEBSOCKET_KEY']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
  connection = env['rack.hijack'].call
  connection.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: #{accept}\r\n\r\n")
  Thread.new do
    while (kind, length = connection.read(2)&.bytes)
      mask = connection.read(4).bytes
      said = connection.read(length & 127).bytes.each_with_index.map { |byte, at| byte ^ mask[at % 4] }.pack('C*')
      answer = kind == 0x88 ? said : "heard: #{said}"
      connection.write([kind, answer.bytesize].pack('CC') + answer)
      break if kind == 0x88
    end
    connection.close
  end
  [-1, {}, []]
end

PAGES = {
  '/' => ->(_) { text("Hello from Ruby\n") },
  '/body' => ->(env) { [200, {}, Body.new(env)] },
  '/head' => lambda { |env|
    [201, { 'set-cookie' => %w[a=1 b=2], 'x-empty' => '', 'x-back' => env['HTTP_X_LONG'] }, [env['HTTP_X_SEEN']]]
  },
  '/hints' => lambda { |env|
    env['rack.early_hints']&.call('link' => '</a.css>; rel=preload; as=style')
    [200, {}, ['whole']]
  },
  '/slow' => ->(_) { [200, {}, Slow.new] },
  '/endless' => ->(_) { [200, {}, Endless.new] },
  '/fails' => ->(_) { raise 'asked to fail' },
  '/ends' => ->(_) { Process.kill(:KILL, Process.pid) },
  '/hangs' => ->(_) { hang },
  '/grows' => lambda { |_|
    $grown = 'x' * (200 << 20)
    sleep 0.5
    text('grown')
  },
  '/loaded' => ->(_) { text("#{LOADED} #{Process.pid}") },
  '/talk' => ->(env) { talk(env) }
}.freeze

run(->(env) { PAGES.fetch(env['PATH_INFO']).call(env) })
