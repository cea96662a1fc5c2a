package tutti.host;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;

/** A thread that takes requests, and runs them itself or has them run. */
final class Taker implements Runnable {
    private final TransportConnector connector;
    private final Open open;
    /** Runs requests in threads of its own; null: this thread does. */
    private final Executor executor;
    private final CountDownLatch begun;

    Taker(TransportConnector connector, Open open, Executor executor, CountDownLatch begun) {
        this.connector = connector;
        this.open = open;
        this.executor = executor;
        this.begun = begun;
    }

    @Override
    public void run() {
        long thread = Native.begin();
        begun.countDown();
        if (thread == 0) {
            return;
        }
        try {
            byte[] bytes;
            while ((bytes = Native.next(thread)) != null) {
                take(bytes);
            }
        } finally {
            Native.end(thread);
        }
    }

    private void take(byte[] bytes) {
        // The number is what ends a request whose head is of no use.
        long exchange = java.nio.ByteBuffer.wrap(bytes).getLong();
        try {
            Stream stream = new Stream(new Head(bytes), connector, open);
            if (executor == null) {
                stream.run();
            } else {
                executor.execute(stream);
            }
        } catch (Throwable error) {
            Log.error("a request could not be begun", error);
            Native.abort(exchange);
        } finally {
            open.noteLeft();
        }
    }
}
