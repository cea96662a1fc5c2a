# As index.php.
require 'socket'
require 'tempfile'

WAYS = {
  'sleep' => -> { sleep(1) >= 1 },
  'select' => -> { IO.select([UNIXSocket.pair.first], nil, nil, 1).nil? },
  'read' => -> { UNIXSocket.pair.first.wait_readable(1).nil? },
  'lock' => lambda do
    Tempfile.create do |file|
      IO.popen(['flock', file.path, 'sh', '-c', 'echo held; sleep 1']) do |holder|
        holder.gets == "held\n" && file.flock(File::LOCK_EX).zero?
      end
    end
  end
}.freeze

run(lambda do |env|
  how = env['QUERY_STRING'].delete_prefix('how=')
  from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  is_whole = WAYS[how].call
  took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - from + (how == 'lock' ? 1 : 0)
  [200, { 'content-type' => 'text/plain' }, ["#{is_whole ? 'whole' : 'broken'} #{(took * 1000).to_i}"]]
end)
