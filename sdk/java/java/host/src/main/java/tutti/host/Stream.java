package tutti.host;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executor;
import java.util.function.Supplier;
import org.eclipse.jetty.http.BadMessageException;
import org.eclipse.jetty.http.HttpField;
import org.eclipse.jetty.http.HttpFields;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.HttpMethod;
import org.eclipse.jetty.http.HttpStatus;
import org.eclipse.jetty.http.MetaData;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.EofException;
import org.eclipse.jetty.server.HttpChannel;
import org.eclipse.jetty.server.HttpStream;
import org.eclipse.jetty.server.internal.HttpChannelState;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;

/**
 * An exchange as Jetty sees it: a stream whose bytes are the transport's.
 *
 * <p>The body is read by the thread that asks for it, without waiting; for the rest of one that is still coming a thread of {@link Open} waits. A response is written by
 * the thread that writes it, which waits for room where a thread may wait at all. Must never happen: a callback that is never called.
 */
final class Stream implements HttpStream, Runnable {
    /** In place of a status: the fields are those behind the body ({@code response.rs}). */
    private static final int TRAILERS = 0;

    /** Largest piece of a body that is read at once. */
    private static final int PIECE = 32 * 1024;

    private final Head head;
    private final Open open;
    private final HttpChannel channel;
    private Content.Chunk chunk;
    private byte[] room;
    private long received;
    private final Socket socket;
    private volatile boolean isCommitted;
    /** The head that the application wanted could not be sent; the client has an error in its place. */
    private volatile boolean isReplaced;
    /** Gives the fields behind the body, once it is whole; null for none. */
    private Supplier<HttpFields> trailers;
    /** It has become a WebSocket. */
    private volatile boolean isUpgraded;
    /** The thread that runs the handler; null when none does. */
    private volatile Thread thread;

    Stream(Head head, TransportConnector connector, Open open) {
        this.head = head;
        this.open = open;
        socket = head.isWebSocket() ? new Socket(head, open, connector.getScheduler(), this::end) : null;
        channel = new HttpChannelState(new Line(head, connector, socket));
        channel.setHttpStream(this);
        // Without it, the channel has no listener for what a client does wrong, and such a cookie ends with an exception.
        channel.initialize();
        open.add(this);
    }

    /** Runs the handler on the calling thread. */
    @Override
    public void run() {
        thread = Thread.currentThread();
        try {
            MetaData.Request request = request();
            Runnable handler = request == null ? null : channel.onRequest(request);
            if (handler != null) {
                handler.run();
            }
        } catch (Throwable error) {
            // A fault of the host, or of Java: the handler catches what applications throw.
            Log.error(head + ": " + error.getMessage(), error);
            if (isCommitted) {
                failed(error);
            } else {
                refuse(HttpStatus.INTERNAL_SERVER_ERROR_500, "");
            }
        } finally {
            thread = null;
        }
    }

    /** The request as Jetty takes it; null: its URI or its host is wrong, and it has been answered. */
    private MetaData.Request request() {
        String refusal;
        try {
            refusal = head.refusal(
                    channel.getConnectionMetaData().getHttpConfiguration().getUriCompliance(), Main.takesParameters());
            if (refusal == null) {
                return head.request();
            }
        } catch (IllegalArgumentException | BadMessageException error) {
            refusal = error.getMessage();
        }
        refuse(HttpStatus.BAD_REQUEST_400, ": " + refusal);
        return null;
    }

    private void refuse(int status, String why) {
        isCommitted = true;
        answer(status, status + " " + HttpStatus.getMessage(status) + why + "\n");
        end();
    }

    /** Sends a whole response of the host's own. */
    private void answer(int status, String text) {
        byte[] body = text.getBytes(StandardCharsets.ISO_8859_1);
        HttpFields fields = HttpFields.build().add("Content-Type", "text/plain").asImmutable();
        ResponseHead bytes = new ResponseHead(status, fields);
        int length = HttpMethod.HEAD.is(head.method) ? 0 : body.length;
        Native.send(head.exchange, bytes.bytes(), bytes.length(), null, body, 0, length, false);
    }

    Head head() {
        return head;
    }

    /** The thread that is at this request, if one is. */
    Thread thread() {
        return thread;
    }

    /** True if the handler has returned and no thread of the host sees what becomes of the client. */
    boolean isLeft() {
        return thread == null && !isUpgraded;
    }

    /** Tells the application that its client has gone. */
    void clientGone(Executor executor) {
        Runnable task = channel.onRemoteFailure(new EofException("the client has gone, or the request has run out of time"));
        if (task != null) {
            executor.execute(task);
        }
    }

    @Override
    public String getId() {
        return Long.toString(head.exchange);
    }

    @Override
    public Content.Chunk read() {
        if (chunk == null) {
            chunk = take();
        }
        Content.Chunk now = chunk;
        chunk = Content.Chunk.next(now);
        return now;
    }

    /** Returns what is there of the body; null when nothing is. */
    private Content.Chunk take() {
        if (head.isEmpty() || received == head.length) {
            return Content.Chunk.EOF;
        }
        if (room == null) {
            long left = head.length < 0 ? PIECE : head.length - received;
            room = new byte[(int) Math.min(PIECE, left)];
        }
        int count = Native.read(head.exchange, room);
        if (count == 0) {
            return null;
        }
        if (count < 0) {
            return count == Native.END
                    ? Content.Chunk.EOF
                    : Content.Chunk.from(new EofException("the client has gone before its body was whole"), true);
        }
        ByteBuffer bytes = ByteBuffer.wrap(room, 0, count);
        // The reader may keep it.
        room = null;
        received += count;
        return Content.Chunk.from(bytes, received == head.length);
    }

    @Override
    public void demand() {
        if (chunk == null) {
            chunk = take();
        }
        if (chunk != null) {
            tellOfContent();
        } else {
            open.waiters().execute(this::waitForContent);
        }
    }

    private void waitForContent() {
        while (chunk == null) {
            boolean mayCome = Native.await(head.exchange, false);
            chunk = take();
            if (!mayCome && chunk == null) {
                chunk = Content.Chunk.from(new EofException("the client has gone"), true);
            }
        }
        tellOfContent();
    }

    private void tellOfContent() {
        Runnable task = channel.onContentAvailable();
        if (task != null) {
            task.run();
        }
    }

    @Override
    public void prepareResponse(HttpFields.Mutable headers) {}

    @Override
    public void send(
            MetaData.Request request, MetaData.Response response, boolean last, ByteBuffer content, Callback callback) {
        ResponseHead bytes = null;
        if (response != null) {
            int status = response.getStatus();
            if (status == HttpStatus.CONTINUE_100) {
                // The server sends its own.
                callback.succeeded();
                return;
            }
            if (HttpStatus.isInformational(status) && status != HttpStatus.SWITCHING_PROTOCOLS_101) {
                // Whatever else is sent or flushed would begin the answer itself.
                write(new ResponseHead(status, response.getHttpFields()), BufferUtil.EMPTY_BUFFER, true, callback);
                return;
            }
            if (isCommitted) {
                callback.failed(new IllegalStateException("Committed"));
                return;
            }
            isCommitted = true;
            trailers = response.getTrailersSupplier();
            HttpFields fields = response.getHttpFields();
            bytes = new ResponseHead(status, trailers == null ? fields : announced(fields));
        }
        ByteBuffer body = HttpMethod.HEAD.is(head.method) ? null : content;
        boolean isLast = last && !isUpgrade(response);
        write(bytes, body == null ? BufferUtil.EMPTY_BUFFER : body, isLast, callback);
    }

    /** The fields of a head that others follow behind the body: the server has to know before it sends it, their names are not known yet. */
    private static HttpFields announced(HttpFields fields) {
        HttpFields.Mutable announced = HttpFields.build(fields).remove(HttpHeader.CONTENT_LENGTH);
        return announced.contains(HttpHeader.TRAILER) ? announced : announced.add(HttpHeader.TRAILER, "");
    }

    /** The head of a WebSocket: its end does not follow. */
    private static boolean isUpgrade(MetaData.Response response) {
        return response != null && response.getStatus() == HttpStatus.SWITCHING_PROTOCOLS_101;
    }

    private void write(ResponseHead bytes, ByteBuffer body, boolean last, Callback callback) {
        ByteBuffer source = body.isDirect() || body.hasArray() ? body : copy(body);
        ResponseHead first = bytes;
        while (true) {
            int start = source.isDirect() ? source.position() : source.arrayOffset() + source.position();
            int taken = Native.send(
                    head.exchange,
                    first == null ? null : first.bytes(),
                    first == null ? 0 : first.length(),
                    source.isDirect() ? source : null,
                    source.isDirect() ? null : source.array(),
                    start,
                    source.remaining(),
                    !last);
            if (taken == Native.REFUSED) {
                String fault = new String(Native.fault(head.exchange), StandardCharsets.UTF_8);
                if (first != null && first.isFinal()) {
                    replace(fault);
                }
                callback.failed(new IOException(fault));
                return;
            }
            if (taken < 0) {
                callback.failed(new EofException("the client has gone"));
                return;
            }
            first = null;
            source.position(source.position() + taken);
            if (!source.hasRemaining()) {
                break;
            }
            if (open.mayNotWait()) {
                open.waiters().execute(() -> {
                    Native.await(head.exchange, true);
                    write(null, source, last, callback);
                });
                return;
            }
            Native.await(head.exchange, true);
        }
        if (last && trailers != null) {
            HttpFields fields = trailers.get();
            trailers = null;
            if (fields != null && fields.size() > 0) {
                write(new ResponseHead(TRAILERS, fields), BufferUtil.EMPTY_BUFFER, true, callback);
                return;
            }
        }
        callback.succeeded();
    }

    /** Answers in place of a response whose head cannot be sent: Jetty would try the same fields again. */
    private void replace(String fault) {
        Log.error(head + ": the response cannot be sent: " + fault, null);
        isReplaced = true;
        answer(HttpStatus.INTERNAL_SERVER_ERROR_500, "500 Internal Server Error\n");
    }

    private static ByteBuffer copy(ByteBuffer from) {
        ByteBuffer copy = ByteBuffer.allocate(from.remaining());
        copy.put(from).flip();
        return copy;
    }

    @Override
    public Runnable cancelSend(Throwable cause, Callback callback) {
        return () -> callback.failed(cause);
    }

    @Override
    public long getIdleTimeout() {
        return -1;
    }

    @Override
    public void setIdleTimeout(long idleTimeoutMs) {}

    @Override
    public boolean isCommitted() {
        return isCommitted;
    }

    @Override
    public Throwable consumeAvailable() {
        // The server takes what is left of a body.
        return null;
    }

    @Override
    public void succeeded() {
        if (socket != null
                && isCommitted
                && channel.getRequest().getAttribute(UPGRADE_CONNECTION_ATTRIBUTE) instanceof Connection connection) {
            isUpgraded = true;
            // The application may go on as long as it likes: requests wait for this thread.
            open.run(() -> upgrade(connection));
        } else {
            end();
        }
    }

    private void upgrade(Connection connection) {
        try {
            socket.upgrade(connection);
        } catch (RuntimeException told) {
            // The application has been notified, and the connection closed.
        }
    }

    private void end() {
        if (open.remove(this)) {
            Native.finish(head.exchange);
            open.noteEnd();
            // There is a channel for each exchange; but agents see in this call that the request has ended. One that was refused has not reached it.
            if (channel.getRequest() != null) {
                channel.recycle();
            }
        }
    }

    @Override
    public void failed(Throwable failure) {
        if (isReplaced) {
            end();
        } else if (open.remove(this)) {
            Native.abort(head.exchange);
            open.noteEnd();
        }
    }

    /** The head of a response as {@code response.rs} reads it. */
    private static final class ResponseHead {
        private byte[] bytes = new byte[256];
        private int length;
        private final int status;

        ResponseHead(int status, HttpFields fields) {
            this.status = status;
            bytes[length++] = (byte) (status >> 8);
            bytes[length++] = (byte) status;
            for (HttpField field : fields) {
                put(field.getName());
                String value = field.getValue();
                put(value == null ? "" : value);
            }
        }

        private void put(String text) {
            byte[] more = text.getBytes(StandardCharsets.ISO_8859_1);
            if (bytes.length < length + 4 + more.length) {
                bytes = java.util.Arrays.copyOf(bytes, Math.max(bytes.length * 2, length + 4 + more.length));
            }
            for (int shift = 24; shift >= 0; shift -= 8) {
                bytes[length++] = (byte) (more.length >> shift);
            }
            System.arraycopy(more, 0, bytes, length, more.length);
            length += more.length;
        }

        /** No other head follows it, and it is none. */
        boolean isFinal() {
            return status >= HttpStatus.OK_200 || status == HttpStatus.SWITCHING_PROTOCOLS_101;
        }

        byte[] bytes() {
            return bytes;
        }

        int length() {
            return length;
        }
    }
}
