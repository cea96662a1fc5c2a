package tutti.host;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/** The exchanges that have not ended, and the threads that wait for what they need. */
final class Open {
    /** The interval at which clients of requests without a thread are checked. */
    private static final long WATCH_MS = 250;

    private final Set<Stream> streams = ConcurrentHashMap.newKeySet();
    private final ExecutorService waiters;
    private final Executor executor;
    private final Object changed = new Object();

    /** {@code executor}: runs what the application does, in threads that may not wait in native code; null: any thread may. */
    Open(Executor executor) {
        this.executor = executor;
        AtomicInteger number = new AtomicInteger();
        waiters = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(null, task, "waits-" + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
        Thread watch = new Thread(null, this::watch, "clients");
        watch.setDaemon(true);
        watch.start();
    }

    /** A thread of the application may not wait in native code. */
    boolean mayNotWait() {
        return executor != null;
    }

    /** Runs what the application does beside its requests. */
    void run(Runnable task) {
        (executor == null ? waiters : executor).execute(task);
    }

    /** Runs what waits for an exchange; each has a thread. */
    ExecutorService waiters() {
        return waiters;
    }

    void add(Stream stream) {
        streams.add(stream);
    }

    /** True if it was there: of all who end an exchange one may. */
    boolean remove(Stream stream) {
        return streams.remove(stream);
    }

    /** An exchange has ended. */
    void noteEnd() {
        if (streams.isEmpty()) {
            wake();
        }
    }

    /** A request goes on though its thread has left it. */
    void noteLeft() {
        wake();
    }

    private void wake() {
        synchronized (changed) {
            changed.notifyAll();
        }
    }

    Set<Stream> streams() {
        return streams;
    }

    /** Waits until no exchange is open. */
    void awaitNone() throws InterruptedException {
        synchronized (changed) {
            while (!streams.isEmpty()) {
                changed.wait();
            }
        }
    }

    /** Tells applications of clients that have gone while no thread of ours is at their request. */
    private void watch() {
        try {
            while (true) {
                boolean isAny = false;
                for (Stream stream : streams) {
                    if (stream.isLeft()) {
                        isAny = true;
                        if (Native.isGone(stream.head().exchange)) {
                            stream.clientGone(waiters);
                        }
                    }
                }
                synchronized (changed) {
                    // Nothing is to be looked after until a request is left.
                    changed.wait(isAny ? WATCH_MS : 0);
                }
            }
        } catch (InterruptedException leave) {
            Thread.currentThread().interrupt();
        }
    }
}
