# frozen_string_literal: true

# The promises of Rack and of the guide: each path is one question, answered by the method of its name below, under Rack::Lint. Those
# that Lint does not let through, or knows nothing of, are in `Raw`.
require 'json'
require 'digest'
# Rack 2.2's Lint takes it for loaded.
require 'uri'

WORK = ENV.fetch('WORK', '/nonexistent')
LOADED_BY = Process.pid
FIRST_NUMBER = rand
$kept = nil
$served = 0

module Kernel
  def note(name, text)
    File.open(File.join(WORK, name), 'a') { |file| file.puts text }
  end

  def wait_for(name)
    sleep 0.01 until File.exist?(File.join(WORK, name))
  end
end

# A body that tells when it is closed.
class Pieces
  def initialize(name, pieces)
    @name = name
    @pieces = pieces
  end

  def each
    @pieces.each { |piece| yield piece.respond_to?(:call) ? piece.call : piece }
  end

  def close
    note('closed', @name)
  end
end

# A body that is a file, which Rack's own Files answers with.
class FileBody
  attr_reader :to_path

  def initialize(path, text = nil)
    @to_path = path
    @text = text
  end

  def each
    yield @text || File.binread(@to_path)
  end

  def close
    note('closed', 'file')
  end
end

# Paths under Lint.
module Answers
  module_function

  def text(*pieces, status: 200, headers: {})
    [status, { 'content-type' => 'text/plain' }.merge(headers), pieces.map(&:to_s)]
  end

  def env(env)
    told = env.transform_values do |value|
      case value
      when String, Array, true, false, nil then value
      else value.class.name
      end
    end
    text(JSON.generate(told))
  end

  def keys(env)
    text(env.keys.all?(&:frozen?), ' ', env.keys.include?('SCRIPT_NAME'), ' ', env['HTTP_HOST'].frozen?)
  end

  def count(_)
    $served += 1
    text([$served, Process.pid, LOADED_BY, FIRST_NUMBER, rand].join(' '))
  end

  def hello(_)
    text('hello')
  end

  def release(_)
    text(Rack.release)
  end

  def empty(_)
    [204, {}, []]
  end

  def unchanged(_)
    [304, { 'etag' => '"1"' }, []]
  end

  def lines_of_a_header(_)
    # Rack 3 has arrays where Rack 2 has line ends.
    value = Rack.release < '3' ? "a=1\nb=2" : %w[a=1 b=2]
    text('lines', headers: { 'set-cookie' => value })
  end

  def lengths(env)
    found = []
    env['rack.input'].each { |line| found << line.bytesize }
    text(JSON.generate(found))
  end

  def form(env)
    request = Rack::Request.new(env)
    file = request.params['file']
    text("#{request.params['word']} #{file && file[:tempfile].read.bytesize}")
  end

  def keep(env)
    $kept = [env, env['rack.input']]
    text('kept')
  end

  def kept(env)
    env_before, input = $kept
    found = begin
      input.read.to_s
    rescue IOError => e
      e.message
    end
    text([env_before['QUERY_STRING'], found, env['rack.input'].read].join(' / '))
  end

  def errors(env)
    env['rack.errors'].puts("first line\nsecond line")
    env['rack.errors'].write("in two pieces\n")
    env['rack.errors'].flush
    warn 'from warn'
    text('logged')
  end

  def each_slow(_)
    [200, { 'content-type' => 'text/plain' }, Pieces.new('slow', ['first', -> { wait_for('go') && nil || 'second' }])]
  end

  def each_body(_)
    [200, { 'content-type' => 'text/plain' }, Pieces.new('each', %w[a b] + ['c' * 100_000])]
  end

  def each_fails(_)
    [200, { 'content-type' => 'text/plain' }, Pieces.new('fails', ['begun', -> { wait_for('go') || raise('in the middle') }])]
  end

  def endless(_)
    note('endless', Process.pid)
    pieces = Enumerator.new { |yielder| loop { yielder << 'x' * 10_000 } }
    [200, { 'content-type' => 'text/plain' }, Pieces.new('endless', pieces)]
  end

  def raises(_)
    raise ArgumentError, 'no such thing'
  end

  def cause(_)
    raise KeyError, 'inner'
  rescue KeyError
    raise ArgumentError, 'outer'
  end

  def throws(_)
    throw :nothing
  end

  def deep(env)
    deep(env) + [1]
  end

  def exits(_)
    exit 3
  end

  def exits_at_once(_)
    exit! 4
  end

  def ends_thread(_)
    Thread.current.kill
    text('never')
  end

  def aborts(_)
    Process.kill('ABRT', Process.pid)
    sleep
  end

  def forks(_)
    pid = fork { note('child', 'ends') }
    Process.wait(pid)
    text("child ended with #{$?.exitstatus}")
  end

  def fork_returns(_)
    pid = fork
    return text("child #{Process.pid}") unless pid

    Process.wait(pid)
    text("parent of a child that ended with #{$?.exitstatus}")
  end

  def command(_)
    text(`printf 'from a command'; exit 7`, $?.exitstatus)
  end

  def threads(env)
    text(env['rack.multithread'], ' ', Process.pid, ' ', Thread.current.object_id)
  end

  def meet(_)
    note("met.#{Thread.current.object_id}", 'here')
    sleep 0.01 until Dir.glob(File.join(WORK, 'met.*')).size >= 2
    text(Process.pid)
  end

  def in_a_thread(env)
    text(Thread.new { env['rack.input'].read }.value)
  end

  def loops(_)
    note('looping', Process.pid)
    outer
  end

  def outer
    inner
  end

  def inner
    sleep
  end

  def environment(_)
    text(JSON.generate(ENV.to_h.slice('RACK_ENV', 'HOOKS', 'EXAMPLE')), $0, ' ', Dir.pwd)
  end

  def hooks(_)
    text([$worker_booted, Thread.current[:booted]].join(' '))
  end

  def signal(_)
    note('trapping', 'now')
    trap('USR2') { note('trapped', Thread.current == Thread.main) }
    Process.kill('USR2', Process.pid)
    wait_for('trapped')
    text('trapped')
  end
end

# Paths without Lint.
module Raw
  module_function

  def text(*pieces, headers: {})
    [200, { 'content-type' => 'text/plain' }.merge(headers), pieces]
  end

  def array_of_values(_)
    text('lines', headers: { 'set-cookie' => ['a=1', 'b=2'], 'X-Number' => 7, 'rack.private' => 'never' })
  end

  def pieces(_)
    text('one ', 'two ', '3')
  end

  def pairs(_)
    [200, [['content-type', 'text/plain'], ['x-pair', 'yes']].each, ['pairs']]
  end

  # As Rack 2's Chunked and the streams of Rails do.
  def framed(_)
    pieces = ["5;x=y\r\nhel", "lo\r", "\n1", "\r\n!\r\n2\r\n\r\n\r\n", "0\r\nTrailer: x\r\n", "\r\n"]
    text(*pieces, headers: { 'Transfer-Encoding' => 'Chunked' })
  end

  def framed_wrongly(_)
    text('hello', "\n", headers: { 'transfer-encoding' => 'chunked' })
  end

  # Ruby moves its objects while the head is put together.
  def moved(_)
    count = 200
    fields = Enumerator.new do |head|
      count.times do |number|
        Array.new(500) { "between #{number}" }
        head.yield "x-field-#{number}", "value #{number}"
      end
      GC.start
      GC.compact
    end
    [200, fields, ['moved']]
  end

  def script_name(env)
    text("#{env['SCRIPT_NAME']} #{env['PATH_INFO']}")
  end

  def streamed(env)
    [200, { 'content-type' => 'text/plain' }, lambda { |stream|
      stream.write('first')
      wait_for('go')
      stream << 'second ' << stream.read.to_s
      stream.close
      note('late', begin
        stream.write('late')
      rescue IOError => e
        e.message
      end)
    }]
  end

  def streamed_by_thread(_)
    [200, { 'content-type' => 'text/plain' }, lambda { |stream|
      Thread.new do
        stream.write('from ')
        stream.write('a thread')
        stream.close
      end
    }]
  end

  def streamed_endless(_)
    [200, { 'content-type' => 'text/plain' }, lambda { |stream|
      begin
        loop { stream.write('x' * 10_000) }
      ensure
        note('gone', $!.class.name)
        stream.close
      end
    }]
  end

  def echo(_)
    [200, { 'content-type' => 'text/plain' }, lambda { |stream|
      while (line = stream.gets)
        stream.write("<#{line.chomp}>")
      end
      stream.close
    }]
  end

  def body(env)
    input = env['rack.input']
    found = [input.read(4), input.read(0), input.gets, input.gets]
    rest = []
    input.each { |line| rest << line }
    found << rest.join('|') << input.read << input.read(1).inspect << input.gets.inspect
    if input.respond_to?(:rewind)
      input.rewind
      buffer = +'old'
      found << input.read(3, buffer) << buffer
    end
    text(JSON.generate(found))
  end

  # The lines that end with the query.
  def ended(env)
    separator = env['QUERY_STRING']
    lines = []
    while (line = env['rack.input'].gets(separator))
      lines << line
    end
    text(JSON.generate(lines.map { |each| [each.bytesize, each.end_with?(separator)] }))
  end

  def digest(env)
    input = env['rack.input']
    first = Digest::SHA256.new
    while (piece = input.read(10_000))
      first << piece
    end
    return text(JSON.generate([first.hexdigest])) unless input.respond_to?(:rewind)

    input.rewind
    whole = input.read
    text(JSON.generate([first.hexdigest, Digest::SHA256.hexdigest(whole), whole.bytesize, whole.encoding.to_s]))
  end

  def finished(env)
    env['rack.response_finished'] << lambda { |same, status, headers, error|
      note('finished', "#{same.equal?(env)} #{status} #{headers && headers['content-type']} #{error.class}")
    }
    env['rack.response_finished'] << ->(*) { note('finished', 'last one first') }
    raise 'after all' if env['QUERY_STRING'] == 'raise'

    text('answered')
  end

  def ary(_)
    body = Object.new
    def body.to_ary = %w[all at once]
    def body.each = raise('never called')
    def body.close = note('closed', 'ary')
    [200, {}, body]
  end

  def file(_)
    [200, { 'content-type' => 'text/plain' }, FileBody.new(File.join(WORK, 'file'))]
  end

  def no_file(_)
    [200, { 'content-type' => 'text/plain' }, FileBody.new('/nonexistent/file', 'read all the same')]
  end

  def bad_name(_)
    text('x', headers: { 'bad name' => 'x' })
  end

  def bad_value(_)
    text('x', headers: { 'x-bad' => "a\rb" })
  end

  def bad_status(_)
    [99, {}, []]
  end

  def string_body(_)
    [200, {}, 'text']
  end

  def no_response(_)
    nil
  end

  def number_in_body(_)
    [200, {}, [1]]
  end
end

raw = lambda do |env|
  Raw.public_send(env['PATH_INFO'].delete_prefix('/'), env)
end

linted = lambda do |env|
  Answers.public_send(env['PATH_INFO'].split('/').last, env)
end

map('/raw') { run raw }
map('/') do
  use Rack::Lint
  run linted
end
