# frozen_string_literal: true

# The part of the language host that is written in Ruby: nothing of it runs for a request that does not need it.
module Tutti
  HOOKS = %i[on_worker_boot on_worker_shutdown on_thread_boot on_thread_shutdown].freeze
  private_constant :HOOKS

  @hooks = nil
  # The blocks that the hooks' file gives, by the name of the hook.
  @blocks = {}

  class << self
    # Loads the application: its bundle, Rack, its hooks, its script.
    def load_application(script, hooks)
      $stdout.sync = $stderr.sync = true
      # Services have no locale as a rule; ruby would take files for ASCII then, `config.ru` too.
      Encoding.default_external = Encoding::UTF_8 if Encoding.default_external == Encoding::US_ASCII
      path = File.expand_path(script)
      raise "cannot read `#{path}`: there is no such file" unless File.exist?(path)
      raise "cannot read `#{path}`: it is a folder" if File.directory?(path)
      raise "cannot read `#{path}`: permission denied" unless File.readable?(path)

      use_bundle(File.dirname(path))
      use_rack
      load_hooks(hooks) if hooks
      $0 = script
      application = build(path)
      raise "`#{path}` gives no application: what it runs must respond to `call`" unless application.respond_to?(:call)

      application
    end

    # Calls a hook: the method of this name, if the file has defined one, and the blocks that it has given.
    def hook(name)
      TOPLEVEL_BINDING.receiver.__send__(name) if @hooks && TOPLEVEL_BINDING.receiver.respond_to?(name, true)
      @blocks[name]&.each(&:call)
    rescue Exception => e
      raise e if e.is_a?(SystemExit)

      raise "the hook `#{name}` of `#{@hooks}` failed: #{describe(e)}"
    end

    # The text of an object, as `to_s` gives it.
    def text(object)
      text = object.to_s
      return text if text.is_a?(String)

      raise TypeError, "`to_s` of an object of #{object.class} gives #{text.inspect}, which is no string"
    end

    # An exception with its causes and backtraces, as ruby itself prints it.
    def describe(exception)
      return exception.message if exception.instance_of?(RuntimeError) && from_here?(exception)

      return "the script ended the process: exit(#{exception.status})" if exception.is_a?(SystemExit)
      # Raised by the server itself, where no Ruby code was running.
      return "#{exception.message} (#{exception.class})" if exception.backtrace.nil? || exception.backtrace.empty?

      exception.full_message(highlight: false, order: :top).chomp
    end

    # Prepares memory for the forks, and logs threads that will not be in them.
    def settle
      others = Thread.list - [Thread.main]
      others.each do |thread|
        name = thread.name ? "`#{thread.name}` " : ''
        place = thread.inspect[/\S+:\d+/]
        warn("the application has started the thread #{name}(#{place}) while it was loaded; with `preload` it is not in the " \
                'processes that serve: start it in `on_worker_boot` of `hooks`')
      end
      if Process.respond_to?(:warmup)
        Process.warmup
      else
        GC.start
        compact
      end
    end

    # A connection that the application takes over.
    def connection(descriptor)
      require 'socket'
      UNIXSocket.for_fd(descriptor)
    end

    # Calls what waits for the end of the answer.
    def finished(env, response, error)
      status, headers, = response
      Array(env['rack.response_finished']).reverse_each { |handler| handler.call(env, status, headers, error) }
      Array(env['rack.after_reply']).each(&:call)
    end

    private

    def warn(text)
      log(text, true)
    end

    def from_here?(exception)
      place = exception.backtrace_locations&.first
      place.nil? || place.path == 'tutti.rb'
    end

    def compact
      GC.compact if GC.respond_to?(:compact)
    rescue NotImplementedError
      nil
    end

    def use_bundle(folder)
      return if ENV['BUNDLE_GEMFILE'] == ''

      found = ENV['BUNDLE_GEMFILE'] || %w[Gemfile gems.rb].map { |name| File.join(folder, name) }.find { |path| File.file?(path) }
      return unless found

      ENV['BUNDLE_GEMFILE'] ||= found
      begin
        require 'bundler/setup'
      rescue LoadError => e
        raise e unless e.path.to_s.start_with?('bundler')

        raise "`#{found}` needs Bundler, which is not installed (Debian: `apt install ruby-bundler`)"
      end
    rescue StandardError => e
      raise e unless e.class.name.to_s.start_with?('Bundler::')

      raise "the gems of `#{found}` are not there: #{e.message}\nrun `bundle install` in `#{File.dirname(found)}`"
    end

    def use_rack
      require 'rack'
      require 'rack/builder'
      @is_rack2 = Gem::Version.new(Rack.release) < Gem::Version.new('3')
      StreamInput.rewindable if @is_rack2
    rescue LoadError => e
      raise e unless e.path == 'rack'

      where = ENV['BUNDLE_GEMFILE'].to_s
      cure = where.empty? ? 'install it (Debian: `apt install ruby-rack`)' : "add `gem 'rack'` to `#{where}`, and run `bundle install`"
      raise "Rack is missing: #{cure}"
    end

    def load_hooks(path)
      @hooks = File.expand_path(path)
      raise "cannot read the hooks `#{@hooks}`: there is no such file" unless File.file?(@hooks)

      begin
        with_blocks { load @hooks }
      rescue Exception => e
        raise e if e.is_a?(SystemExit)

        raise "the hooks `#{@hooks}` failed: #{describe(e)}"
      end
    end

    # Lets the main object take blocks for hooks. A file may define methods of the same names, which are called then.
    def with_blocks
      main = TOPLEVEL_BINDING.receiver
      blocks = @blocks
      HOOKS.each do |name|
        main.define_singleton_method(name) do |&block|
          raise ArgumentError, "`#{name}` needs a block" unless block

          (blocks[name] ||= []) << block
        end
      end
      yield
    ensure
      HOOKS.each { |name| main.singleton_class.send(:remove_method, name) }
    end

    def build(path)
      loader = Rack::Builder.respond_to?(:load_file) ? :load_file : :parse_file
      application = Rack::Builder.__send__(loader, path)
      # Rack 2 gives the options of the first line, too.
      application = application.first if application.is_a?(Array)
      application
    rescue LoadError => e
      name = e.path || e.message[/-- (.*)/, 1]
      raise "#{describe(e)}\n`#{name}` is not there: #{missing(name)}"
    end

    def missing(name)
      gemfile = ENV['BUNDLE_GEMFILE'].to_s
      return "add its gem to `#{gemfile}`, and run `bundle install`" unless gemfile.empty?

      package = name.to_s.tr('/_', '-').downcase
      "install its gem, for example by `apt install ruby-#{package}` or `gem install #{package}`"
    end
  end

  # The body of a request: all of it is there, so that it can be read again.
  class Input
    PIECE = 65_536
    private_constant :PIECE

    def read(length = nil, buffer = nil)
      bytes = length ? read_length(length) : read_rest
      return bytes unless buffer

      buffer.replace(bytes || '')
      bytes && buffer
    end

    # Up to so many bytes, as soon as there are any.
    def readpartial(length, buffer = nil)
      bytes = take(length)
      raise EOFError, 'end of file reached' if bytes.empty? && length.positive?

      buffer ? buffer.replace(bytes) : bytes
    end

    def gets(separator = $/)
      return nonempty(read_rest) if separator.nil?
      return paragraph if separator.empty?

      line = String.new
      # A piece goes up to the next byte that may end the separator, so that only the end of the line is to be looked at.
      until line.end_with?(separator)
        @ahead = take(8192) if ahead.empty?
        break if @ahead.empty?

        stop = @ahead.index(separator[-1].b)
        line << @ahead.slice!(0, stop ? stop + 1 : @ahead.bytesize)
      end
      nonempty(line)
    end

    def each
      return enum_for(:each) unless block_given?

      while (line = gets)
        yield line
      end
      self
    end

    def rewind
      @at = 0
      @ahead = nil
      0
    end

    def pos
      (@at || 0) - ahead.bytesize
    end

    def eof?
      return false unless ahead.empty?

      @ahead = take(8192)
      @ahead.empty?
    end

    def size
      length
    end

    # The server closes it.
    def close
      nil
    end

    def external_encoding
      Encoding::BINARY
    end

    def set_encoding(*)
      self
    end

    def binmode
      self
    end

    def inspect
      "#<#{self.class}>"
    end

    private

    def ahead
      @ahead ||= String.new
    end

    # Up to the next empty line, as IO#gets has it: further empty lines belong to none.
    def paragraph
      skip_empty_lines
      gets("\n\n").tap { skip_empty_lines }
    end

    def skip_empty_lines
      @ahead.sub!(/\A\n+/n, '') while !eof? && @ahead.start_with?("\n")
    end

    def nonempty(bytes)
      bytes.empty? ? nil : bytes
    end

    # The bytes that come next, at most so many; empty at the end.
    def take(length)
      return @ahead.slice!(0, length) unless @ahead.nil? || @ahead.empty?

      at = @at || 0
      bytes = pull(at, length)
      @at = at + bytes.bytesize
      bytes
    end

    def read_length(length)
      raise ArgumentError, "negative length #{length} given" if length.negative?
      return String.new if length.zero?

      bytes = take(length)
      while bytes.bytesize < length
        piece = take([length - bytes.bytesize, PIECE].min)
        break if piece.empty?

        bytes << piece
      end
      nonempty(bytes)
    end

    def read_rest
      bytes = take(PIECE)
      loop do
        piece = take(PIECE)
        return bytes if piece.empty?

        bytes << piece
      end
    end
  end

  # The body of a request that comes as the client sends it. Rack 3 does not ask that it can be read again, and has no `rewind` then.
  class StreamInput < Input
    undef_method :rewind

    # Rack 2 does: what was read is kept in a file.
    def self.rewindable
      prepend Kept
    end

    # Keeps what was read.
    module Kept
      def rewind
        @at = 0
        @ahead = nil
        0
      end

      private

      def pull(offset, length)
        kept = @kept ? @kept.size : 0
        if offset < kept
          @kept.seek(offset)
          return @kept.read([length, kept - offset].min)
        end
        bytes = super
        unless bytes.empty?
          @kept ||= begin
            require 'tempfile'
            Tempfile.new('rack.input').tap(&:binmode).tap(&:unlink)
          end
          @kept.seek(0, IO::SEEK_END)
          @kept.write(bytes)
          @kept.flush
        end
        bytes
      end
    end
  end

  # A body that the application has framed itself (`Transfer-Encoding: chunked`, as Rack 2's Chunked and the streams of Rails do), without
  # its frames: the server frames what it sends.
  class Unframed
    END_OF_LINE = 2
    private_constant :END_OF_LINE

    def initialize(body)
      @body = body
    end

    def each(&block)
      @rest = String.new
      # Bytes of the chunk that are still to come, the end of its line included; nil behind the last chunk.
      @left = 0
      @body.each do |piece|
        @rest << piece.b
        nil while @left && !@rest.empty? && advance(&block)
      end
      raise TypeError, 'the body of a response ends within a chunk: `Transfer-Encoding: chunked` says that it has frames' if @left
    end

    def close
      @body.close if @body.respond_to?(:close)
    end

    private

    # Deals with what there is; false if more must come first.
    def advance
      return begin_chunk if @left.zero?

      count = [@left > END_OF_LINE ? @left - END_OF_LINE : @left, @rest.bytesize].min
      bytes = @rest.slice!(0, count)
      yield bytes if @left > END_OF_LINE
      @left -= count
      true
    end

    def begin_chunk
      stop = @rest.index("\n")
      return false unless stop

      size = @rest.slice!(0, stop + 1)[/\A(\h{1,15})\s*(;.*)?\r?\n\z/n, 1]
      raise TypeError, 'the body of a response is not framed as `Transfer-Encoding: chunked` says' unless size

      size = size.to_i(16)
      @left = size.zero? ? nil : size + END_OF_LINE
      true
    end
  end

  # The stream of an answer whose body is called: what is written goes to the client at once, what is read is the request's body.
  class Stream
    def initialize(input)
      @input = input
      @lock = Mutex.new
      @over = ConditionVariable.new
      @is_closed = false
    end

    def read(*arguments)
      @input.read(*arguments)
    end

    def readpartial(*arguments)
      @input.readpartial(*arguments)
    end

    def gets(*arguments)
      @input.gets(*arguments)
    end

    # Nothing tells if there is something to read without waiting for it.
    def read_nonblock(length, buffer = nil, exception: true)
      readpartial(length, buffer)
    rescue EOFError
      raise if exception

      nil
    end

    def write(*pieces)
      raise IOError, 'closed stream' if @is_closed

      pieces.sum do |piece|
        bytes = Tutti.text(piece)
        raise Errno::EPIPE, 'the client has gone' unless @input.write_bytes(bytes)

        bytes.bytesize
      end
    end
    alias write_nonblock write

    def <<(bytes)
      write(bytes)
      self
    end

    def print(*pieces)
      write(*pieces)
      nil
    end

    def puts(*lines)
      lines = [''] if lines.empty?
      lines.flatten.each { |line| write_line(Tutti.text(line)) }
      nil
    end

    def flush
      self
    end

    def close_read
      nil
    end

    def close_write
      close
    end

    def close
      @lock.synchronize do
        unless @is_closed
          @is_closed = true
          @input.end_answer
        end
        @over.broadcast
      end
      nil
    end

    def closed?
      @is_closed
    end

    # Waits until it is closed, by whichever thread.
    def wait_closed
      @lock.synchronize { @over.wait(@lock) until @is_closed }
    end

    private

    def write_line(line)
      write(line.end_with?("\n") ? line : "#{line}\n")
    end
  end

  # rack.errors: each line goes to the log, and what is left without its end when the request ends.
  class Errors
    def initialize
      @rest = String.new
    end

    def write(*texts)
      texts.sum do |text|
        text = Tutti.text(text)
        @rest << text.b
        stop = @rest.rindex("\n")
        Tutti.log(@rest.slice!(0, stop + 1), false) if stop
        text.bytesize
      end
    end

    def <<(text)
      write(text)
      self
    end

    def print(*texts)
      write(*texts)
      nil
    end

    def puts(*lines)
      lines = [''] if lines.empty?
      lines.flatten.each { |line| write_line(Tutti.text(line)) }
      nil
    end

    def printf(*arguments)
      write(format(*arguments))
      nil
    end

    def flush
      Tutti.log(@rest.slice!(0, @rest.bytesize), false) unless @rest.empty?
      self
    end

    def sync
      true
    end

    def sync=(value); end

    def fsync
      0
    end

    def tty?
      false
    end
    alias isatty tty?

    def fileno
      2
    end

    def close
      flush
      nil
    end

    private

    def write_line(line)
      write(line.end_with?("\n") ? line : "#{line}\n")
    end
  end
end
