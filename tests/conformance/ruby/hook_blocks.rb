# frozen_string_literal: true

# As hooks.rb, with the blocks that Unit's documentation shows.
@lock = Mutex.new

def hook_note(text)
  @lock.synchronize { File.open(File.join(ENV.fetch('WORK'), 'hooks'), 'a') { |file| file.puts text } }
end

on_worker_boot do
  $worker_booted = "worker #{Process.pid}"
  hook_note('worker boot')
end

on_worker_shutdown { hook_note('worker shutdown') }

on_thread_boot do
  Thread.current[:booted] = 'thread'
  hook_note('thread boot')
end

on_thread_shutdown { hook_note('thread shutdown') }
