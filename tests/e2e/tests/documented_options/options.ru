# frozen_string_literal: true

# The configuration's effect on this process; `/hold` answers when there is a file `go`.
require 'json'

run lambda { |env|
  work = ENV.fetch('WORK')
  if env['PATH_INFO'] == '/hold'
    File.write(File.join(work, "at-#{Process.pid}"), '')
    sleep 0.01 until File.exist?(File.join(work, 'go'))
  end
  $stdout.puts 'to stdout'
  warn 'to stderr'
  told = {
    pid: Process.pid, uid: Process.euid, gid: Process.egid, folder: Dir.pwd,
    colour: ENV.fetch('COLOUR').dup.force_encoding(Encoding::UTF_8), home: ENV['HOME'], root: Dir.children('/')
  }
  [200, { 'content-type' => 'application/json' }, [JSON.generate(told)]]
}
