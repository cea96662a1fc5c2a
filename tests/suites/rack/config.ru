# frozen_string_literal: true

# Rack's own tests, unmodified, with a real server between their requests and the applications.
#
# Asked for `/run`, this application runs the tests. `Rack::MockRequest` sends requests to the server, with a number in a field, by which the
# request's environment or application is found here again. A test that sends no request is no case.
require 'json'
require 'socket'
require 'net/http'
require 'stringio'
require 'minitest'
require 'minitest/spec'
require 'rack'

RACK = ENV.fetch('RACK')
# Debian's Ruby has all of Minitest but this file, which would run the tests at the end of the process.
$LOADED_FEATURES << File.join(RACK, 'test/minitest/global_expectations/autorun.rb')
$LOAD_PATH.unshift(File.join(RACK, 'test'))

# Requests on their way through the server.
module Bridge
  NUMBER = 'X-Test-Number'
  # These come from the server; everything else that a test gives is added to the environment.
  OURS = %w[CONTENT_LENGTH CONTENT_TYPE REQUEST_METHOD QUERY_STRING PATH_INFO].freeze
  # Less than the application has threads: a test that sends more has looked at the first ones.
  MOST_HELD = 20
  # Lets a test that waits for ever be found.
  PATIENCE = 20
  MUTEX = Mutex.new
  Waiting = Struct.new(:work, :error, keyword_init: true)

  @waiting = {}
  @held = []
  @count = 0

  class << self
    attr_reader :count

    # Serves a request of a test.
    def serve(env)
      number, has_host = env.delete('HTTP_X_TEST_NUMBER').split
      waiting = MUTEX.synchronize { @waiting.delete(number) }
      check(env)
      env.delete('HTTP_HOST') unless has_host
      waiting.work.call(env)
    rescue Exception => error # rubocop:disable Lint/RescueException
      waiting.error = error if waiting
      [500, { 'content-type' => 'text/plain' }, [error.message]]
    end

    # The environment has to be as Rack::Lint demands it; its input is read by the test alone.
    def check(env)
      Rack::Lint.new(->(_) { [204, {}, []] }).call(env.dup)
    end

    # Sends a request, whose environment the block gets in a thread of the server; returns the response.
    def send_request(method, uri, opts, &work)
      @count += 1
      waiting = Waiting.new(work: work)
      number = waiting.object_id.to_s
      MUTEX.synchronize { @waiting[number] = waiting }
      socket = TCPSocket.new('127.0.0.1', Integer(ENV.fetch('PORT')))
      socket.write(text(method, uri, opts, number))
      io = Net::BufferedIO.new(socket, read_timeout: PATIENCE)
      response = Net::HTTPResponse.read_new(io)
      response.reading_body(io, method != 'HEAD') { response.read_body }
      raise waiting.error if waiting.error
      raise "the server answers #{response.code} itself" if MUTEX.synchronize { @waiting.delete(number) }

      response
    ensure
      socket&.close
    end

    def text(method, uri, opts, number)
      body = input(opts)
      target = uri.path + (uri.query ? "?#{uri.query}" : '')
      host = uri.host || 'example.org'
      host += ":#{uri.port}" if uri.port && uri.port != uri.default_port
      fields = opts.select { |name, value| name.is_a?(String) && name.start_with?('HTTP_') && value }
      # Some tests encode credentials with a line end, which no field has.
      fields = fields.to_h { |name, value| [name.delete_prefix('HTTP_').tr('_', '-'), value.to_s.chomp] }
      fields = { 'HOST' => host }.merge(fields)
      fields['Content-Type'] = opts['CONTENT_TYPE'] if opts['CONTENT_TYPE']
      fields['Content-Length'] = body.bytesize if body
      # The mock request has no `Host` unless a test gives one.
      fields[NUMBER] = "#{number}#{' host' if opts['HTTP_HOST']}"
      fields['CONNECTION'] ||= 'close'
      lines = fields.map { |name, value| "#{name}: #{value}\r\n" }
      "#{method} #{target} #{opts[:http_version] || 'HTTP/1.1'}\r\n#{lines.join}\r\n".b + body.to_s.b
    end

    def input(opts)
      given = opts[:input]
      given.is_a?(String) ? given.b : given&.read&.b
    end

    # The environment of a request that stays open until the test is over.
    def environment(method, uri, opts)
      arrived = Queue.new
      done = Queue.new
      sender = Thread.new do
        send_request(method, uri, opts) do |env|
          arrived << env
          done.pop
          [204, {}, []]
        end
      rescue Exception => error # rubocop:disable Lint/RescueException
        arrived << error
      end
      env = arrived.pop
      raise env if env.is_a?(Exception)

      @held << [done, sender]
      finish(@held.shift) if @held.size > MOST_HELD
      env
    end

    def release
      finish(@held.shift) until @held.empty?
    end

    def finish((done, sender))
      done << true
      sender.join
    end

    # Takes from what the mock request has made of its options the request, and what is added to its environment.
    def prepared(made, uri, opts)
      uri = Rack::MockRequest.parse_uri_rfc2396(uri)
      uri.path = made['PATH_INFO'].start_with?('/') ? made['PATH_INFO'] : "/#{made['PATH_INFO']}"
      uri.query = made['QUERY_STRING'].empty? ? nil : made['QUERY_STRING']
      extra = opts.select { |name, _| name.is_a?(String) && !name.start_with?('HTTP_') && !OURS.include?(name) }
      extra['rack.errors'] = made['rack.errors']
      extra.merge!(made.slice('rack.url_scheme', 'HTTPS')) if made['rack.url_scheme'] != 'http'
      extra.merge!(made.slice('SERVER_NAME', 'SERVER_PORT')) unless opts['HTTP_HOST']
      extra['SCRIPT_NAME'] = opts[:script_name] if opts[:script_name]
      [made['REQUEST_METHOD'], uri, opts, extra]
    end
  end
end

require_relative "#{RACK}/lib/rack/mock_request"

module Rack
  class MockRequest
    class << self
      alias mock_env_for env_for

      def env_for(uri = '', opts = {})
        made = mock_env_for(uri, opts)
        # An input that is written while it is read is no body that a client has.
        return made unless [NilClass, String, StringIO, File].any? { |one| opts[:input].is_a?(one) }

        method, uri, opts, extra = Bridge.prepared(made, uri, opts)
        Bridge.environment(method, uri, opts).merge(extra)
      end
    end

    def request(method = GET, uri = '', opts = {})
      opts = opts.merge(method: method)
      method, uri, opts, extra = Bridge.prepared(self.class.mock_env_for(uri, opts), uri, opts)
      # One in another closes a body twice for a server that asks for `to_ary`.
      app = opts[:lint] && !@app.is_a?(Rack::Lint) ? Rack::Lint.new(@app) : @app
      own = nil
      response = Bridge.send_request(method, uri, opts) { |env| own = app.call(env.merge(extra)) }
      status, headers, = own
      raise "status #{response.code}, and not #{status}" if response.code.to_i != status.to_i

      # Takes the fields that the application has given as the client got them.
      sent = headers.to_h { |name, value| [name, value.is_a?(Array) ? value : (response.get_fields(name) || []).join("\n")] }
      MockResponse.new(status, Headers.new.merge(sent), [response.body.to_s], extra['rack.errors'])
    end
  end
end

# Keeps the result of each test that has sent a request.
class Results < Minitest::AbstractReporter
  attr_reader :told

  def initialize
    @told = []
    @count = 0
    super
  end

  def record(result)
    sent = Bridge.count - @count
    @count = Bridge.count
    return unless sent.positive?

    error = result.failure
    text = error && (error.respond_to?(:error) ? "#{error.error.class}: #{error.error.message}" : error.message)
    file = File.basename(result.source_location.first, '.rb')
    @told << { name: "#{file}/#{result.name.sub(/\Atest_\d+_/, '')}", error: text, skipped: result.skipped? }
  end
end

# Ends the requests of each test.
module Ended
  def after_teardown
    super
  ensure
    Bridge.release
  end
end

def run_tests
  Minitest::Test.prepend(Ended)
  # Minitest's warnings of the style of each expectation would fill the log.
  $VERBOSE = nil
  # The other files are about the mock request itself, and about what Rack::Lint finds in environments that are wrong.
  left_out = %w[spec_mock_request.rb spec_mock_response.rb spec_lint.rb]
  Dir[File.join(RACK, 'test/spec_*.rb')].sort.each { |file| require file unless file.end_with?(*left_out) }
  results = Results.new
  reporter = Minitest::CompositeReporter.new(results)
  srand(1)
  reporter.start
  Minitest.__run(reporter, {})
  results.told
end

run(lambda do |env|
  next Bridge.serve(env) if env['HTTP_X_TEST_NUMBER']

  told = begin
    run_tests
  rescue Exception => error # rubocop:disable Lint/RescueException
    { error: error.full_message(highlight: false) }
  end
  [200, { 'content-type' => 'application/json' }, [JSON.generate(told)]]
end)
