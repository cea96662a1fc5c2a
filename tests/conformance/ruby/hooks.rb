# frozen_string_literal: true

@lock = Mutex.new
@loaded = Process.pid

def hook_note(text)
  @lock.synchronize { File.open(File.join(ENV.fetch('WORK'), 'hooks'), 'a') { |file| file.puts text } }
end

def on_worker_boot
  $worker_booted = "worker #{Process.pid}"
  hook_note('worker boot')
end

def on_worker_shutdown
  hook_note('worker shutdown')
end

def on_thread_boot
  Thread.current[:booted] = 'thread'
  hook_note('thread boot')
end

def on_thread_shutdown
  hook_note('thread shutdown')
end
