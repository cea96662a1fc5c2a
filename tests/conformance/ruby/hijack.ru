# frozen_string_literal: true

# Connections that an application takes over (`rack.hijack`): a WebSocket by hand, and HTTP by hand.
require 'digest/sha1'

WORK = ENV.fetch('WORK', '/nonexistent')
# Rack's own streams and others hold what they took over in threads or event loops of their own.
$held = []

module Kernel
  def note(name, text)
    File.open(File.join(WORK, name), 'a') { |file| file.puts text }
  end

  def wait_for(name)
    sleep 0.01 until File.exist?(File.join(WORK, name))
  end
end

# Frames, as a server has them (RFC 6455).
class Frames
  GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

  def self.head(env)
    key = Digest::SHA1.base64digest(env['HTTP_SEC_WEBSOCKET_KEY'] + GUID)
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: #{key}\r\nX-Accepted: 1\r\n\r\n"
  end

  def initialize(connection)
    @connection = connection
  end

  def read
    first, second = @connection.read(2)&.unpack('CC')
    return unless second
    raise 'a client masks its frames' if (second & 0x80).zero?

    length = case second & 0x7f
             when 126 then @connection.read(2).unpack1('n')
             when 127 then @connection.read(8).unpack1('Q>')
             else second & 0x7f
             end
    mask = @connection.read(4).bytes
    payload = length.zero? ? String.new : @connection.read(length)
    return [first & 0x0f, payload] if mask.all?(&:zero?)

    [first & 0x0f, payload.bytes.each_with_index.map { |byte, at| byte ^ mask[at % 4] }.pack('C*')]
  end

  def write(opcode, payload)
    head = [0x80 | opcode].pack('C')
    head << case payload.bytesize
            when 0..125 then [payload.bytesize].pack('C')
            when 126..0xffff then [126, payload.bytesize].pack('Cn')
            else [127, payload.bytesize].pack('CQ>')
            end
    @connection.write(head, payload)
  end

  # Sends back what comes, until the client closes.
  def echo
    while (opcode, payload = read)
      case payload
      when 'stop' then return write(8, [4001].pack('n') + 'as asked')
      when 'vanish' then return
      when 'ping' then write(9, 'are you there')
      else write(opcode == 10 ? 1 : opcode, payload)
      end
      return note('closed', payload.unpack1('n').to_s) if opcode == 8
    end
    note('closed', 'no more')
  end
end

def in_a_thread(connection)
  $held << Thread.new do
    Frames.new(connection).echo
  rescue SystemCallError, IOError => e
    note('failed', e.class.name)
  ensure
    connection.close
  end
end

PATHS = {
  # Full: the answer is written by hand, whatever is returned counts for nothing.
  '/talk' => lambda { |env|
    connection = env['rack.hijack'].call
    connection.write(Frames.head(env))
    in_a_thread(connection)
    [-1, {}, []]
  },
  # The handshake is accepted later.
  '/talk_later' => lambda { |env|
    connection = env['rack.hijack'].call
    note('taken', 'over')
    $held << Thread.new do
      wait_for('go')
      connection.write(Frames.head(env))
      in_a_thread(connection)
    end
  },
  # Partial: with the head of Rack.
  '/partial' => lambda { |_|
    [101, { 'x-accepted' => '1', 'rack.hijack' => method(:in_a_thread) }, []]
  },
  # Rack 3.1: the body is called.
  '/protocol' => lambda { |env|
    protocol = env['rack.protocol']&.first
    [101, { 'rack.protocol' => protocol, 'x-accepted' => '1' }, method(:in_a_thread)]
  },
  '/refused' => ->(_) { [401, { 'x-why' => 'because' }, ['no']] },
  '/offers' => lambda { |env|
    note('offers', env.values_at('HTTP_SEC_WEBSOCKET_EXTENSIONS', 'HTTP_UPGRADE', 'rack.protocol').inspect)
    [404, {}, []]
  },
  '/by_hand' => lambda { |env|
    env['rack.hijack'].call
    connection = env['rack.hijack_io']
    body = env['QUERY_STRING']
    connection.write("HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: #{body.bytesize}\r\n\r\n", body)
    connection.close
  },
  '/chunks' => lambda { |env|
    connection = env['rack.hijack'].call
    connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none \r\n")
    $held << Thread.new do
      wait_for('go')
      connection.write("3\r\ntwo\r\n0\r\n\r\n")
      connection.close
    end
    nil
  },
  '/broken_off' => lambda { |env|
    connection = env['rack.hijack'].call
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    $held << Thread.new do
      wait_for('go')
      connection.close
    end
  },
  '/silent' => lambda { |env|
    env['rack.hijack'].call.close
  },
  '/no_http' => lambda { |env|
    connection = env['rack.hijack'].call
    connection.write("Hello\r\n\r\n")
    connection.close
  },
  '/waits' => lambda { |env|
    connection = env['rack.hijack'].call
    connection.write("HTTP/1.1 200 OK\r\n\r\nbegun")
    $held << Thread.new { note('gone', connection.read.inspect) }
  },
  '/late' => lambda { |env|
    [200, {}, [Enumerator.new { |to| to << 'begun ' }.map { |text| text + env['rack.hijack?'].to_s }.first]]
  },
  '/after_start' => lambda { |env|
    body = Object.new
    body.define_singleton_method(:each) do |&block|
      block.call('begun ')
      begin
        env['rack.hijack'].call
      rescue IOError => e
        block.call(e.message)
      end
    end
    [200, {}, body]
  },
  '/raises' => lambda { |env|
    connection = env['rack.hijack'].call
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
    raise 'after the connection was taken over'
  }
}.freeze

run lambda { |env|
  path = PATHS[env['PATH_INFO']]
  path ? path.call(env) : [200, {}, ['hello']]
}
