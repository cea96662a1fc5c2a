package tutti.host;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import org.eclipse.jetty.io.AbstractEndPoint;
import org.eclipse.jetty.io.EofException;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.thread.Scheduler;

/**
 * The bytes of a WebSocket as Jetty reads and writes them: frames. The transport has messages, which the Rust part makes of them and them of
 * ({@code websocket.rs}).
 *
 * <p>A connection that waits for its client has a thread, which also runs what the application does with a message; with virtual threads one of those does.
 */
final class Socket extends AbstractEndPoint {
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    private final Head head;
    private final Open open;
    /** Called when the connection has ended, and the application knows. */
    private final Runnable end;
    private ByteBuffer frame = NOTHING;
    private volatile Reader reader;

    Socket(Head head, Open open, Scheduler scheduler, Runnable end) {
        super(scheduler);
        this.head = head;
        this.open = open;
        this.end = end;
        // The server pings clients and gives silent ones up; an application may set a time of its own.
        setIdleTimeout(0);
    }

    @Override
    public SocketAddress getLocalSocketAddress() {
        return head.local;
    }

    @Override
    public SocketAddress getRemoteSocketAddress() {
        return head.remote;
    }

    @Override
    public Object getTransport() {
        return null;
    }

    @Override
    public int fill(ByteBuffer target) throws IOException {
        if (!frame.hasRemaining()) {
            byte[] bytes = isOpen() ? Native.receive(head.exchange) : new byte[0];
            if (bytes == null) {
                return 0;
            }
            if (bytes.length == 0) {
                return -1;
            }
            frame = ByteBuffer.wrap(bytes);
        }
        notIdle();
        int before = target.remaining();
        int at = BufferUtil.flipToFill(target);
        BufferUtil.put(frame, target);
        BufferUtil.flipToFlush(target, at);
        return target.remaining() - before;
    }

    @Override
    protected void needsFillInterest() {
        Reader now = reader;
        if (now != null && now.thread == Thread.currentThread()) {
            now.isWanted = true;
        } else {
            open.waiters().execute(new Reader());
        }
    }

    /** Waits for what the client sends, and has it dealt with, as long as the thread that deals with it wants more. */
    private final class Reader implements Runnable {
        private volatile Thread thread;
        /** Set by that thread alone. */
        private boolean isWanted;
        private boolean isClosed;

        @Override
        public void run() {
            do {
                Native.await(head.exchange, false);
                if (open.mayNotWait()) {
                    open.run(() -> {
                        if (tell()) {
                            open.waiters().execute(this);
                        }
                    });
                    return;
                }
            } while (tell());
        }

        /** True: more is wanted. */
        private boolean tell() {
            isWanted = false;
            thread = Thread.currentThread();
            reader = this;
            try {
                getFillInterest().fillable();
            } finally {
                if (reader == this) {
                    reader = null;
                }
                if (isClosed) {
                    end.run();
                }
            }
            return isWanted;
        }
    }

    @Override
    public boolean flush(ByteBuffer... buffers) throws IOException {
        for (ByteBuffer buffer : buffers) {
            ByteBuffer from = buffer.isDirect() || buffer.hasArray() ? buffer : copy(buffer);
            int length = from.remaining();
            int start = from.isDirect() ? from.position() : from.arrayOffset() + from.position();
            int taken = length == 0
                    ? 0
                    : Native.sendFrames(
                            head.exchange,
                            from.isDirect() ? from : null,
                            from.isDirect() ? null : from.array(),
                            start,
                            length);
            if (taken < 0) {
                throw new EofException("the client has gone");
            }
            buffer.position(buffer.position() + taken);
            if (taken > 0) {
                notIdle();
            }
            if (taken < length) {
                return false;
            }
        }
        return true;
    }

    private static ByteBuffer copy(ByteBuffer from) {
        ByteBuffer copy = ByteBuffer.allocate(from.remaining());
        copy.put(from.duplicate()).flip();
        return copy;
    }

    @Override
    protected void onIncompleteFlush() {
        open.waiters().execute(() -> {
            Native.await(head.exchange, true);
            getWriteFlusher().completeWrite();
        });
    }

    @Override
    protected void doClose() {
        Native.finish(head.exchange);
    }

    @Override
    public void onClose(Throwable failure) {
        super.onClose(failure);
        getConnection().onClose(failure);
        Reader now = reader;
        if (now != null && now.thread == Thread.currentThread()) {
            // The application learns of it by what this thread does next.
            now.isClosed = true;
        } else {
            end.run();
        }
    }
}
