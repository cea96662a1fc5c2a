package tutti.host;

import java.nio.ByteBuffer;

/**
 * The methods that the Rust part stands for ({@code sdk/java/src/ffi.rs}).
 *
 * <p>Exchanges are known by number, of which none is used twice: a call with that of an exchange that has ended says so and does nothing. No call but
 * {@link #next}, {@link #await} and {@link #where} waits.
 */
final class Native {
    /** The client has gone, or the exchange has ended. */
    static final int GONE = -1;
    /** The head cannot be sent; {@link #fault} tells why. */
    static final int REFUSED = -2;
    /** The body is over. */
    static final int END = -1;

    /** Levels of the daemon's log. */
    static final int DEBUG = 0;
    static final int INFO = 1;
    static final int WARN = 3;
    static final int ERROR = 4;

    private Native() {}

    /** Makes the calling thread one that takes requests; 0 when there are enough. */
    static native long begin();

    /** Waits for a request: its head ({@link Head}); null: leave. */
    static native byte[] next(long thread);

    /** Gives the thread's place back. */
    static native void end(long thread);

    /**
     * Sends the head, if there is one, and then of the body what there is room for, from a direct buffer or from an array: how many bytes, or {@link #GONE} or
     * {@link #REFUSED}.
     */
    static native int send(
            long exchange, byte[] head, int headLength, ByteBuffer buffer, byte[] array, int start, int length, boolean flush);

    /** The reason of the last {@link #REFUSED}. */
    static native byte[] fault(long exchange);

    /** Waits for room in the response, else for data of the body, after a call that had none. False: neither will come. */
    static native boolean await(long exchange, boolean room);

    /** Reads of the body what is there: how many bytes, 0 when there are none yet, {@link #END}, or less when it will never be whole. */
    static native int read(long exchange, byte[] target);

    /** The next frame of a WebSocket's client, masked as a client's are; null when there is none yet, empty when none will come. */
    static native byte[] receive(long exchange);

    /** Sends of the frames of a WebSocket what there is room for, from a direct buffer or from an array: how many bytes, or {@link #GONE}. */
    static native int sendFrames(long exchange, ByteBuffer buffer, byte[] array, int start, int length);

    /** Completes the response. */
    static native void finish(long exchange);

    /** Gives the response up. */
    static native void abort(long exchange);

    /** True if the client has gone, or the exchange has ended. */
    static native boolean isGone(long exchange);

    /** Writes lines to the daemon's log. */
    static native void log(int level, byte[] message);

    /** Waits until somebody asks where the process is. */
    static native void where();

    /** Tells all threads of the process to leave. */
    static native void stop();
}
