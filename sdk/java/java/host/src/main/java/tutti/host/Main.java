package tutti.host;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ErrorHandler;
import org.eclipse.jetty.util.VirtualThreads;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** The life of the web application in this process; the Rust part calls the methods in order ({@code lifecycle.rs}). */
public final class Main {
    private static Settings settings;
    private static Server server;
    private static TransportConnector connector;
    private static Open open;
    private static Executor executor;
    private static final List<Thread> THREADS = new ArrayList<>();

    private Main() {}

    static Server server() {
        return server;
    }

    /** Starts the web application; null, or the {@link Failure} when it does not start. */
    static byte[] start(byte[] bytes) {
        settings = new Settings(bytes);
        try {
            LogProvider.install();
            boolean isVirtual = Boolean.parseBoolean(settings.get("virtual"));
            executor = isVirtual ? VirtualThreads.getDefaultVirtualThreadsExecutor() : null;
            open = new Open(executor);
            // For what Jetty runs beside requests: asynchronous dispatches, timeouts.
            QueuedThreadPool pool = new QueuedThreadPool();
            pool.setName("jetty");
            pool.setMinThreads(1);
            pool.setReservedThreads(0);
            pool.setDaemon(true);
            if (isVirtual) {
                pool.setVirtualThreadsExecutor(executor);
            }
            server = new Server(pool);
            HttpConfiguration configuration = new HttpConfiguration();
            // These fields are the server's.
            configuration.setSendServerVersion(false);
            configuration.setSendDateHeader(false);
            // WebSockets read into these: applications take the array of a binary message, as other servers let them.
            configuration.setUseInputDirectByteBuffers(false);
            connector = new TransportConnector(server, configuration);
            server.addConnector(connector);
            ErrorHandler errors = new ErrorHandler();
            errors.setShowStacks(false);
            server.setErrorHandler(errors);
            Webapp.install(server, settings);
            server.start();
            return null;
        } catch (Throwable error) {
            try {
                Log.error("the web application does not start", error);
                return Failure.of(error, settings.get("generation")).bytes();
            } catch (OutOfMemoryError again) {
                return Failure.of(again, "").bytes();
            }
        }
    }

    /** True if paths may have parameters. */
    static boolean takesParameters() {
        return Boolean.parseBoolean(settings.get("parameters"));
    }

    /** Starts so many threads that take requests; null when all of them do. */
    static byte[] serve(byte[] bytes) {
        int count = Integer.parseInt(new String(bytes, StandardCharsets.US_ASCII));
        long stack = Long.parseLong(settings.get("stack"));
        try {
            CountDownLatch begun = new CountDownLatch(count);
            for (int index = 0; index < count; index++) {
                Taker taker = new Taker(connector, open, executor, begun);
                Thread thread = new Thread(null, taker, "request-" + index, stack);
                thread.setDaemon(true);
                thread.start();
                THREADS.add(thread);
            }
            begun.await();
            Thread where = new Thread(null, new Where(open), "where");
            where.setDaemon(true);
            where.start();
            return null;
        } catch (Throwable error) {
            Native.stop();
            Log.error("a thread cannot be started", error);
            return new Failure(error.toString(), "lower `threads` or `thread_stack_size`", "threads").bytes();
        }
    }

    /** Waits until all threads have to leave and no request is left, stops the web application and ends the process. */
    static byte[] join(byte[] bytes) {
        int code = 0;
        try {
            for (Thread thread : THREADS) {
                thread.join();
            }
            open.awaitNone();
            server.stop();
        } catch (Throwable error) {
            Log.error("the web application does not stop as it should", error);
            code = 1;
        }
        // Threads that the application has left behind do not keep the process; its shutdown hooks run.
        System.exit(code);
        return null;
    }
}
